"""Whole filters, by path: sources are read without a lock, never mapped, never changed.

``combine``  filters read together: united, intersected, compared
``copy``     a consistent copy of a live filter, sealed if asked for
``check``    verify: whether a filter is sound; repair: a sound filter from a damaged one
``guava``    files of Guava's BloomFilter, in and out
"""
