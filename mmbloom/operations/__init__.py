"""Whole filters, by path: read without a lock, never mapped, never changed.

``copy``       a consistent copy of a live filter, sealed or not
``merge``      filters united
``intersect``  filters intersected
``compare``    how many keys two filters share
``verify``     is this a sound filter?
``repair``     a sound filter of a damaged one
``guava``      files of Guava's BloomFilter, in and out
``combine``    several filters read side by side
"""
