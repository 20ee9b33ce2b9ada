"""The kernels of ``reference`` in Cython, if they were built: equal to it byte for byte.

Each module except ``vectors`` has the functions of the reference's module of the same name:

``bits``      test, add, claim, commit on an array of bits
``counters``  test, increment and decrement on an array of counters
``hash``      every form of keys to hash halves; which lists and arrays can be hashed as they are
``holding``   who holds a write lock, without a bytecode between its steps
``lines``     where lines begin and end; which part of one is its key
``members``   the member of a line of JSON that is its key
``rows``      where rows of CSV begin and end; the columns of each that are its key
``single``    a key at a time, from the interpreter's slot to the bits
``slices``    keys sorted by the slice of a filter that has their bits
``vectors``   which vector instructions all of them use

They share inline code: ``blocks.h``, ``positions.pxd`` and ``overlay.pxd`` for bits; ``text.pxd``
and ``octets.h`` for keys, ``spans.pxd`` for lines; ``murmur.pxd`` and ``siphash.h`` for hashes,
behind the common interface of ``sink.pxd``. Vectors need files in C, for the compilers' own names.
Cython writes ``_arrays`` at each build: its own code for arrays calls it.
"""
