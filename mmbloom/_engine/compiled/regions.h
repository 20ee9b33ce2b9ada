/* Large batches on large arrays: keys in the order of the regions of the array.

   In an array of gigabytes each block of a key is a cache miss, and also a miss in the processor's
   table of pages, which costs more: adding takes 15 ns a key in 1.2 GB, 180 in 3.9 GB. So the keys
   of a large batch are sorted by regions of 4 MiB, and those of one region are done together. The
   sort is stable, and keys of different regions share no bit, so each answer is that of the given
   order.

   Regions are independent, so several threads work in different ones, under the caller's one lock.
   These threads live no longer than a call, run no Python, and block signals: the call always ends
   after all of them. */

#ifndef MMBLOOM_REGIONS_H
#define MMBLOOM_REGIONS_H

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include "blocks.h"

enum {
    REGION_BYTES = 1 << 22,
    MOST_REGIONS = 1 << 16,    /* so a number fits in two bytes */
    FEWEST_A_THREAD = 1 << 15, /* keys that take as long as to start some threads */
    MOST_THREADS = 64,
    GATHERED = 512 /* keys done at a time: so many that the first few, whose lines are not
                      prefetched, do not matter, and few enough for the first cache */
};

/* When keys are ordered. Nanoseconds a key, batches of a million, one thread, in the order given and
   by regions:

       array      blocks of a key   add         present     absent
       0.4 GB     2                 43, 34      23, 25      18, 22
       1.2 GB     2                 127, 38     71, 30      42, 26
       3.9 GB     2                 181, 60     107, 39     94, 37
       1.2 GB     1                 15, 23      11, 20      12, 20
       3.7 GB     1                 70, 37      30, 25      32, 27

   For counters, whose blocks have four lines, to add: 0.9 GB and 1 block 70, 67; 2.8 GB and 1 block
   133, 69; 2.9 GB and 2 blocks 245, 158. Queries and removals take two thirds of that.

   In the standard layout each bit would be sorted by itself, which is slower: a prototype took 141
   instead of 57 for 7 bits in 1.2 GB, and 490 instead of 300 for 20 in 3.6 GB.

   That was an AMD EPYC. On an Intel Xeon with huge pages and 300 MB of cache, sorting helps adding
   as much, and queries not at all: 22 to 28 ns either way, at 3.9 GB and two threads.

   So it is worth it where the size of the array times the blocks of a key is 2 GiB or more. A
   batch of 65,536 keys gains nothing and loses nothing, one of 250,000 half of its time. */
#define FEWEST_IN_REGIONS ((ptrdiff_t)1 << 16)
#define MOST_IN_REGIONS ((ptrdiff_t)1 << 20) /* of a call: 22 MB of hashes and order */
#define LARGE_ARRAY_BYTES ((uint64_t)2 << 30)

/* Tests keys, and may add or remove them; returns how many positions it set or cleared. */
typedef uint64_t (*Kernel)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers);

typedef struct {
    Kernel kernel;
    const Shape *shape;
    const uint64_t *words;
    const uint64_t *h1, *h2;
    ptrdiff_t n;
    uint8_t *answers;
    int threads;
    int shift; /* from a block to its region */
    size_t regions;
    uint16_t *numbers; /* of each key, its region */
    uint32_t *rows;    /* the keys, in the order of regions: where each is in the batch */
    ptrdiff_t *places; /* of each thread, for each region: how many keys, then where the next goes */
    ptrdiff_t *starts; /* of each thread, and of one more: its first key of those in order */
    uint64_t changed[MOST_THREADS];
} Regions;

typedef void (*Part)(Regions *, int);

typedef struct {
    Regions *all;
    Part part;
    int thread;
} Task;

static void *run_task(void *given)
{
    Task *task = (Task *)given;
    task->part(task->all, task->thread);
    return NULL;
}

/* Do a part of the work in each thread. The caller's thread is the first, and also does the parts
   of threads that could not be started. */
static void in_threads(Regions *all, Part part)
{
    pthread_t started[MOST_THREADS];
    Task tasks[MOST_THREADS];
    int running[MOST_THREADS] = {0};
    sigset_t every, before;
    if (all->threads > 1) {
        sigfillset(&every); /* signals go to Python's threads, except this thread's own faults */
        sigdelset(&every, SIGSEGV);
        sigdelset(&every, SIGBUS);
        sigdelset(&every, SIGFPE);
        sigdelset(&every, SIGILL);
        pthread_sigmask(SIG_SETMASK, &every, &before);
        for (int t = 1; t < all->threads; t++) {
            tasks[t] = (Task){all, part, t};
            running[t] = !pthread_create(&started[t], NULL, run_task, &tasks[t]);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    part(all, 0);
    for (int t = 1; t < all->threads; t++) {
        if (running[t])
            pthread_join(started[t], NULL);
        else
            part(all, t);
    }
}

INLINE size_t region_of(const Regions *all, uint64_t h1)
{
    return (size_t)(home_of(all->shape, h1, all->shape->paged) >> all->shift);
}

/* The first key that a thread takes of all in the order given. */
INLINE ptrdiff_t share(const Regions *all, int thread)
{
    return all->n * thread / all->threads; /* n is below 2^32 */
}

static void count_regions(Regions *all, int thread)
{
    ptrdiff_t *places = all->places + all->regions * (size_t)thread;
    ptrdiff_t after = share(all, thread + 1);
    for (ptrdiff_t j = share(all, thread); j < after; j++) {
        all->numbers[j] = (uint16_t)region_of(all, all->h1[j]);
        places[all->numbers[j]]++;
    }
}

/* Turn counts into places: region after region, and in each the threads in order. The keys are
   shared out to the threads again, in whole regions. */
static void place_regions(Regions *all)
{
    ptrdiff_t next = 0;
    int thread = 1;
    for (size_t region = 0; region < all->regions; region++) {
        while (thread < all->threads && next >= share(all, thread))
            all->starts[thread++] = next;
        for (int t = 0; t < all->threads; t++) {
            ptrdiff_t *place = all->places + all->regions * (size_t)t + region, some = *place;
            *place = next;
            next += some;
        }
    }
    while (thread <= all->threads)
        all->starts[thread++] = all->n;
}

static void order_keys(Regions *all, int thread)
{
    ptrdiff_t *places = all->places + all->regions * (size_t)thread;
    ptrdiff_t after = share(all, thread + 1);
    for (ptrdiff_t j = share(all, thread); j < after; j++)
        all->rows[places[all->numbers[j]]++] = (uint32_t)j;
}

static void work_in_regions(Regions *all, int thread)
{
    uint64_t h1[GATHERED], h2[GATHERED], changed = 0;
    uint8_t answers[GATHERED];
    for (ptrdiff_t at = all->starts[thread]; at < all->starts[thread + 1]; at += GATHERED) {
        const uint32_t *rows = all->rows + at;
        ptrdiff_t left = all->starts[thread + 1] - at, some = left < GATHERED ? left : GATHERED;
        for (ptrdiff_t i = 0; i < some; i++) {
            h1[i] = all->h1[rows[i]];
            h2[i] = all->h2[rows[i]];
        }
        changed += all->kernel(all->words, h1, h2, some, all->shape, answers);
        for (ptrdiff_t i = 0; i < some; i++)
            all->answers[rows[i]] = answers[i];
    }
    all->changed[thread] = changed;
}

/* Return whether a batch is worth sorting; a position of the array has `width` bits. */
INLINE int in_regions(const Shape *shape, ptrdiff_t n, int width)
{
    return (shape->blocked || shape->paged) && n >= FEWEST_IN_REGIONS && n <= UINT32_MAX
        && shape->num_bits / 8 * (uint64_t)(width * shape->blocks) >= LARGE_ARRAY_BYTES;
}

/* Run a kernel region after region; return the kernel's result. Without memory do nothing, and
   return UINT64_MAX. The hashes are read twice, and must not change in between: otherwise a key
   could get into the region of another thread. */
static uint64_t do_in_regions(
    Kernel kernel, const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers, int width, int threads)
{
    Regions all = {
        .kernel = kernel, .shape = shape, .words = words, .h1 = h1, .h2 = h2, .n = n,
        .answers = answers};
    ptrdiff_t starts[MOST_THREADS + 1] = {0};
    uint64_t changed = 0;
    ptrdiff_t most = n / FEWEST_A_THREAD;
    all.threads = threads < most ? threads : (int)most;
    all.threads = all.threads < 1 ? 1 : all.threads > MOST_THREADS ? MOST_THREADS : all.threads;
    all.shift = 0;
    while ((uint64_t)(8 * BLOCK_WORDS * width) << all.shift < REGION_BYTES
           || shape->num_blocks >> all.shift >= MOST_REGIONS)
        all.shift++;
    all.regions = (size_t)(shape->num_blocks >> all.shift) + 1;
    all.starts = starts;
    all.rows = malloc((size_t)n * (sizeof(uint32_t) + sizeof(uint16_t)));
    all.places = calloc(all.regions * (size_t)all.threads, sizeof(ptrdiff_t));
    if (all.rows == NULL || all.places == NULL) {
        free(all.rows);
        free(all.places);
        return UINT64_MAX;
    }
    all.numbers = (uint16_t *)(all.rows + n);
    in_threads(&all, count_regions);
    place_regions(&all);
    in_threads(&all, order_keys);
    in_threads(&all, work_in_regions);
    for (int t = 0; t < all.threads; t++)
        changed += all.changed[t];
    free(all.rows);
    free(all.places);
    return changed;
}

#endif
