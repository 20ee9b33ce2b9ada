"""The kernels of ``reference`` in Cython, where they were built: equal to it byte for byte.

Each module but ``vectors`` has the functions of the reference's module of its name:

``bits``      test, add, claim, commit on an array of bits
``counters``  test, increment and decrement on an array of counters
``hash``      every form of keys to hash halves; which lists and arrays can be hashed as they are
``holding``   who holds a write lock, with no bytecode within
``lines``     where lines begin and end; which part of one is its key
``members``   the member of a line of JSON that is its key
``rows``      where rows of CSV begin and end; the columns of each that are its key
``single``    a key at a time, from the interpreter's slot to the bits
``slices``    keys sorted by the slice of a filter that has their bits
``vectors``   which vector instructions all of them use

What they share is inline code: ``blocks.h``, ``positions.pxd`` and ``overlay.pxd`` of bits;
``text.pxd`` and ``octets.h`` of keys, ``spans.pxd`` of lines; ``murmur.pxd`` and ``siphash.h``, to
both of which ``sink.pxd`` gives one name. Files in C are for the compilers' own names of vectors.
``_arrays``, which Cython writes when they are built, is what its own code for arrays calls.
"""
