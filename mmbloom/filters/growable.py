"""A single file of bits as the shelf of a filter: it may become a folder while it is open.

The modules of folders take milliseconds to import, and most files never become one. So they are
imported here, when one does.
"""

import os

from mmbloom.filters.file import File
from mmbloom.filters.shelf import OneFile


class GrowableFile(OneFile):
    """A file that becomes the first of a folder, by this process or another one."""

    def follow(self) -> bool:  # noqa: D102  as in the base
        if os.path.isdir(self.path):
            from mmbloom.filters.growing import become  # noqa: PLC0415

            become(self)
        return not isinstance(self, GrowableFile)

    def make_next(self, number: int) -> File:
        """Make the folder, and in it the file that is to be the newest; within `section`."""
        from mmbloom.filters.grow import grow_in_use  # noqa: PLC0415

        grow_in_use(self)
        return self.make_next(number)
