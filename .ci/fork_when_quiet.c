/* A fork that waits until every other thread sleeps, for programs under .ci/sanitize.

   The libasan of gcc 12 does not unlock its allocator in a child: if another thread was in it at
   the fork, the child's first malloc waits for ever. Threads are in it also when Python's code has
   none left, as one that has just ended gives its memory back. Of 300 forks beside threads that
   allocate, 58 children hung, and none with this.

   Preloaded. The thread that forks has Python's global lock, so that threads of Python fall asleep
   for it. A thread that waits for a disk or a page is not taken for one that sleeps. */

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int sleeps(long thread)
{
    char path[64], stat[512];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 1; /* It has ended. */
    ssize_t length = read(file, stat, sizeof stat - 1);
    close(file);
    if (length <= 0)
        return 1;
    stat[length] = '\0';
    /* The state follows the name, which may hold any character. */
    return strchr("SZX", strrchr(stat, ')')[2]) != NULL;
}

static int others_sleep(void)
{
    int asleep = 1;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; asleep && (entry = readdir(threads)) != NULL;) {
        long thread = atol(entry->d_name); /* 0 of "." and ".." */
        asleep = thread == 0 || thread == syscall(SYS_gettid) || sleeps(thread);
    }
    closedir(threads);
    return asleep;
}

static void wait_for_others(void)
{
    const struct timespec a_while = {.tv_nsec = 100000};
    while (!others_sleep())
        nanosleep(&a_while, NULL);
}

__attribute__((constructor)) static void before_each_fork(void)
{
    pthread_atfork(wait_for_others, NULL, NULL);
}
