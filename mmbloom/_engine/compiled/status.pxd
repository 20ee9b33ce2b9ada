"""What is at a path: what `single` needs of it, with no object made."""

from libc.stdint cimport uint64_t


cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/stat.h>
    typedef struct { uint64_t device, inode, size, mtime; unsigned int mode; } mmbloom_Stamp;
    /* What is there; False, and errno, if that cannot be seen. */
    static inline int mmbloom_look(const char *path, mmbloom_Stamp *found) {
        struct stat status;
        if (stat(path, &status)) return 0;
        found->device = status.st_dev;
        found->inode = status.st_ino;
        found->size = status.st_size;
        found->mode = status.st_mode;
        found->mtime = (uint64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        return 1;
    }
    """
    ctypedef struct Stamp "mmbloom_Stamp":
        uint64_t device, inode, size, mtime
        unsigned int mode
    bint look "mmbloom_look"(const char *, Stamp *) noexcept nogil
