"""Declarations of ``threads.h``: the threads of a call."""


cdef extern from "threads.h":
    enum:
        MOST_THREADS
        FEWEST_A_THREAD

    ctypedef void (*Part)(void *work, int thread) noexcept nogil

    int threads_for(Py_ssize_t n, Py_ssize_t threads) noexcept nogil
    void in_threads(Part, void *work, int threads) noexcept nogil
    Py_ssize_t take_next(Py_ssize_t *next, Py_ssize_t some, Py_ssize_t n) noexcept nogil
