"""Operations on whole filters by path: sources are read without a lock, never mapped or changed.

``combine``  union, intersection and comparison of filters
``copy``     a consistent copy of a filter in use, sealed on request
``check``    verify: check whether a filter is sound; repair: make a sound filter from a damaged one
``guava``    import and export of files of Guava's BloomFilter
"""
