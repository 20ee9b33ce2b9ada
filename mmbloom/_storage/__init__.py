"""One file on the disk, or one folder of files, and the lock that guards it.

``kinds``           bits or counters
``opening``         a regular file, its header proved before its use
``atomic``          new files and folders: whole or not at all, their disk space reserved
``build``           a new filter file, written front to back
``resident``        the array in shared memory, where the page cache could not keep its changes
``counters``        the numbers in a header that change
``place``           where the array lies, mapped
``mapped``          a filter file, open: looked at before its array is touched
``unmapped``        a filter file, read with pread
``lock``            one writer; the only importer of filelock
``exclusion_list``  the file of exclusions, read and replaced
``folder``          a folder and its manifest, read and changed
"""
