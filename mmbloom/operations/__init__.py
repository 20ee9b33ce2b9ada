"""Whole filters, by path: read without a lock, never mapped, never changed; but for ``grow``.

``copy``       a consistent copy of a live filter, sealed or not
``merge``      filters united
``intersect``  filters intersected
``compare``    how many keys two filters share
``grow``       a full file becomes the first of a growing folder
``verify``     is this a sound filter?
``repair``     a sound filter of a damaged one
``guava``      files of Guava's BloomFilter, in and out
``combine``    several filters read side by side
"""
