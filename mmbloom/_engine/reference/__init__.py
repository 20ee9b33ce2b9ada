"""The definition of every kernel, in numpy: it always works, and decides what is right.

``hash``      keys to hash halves, by SipHash or MurmurHash3; the only importer of mmh3
``bits``      test, add, claim, commit on an array of bits
``counters``  the same, and decrement, on an array of counters
``holding``   who holds a write lock, whatever a signal handler does
``lines``     where lines begin and end; which part of one is its key
``members``   the member of a line of JSON that is its key, as far as no parser is needed
``rows``      where rows of CSV begin and end; the columns of each that are its key
``single``    a key at a time: each call checks the file
``slices``    keys sorted by the slice of a filter that has their bits
"""
