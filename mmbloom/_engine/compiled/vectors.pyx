# cython: language_level=3
"""Which vector instructions the kernels use: the best the processor has, or the requested ones.

One build serves all processors: each kernel is compiled for several kinds of vectors, and one is
chosen here, once, when the engine is imported. No answer depends on it.
"""

NAMES = ("scalar", "neon", "avx2", "avx512")  # by number, the best last

cdef int chosen = SCALAR


def kinds():
    """Return the kinds of vectors that this machine can run, the best last."""
    return [name for number, name in enumerate(NAMES) if can_run(number)]


def use(kind=None):
    """Use a kind of vectors in all kernels from now on; the best one for None.

    Raises ValueError if there is no such kind, or this machine cannot run it.
    """
    global chosen
    here = kinds()
    if kind is not None and kind not in here:
        what = "which this processor lacks" if kind in NAMES else "which is no kind of vectors"
        raise ValueError(
            f"MMBLOOM_VECTORS is {kind!r}, {what}: expected one of {', '.join(here)}, or unset it"
        )
    chosen = NAMES.index(here[-1] if kind is None else kind)


def used():
    """Return the kind that the kernels use."""
    return NAMES[chosen]
