"""Which vector instructions the kernels of all modules use."""

cdef extern from "vectors.h":
    enum:
        SCALAR
        NEON
        AVX2
        AVX512
        KINDS
    bint can_run(int kind) noexcept nogil

cdef int chosen
