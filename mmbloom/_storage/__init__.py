"""One file on the disk, or one folder of files, and the lock that guards it.

``kinds``           bits or counters
``opening``         a regular file, its header proved before its use
``atomic``          new files and folders: whole or not at all, their disk space reserved
``build``           a new filter file, written front to back
``mapped``          a filter file, mapped; the only importer of mmap
``unmapped``        a filter file, read with pread
``lock``            one writer; the only importer of filelock
``exclusion_list``  the file of exclusions, read and replaced
``folder``          a folder and its manifest, read and changed
"""
