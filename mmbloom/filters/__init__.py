"""An open filter, of one file or of several.

``base``        what any filter can be asked and told
``open``        whichever filter is at a path, opened or created
``options``     how it is opened; sizing arguments resolved
``file``        one opened file: made, opened, closed, pickled
``bloom``       `BloomFilter`, and its set operations
``counting``    `CountingBloomFilter`: keys can be removed
``writer``      the section, between lock and unlock; what goes past the capacity is told before
``claim``       answer now, mark later
``exclusions``  answers corrected by exclusions; the set that users change
``info``        `FilterInfo`: what a file says of itself
``chain``       the files of a folder: which there are, which is written to, which has a key
``folder``      what a filter of several files can be asked and told
``growing``     `GrowingFilter`
``rotating``    `RotatingFilter`
``grow``        room for more keys: a file becomes a folder, or a folder gets a file more
"""
