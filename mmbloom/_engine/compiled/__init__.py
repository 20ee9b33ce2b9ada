"""The kernels of ``reference`` in Cython, where they were built: equal to it byte for byte.

``bits``      test and add on an array of bits
``claim``     claim and commit
``several``   test in several arrays at once
``counters``  test, increment and decrement on an array of counters
``hash``      every form of keys to hash halves
``text``      which lists and arrays can be hashed as they are
``lines``     where lines begin and end; which part of one is its key
"""
