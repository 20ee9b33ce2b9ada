"""What the machine and the interpreter provide; nothing here knows of filters.

``interpreter``  refuses subinterpreters
``extras``       the libraries of the extras, imported only here
``typing``       type aliases
``reentry``      what a thread that holds the lock may do; the task that runs in it
``threads``      work on several cores, with results in order; reading ahead
``descriptors``  open files: above the standard streams, and renewed in a forked child
``memory``       how much is free or may be dirty; maps of files; the only importer of mmap
``mounts``       which file system a path is on
``holders``      which process holds the lock of a file
``moments``      how long a check of a file stays valid
"""
