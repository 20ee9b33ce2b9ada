"""One file on the disk, or one folder of files, and the lock that guards it.

``warnings``    warnings that point at the caller; past capacity
``opening``     a regular file whose header is proved before its use; its kind; its counters
``atomic``      new files and folders: whole or not at all, their disk space reserved
``build``       a new filter file, written front to back
``resident``    the array in shared memory, where the page cache could not keep its changes
``mapped``      a filter file, open: checked before its array is touched
``unmapped``    a filter file, read with pread
``lock``        one writer; the only importer of filelock
``exclusions``  the file of exclusions, read and replaced
``folder``      a folder and its manifest, read and changed
"""
