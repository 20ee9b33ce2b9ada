"""An open filter, made of one file or several.

``base``        `Filter`: the methods that all filters have
``open``        open or create whichever filter is at a path
``options``     options for opening a filter; resolution of sizing arguments
``file``        one open file: what happens to its array between lock and unlock
``full``        warnings and errors before a file goes past its capacity
``shelf``       the files of a filter: which one has a key, and which one gets it
``growable``    one file that may become a folder
``bloom``       `BloomFilter`, its set operations, and creation of a filter of one file
``counting``    `CountingBloomFilter`: keys can be removed
``claim``       answer now, add the keys later
``exclusions``  answers corrected by exclusions; the set that users change
``info``        `FilterInfo` and `FolderInfo`: descriptions of a file or a folder
``chain``       the files of a folder as a shelf: which ones exist, and which one is written to
``folder``      creation of a filter of several files
``growing``     `GrowingFilter`
``rotating``    `RotatingFilter`
``grow``        turn a file into a growing folder, from outside or while in use
"""
