"""An open filter, of one file or of several.

``base``        what any filter can be asked and told
``open``        whichever filter is at a path, opened or created
``options``     how it is opened; sizing arguments resolved
``file``        one open file: what happens to its array between lock and unlock
``full``        what goes past the capacity of a file is told before
``shelf``       the files of a filter: which has a key, which gets one; a section each
``growable``    one file that may become a folder
``bloom``       `BloomFilter`, and its set operations; how a filter of one file is created
``counting``    `CountingBloomFilter`: keys can be removed
``claim``       answer now, mark later
``exclusions``  answers corrected by exclusions; the set that users change
``info``        `FilterInfo` and `FolderInfo`: what a file or a folder says of itself
``chain``       the files of a folder as a shelf: which there are, which is written to
``folder``      how a filter of several files is created
``growing``     `GrowingFilter`
``rotating``    `RotatingFilter`
``grow``        a file becomes the first of a growing folder, from outside or in use
"""
