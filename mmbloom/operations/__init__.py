"""Whole filters, by path: read without a lock, never mapped, never changed.

``combine``  filters read side by side: intersected, compared
``merge``    filters united
``copy``     a consistent copy of a live filter, sealed or not
``check``    verify: is this a sound filter? repair: a sound filter from a damaged one
``guava``    files of Guava's BloomFilter, in and out
"""
