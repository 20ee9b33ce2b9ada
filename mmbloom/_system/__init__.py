"""What the machine and the interpreter provide; nothing here knows of filters.

``extras``       the libraries of the extras, imported only here
``typing``       type aliases
``sections``     sections of the write lock: who may be in one; how long the check before it holds
``threads``      work on several cores, with results in order; reading ahead
``descriptors``  open files: above the standard streams, and renewed in a forked child
``memory``       how much is free or may be dirty; maps of files; the only importer of mmap
``proc``         which file system a file is on, and which process holds its lock
"""
