"""An open filter, of one file or of several.

``base``        what any filter can be asked and told
``open``        whichever filter is at a path, opened or created
``options``     how it is opened; sizing arguments resolved
``shelf``       the files of a filter, and all that is written to the newest: a section each
``full``        what goes past the capacity is told before
``file``        a filter of one file, created and opened
``bloom``       `BloomFilter`, and its set operations
``counting``    `CountingBloomFilter`: keys can be removed
``claim``       answer now, mark later
``exclusions``  answers corrected by exclusions; the set that users change
``info``        `FilterInfo`: what a file says of itself
``chain``       the files of a folder as a shelf: which there are, which is written to
``folder``      a filter of several files, created and opened
``growing``     `GrowingFilter`
``rotating``    `RotatingFilter`
``grow``        room for more keys: a file becomes a folder, or a folder gets a file more
"""
