"""The definition of every kernel, in numpy: it always works, and decides what is right.

``bits``      test, add, claim, commit on an array of bits, or a key at a time; slices of it
``counters``  the same, and decrement, on an array of counters
``hash``      keys to hash halves, by SipHash or MurmurHash3; the only importer of mmh3
``holding``   who holds a write lock, whatever a signal handler does
``lines``     where lines begin and end, and rows of CSV; which part of one is its key
"""
