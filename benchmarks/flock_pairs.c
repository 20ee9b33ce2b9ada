/* The floor of a lone add: to lock a file and to unlock it, one pair after the other.

   flock_pairs FILE PAIRS

   Prints nanoseconds per pair of flock calls, exclusive and not waited for by anyone. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    unsigned long pairs = strtoul(arguments[2], NULL, 10);
    int fd = open(arguments[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || !pairs) return 1;
    double start = now();
    for (unsigned long i = 0; i < pairs; i++)
        if (flock(fd, LOCK_EX) || flock(fd, LOCK_UN)) return 1;
    printf("%.3f\n", (now() - start) / (double)pairs);
    close(fd);
    unlink(arguments[1]);
    return 0;
}
