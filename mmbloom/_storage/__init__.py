"""A filter on the disk, one file or a folder of files, and its lock.

``warnings``    warnings that point at the caller; those about full filters
``opening``     a regular file whose header is checked before its use; its kind; its counters
``atomic``      new files and folders: whole or not at all, their disk space reserved
``build``       a new filter file, written front to back
``mapped``      an open filter file, mapped: checked before its array is touched
``moving``      its array, in the file or in shared memory, and how it moves there and back
``working_copy``  the copy in shared memory, for files larger than may be dirty
``share``       the writers that use such a copy: the last one ends it
``unmapped``    a filter file, read with pread
``lock``        the write lock; the only importer of filelock
``exclusions``  the file of exclusions, read and replaced
``folder``      a folder and its manifest, read and changed
"""
