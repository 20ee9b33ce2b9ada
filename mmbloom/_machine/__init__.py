"""What the machine is, and gives: facts that the package goes by, maps, and nothing of filters.

``mounts``       which file system a path is on
``memory``       how much of it is free, and how much of a file it lets be dirty
``holders``      which process has the lock of a file
``forks``        what a forked child makes anew
``descriptors``  which number an open file has, and when it is closed
``moments``      for how long a look at a file is good
``pages``        maps of files, and the pages that they consist of; the only importer of mmap
"""
