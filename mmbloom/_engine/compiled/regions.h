/* Keys in the order of the regions of the array.

   In an array of gigabytes each block of a key is a cache miss, and also a miss in the processor's
   table of pages, which costs more: the table below has what a key takes. So the keys
   of a large batch are sorted by regions of 4 MiB, and those of one region are done together. The
   sort is stable, and keys of different regions share no bit, so each answer is that of the given
   order.

   Regions are independent, so several threads add in different ones, under the caller's one lock.
   Sorting needs no lock: `arrange` usually comes before it. */

#ifndef MMBLOOM_REGIONS_H
#define MMBLOOM_REGIONS_H

#include <stdlib.h>
#include "blocks.h"
#include "threads.h"

enum {
    REGION_BYTES = 1 << 22,
    REGIONS_A_THREAD = 16,  /* regions are smaller than REGION_BYTES if a thread would have fewer */
    MOST_REGIONS = 1 << 16, /* each thread has a number for each */
    GATHERED = 512 /* keys done at a time: so many that the first few, whose lines are not
                      prefetched, do not matter, and few enough for the first cache */
};

/* When keys are ordered. Nanoseconds a key, batches of a million, with the arranging, in the order
   given and by regions; on an AMD EPYC, in shared memory of pages of 4 KiB:

       array    lines of a key  1 thread: add   present   absent   2 threads: add  present  absent
       0.1 GB   1               15, 21          14, 21    14, 22   20, 16          7, 17    7, 16
       0.4 GB   1               30, 21          16, 21    16, 20   22, 19          8, 18    8, 17
       1.2 GB   1               42, 25          18, 21    17, 22   36, 13          9, 12    9, 12
       3.7 GB   1               82, 39          40, 32    40, 32   82, 27          20, 28   18, 27
       0.4 GB   2               51, 42          31, 40    23, 30   58, 27          20, 22   13, 20
       1.2 GB   2               206, 52         112, 46   54, 35   210, 28         31, 26   17, 19
       3.9 GB   2               303, 73         162, 60   85, 47   290, 43         85, 38   42, 26
       0.1 GB   4 (counters)    51, 35          42, 27    43, 27   47, 26          22, 20   21, 20
       0.4 GB   4               84, 44          53, 41    52, 42   81, 38          31, 31   28, 31
       0.9 GB   4               272, 58         163, 52   153, 53  229, 34         45, 32   38, 34
       2.8 GB   4               302, 92         154, 74   156, 74  314, 45         94, 40   74, 40

   In the order given several threads can ask, but only one can add. Let W be the bytes of the
   array times the lines of a key: to ask, an order pays where W is 2 GiB or more for each thread;
   to change, where W times the threads is 512 MiB or more. With huge pages it brings less. A
   batch of 65,536 keys gains nothing and loses nothing, one of 250,000 half of its time.

   In the standard layout each bit would be sorted by itself, which is slower: a prototype took 141
   instead of 57 for 7 bits in 1.2 GB, and 490 instead of 300 for 20 in 3.6 GB. */
#define FEWEST_IN_REGIONS ((ptrdiff_t)1 << 16)
#define LARGE_TO_ASK ((uint64_t)2 << 30)
#define LARGE_TO_CHANGE ((uint64_t)512 << 20)

/* Tests keys, and may add or remove them; returns how many positions it set or cleared. */
typedef uint64_t (*Kernel)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers);

/* The keys of a batch, region after region, and what the threads that work on them share. */
typedef struct {
    ptrdiff_t n;
    int threads;
    uint64_t *o1, *o2; /* the hashes, in this order */
    uint32_t *rows;    /* where each of these keys is in the batch */
    ptrdiff_t starts[MOST_THREADS + 1]; /* each thread's first key, in whole regions; and n */
    const uint64_t *h1, *h2;            /* the hashes, in the order given */
    Shape shape;       /* of the arrays that it is an order for */
    int shift;         /* from a block to its region */
    size_t regions;
    ptrdiff_t *places; /* of each thread, for each region: how many keys, then the next place */
    Kernel kernel;
    const uint64_t *words;
    uint8_t *answers;
    uint64_t changed[MOST_THREADS];
} Order;

INLINE size_t region_of(const Order *all, uint64_t h1)
{
    return (size_t)(home_of(&all->shape, h1, all->shape.paged) >> all->shift);
}

/* The first key that a thread takes of all in the order given. */
INLINE ptrdiff_t share(const Order *all, int thread)
{
    return all->n * thread / all->threads; /* n is below 2^32 */
}

static inline void count_regions(void *order, int thread)
{
    Order *all = (Order *)order;
    ptrdiff_t *places = all->places + all->regions * (size_t)thread;
    ptrdiff_t after = share(all, thread + 1);
    for (ptrdiff_t j = share(all, thread); j < after; j++)
        places[region_of(all, all->h1[j])]++;
}

/* Turn counts into places: region after region, and in each the threads in order. The keys are
   shared out to the threads again, in whole regions. */
static inline void place_regions(Order *all)
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

static inline void copy_keys(void *order, int thread)
{
    Order *all = (Order *)order;
    ptrdiff_t *places = all->places + all->regions * (size_t)thread;
    ptrdiff_t after = share(all, thread + 1);
    for (ptrdiff_t j = share(all, thread); j < after; j++) {
        ptrdiff_t at = places[region_of(all, all->h1[j])]++;
        all->o1[at] = all->h1[j];
        all->o2[at] = all->h2[j];
        all->rows[at] = (uint32_t)j;
    }
}

static inline void work_in_regions(void *order, int thread)
{
    Order *all = (Order *)order;
    uint64_t changed = 0;
    uint8_t answers[GATHERED];
    for (ptrdiff_t at = all->starts[thread]; at < all->starts[thread + 1]; at += GATHERED) {
        ptrdiff_t left = all->starts[thread + 1] - at, some = left < GATHERED ? left : GATHERED;
        changed += all->kernel(all->words, all->o1 + at, all->o2 + at, some, &all->shape, answers);
        for (ptrdiff_t i = 0; i < some; i++)
            all->answers[all->rows[at + i]] = answers[i];
    }
    all->changed[thread] = changed;
}

/* Return whether an order of n keys is worth it. A position has `width` bits, so a block has
   `width` lines. */
INLINE int in_regions(const Shape *shape, ptrdiff_t n, int width, uint64_t large)
{
    return (shape->blocked || shape->paged) && n >= FEWEST_IN_REGIONS && n <= UINT32_MAX
        && shape->num_bits / 8 * (uint64_t)(width * width * shape->blocks) >= large;
}

/* Bring keys into the order of regions; return whether there was memory for it. The hashes are
   read twice, and must not change in between: a key could get into the region of another thread. */
INLINE int arrange_keys(
    Order *all, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n, const Shape *shape,
    int width, ptrdiff_t threads)
{
    *all = (Order){
        .n = n, .threads = threads_for(n, threads), .h1 = h1, .h2 = h2, .shape = *shape,
        .shift = shape->paged ? 6 : 0}; /* the blocks of a key are in one page */
    while (((uint64_t)(8 * BLOCK_WORDS * width) << all->shift < REGION_BYTES
            && shape->num_blocks >> all->shift > (uint64_t)(REGIONS_A_THREAD * all->threads))
           || shape->num_blocks >> all->shift >= MOST_REGIONS)
        all->shift++;
    all->regions = (size_t)(shape->num_blocks >> all->shift) + 1;
    all->places = calloc(all->regions * (size_t)all->threads, sizeof(ptrdiff_t));
    all->o1 = malloc((size_t)n * (2 * sizeof(uint64_t) + sizeof(uint32_t)));
    if (all->o1 != NULL && all->places != NULL) {
        all->o2 = all->o1 + n;
        all->rows = (uint32_t *)(all->o2 + n);
        in_threads(count_regions, all, all->threads);
        place_regions(all);
        in_threads(copy_keys, all, all->threads);
    }
    free(all->places);
    return all->o1 != NULL && all->places != NULL;
}

/* Return whether an order is one of n keys for an array. */
INLINE int is_order_of(const Order *all, ptrdiff_t n, const Shape *shape)
{
    return all->n == n && all->shape.num_bits == shape->num_bits
        && all->shape.num_hashes == shape->num_hashes && all->shape.blocks == shape->blocks;
}

/* Run a kernel region after region; return the kernel's result. */
INLINE uint64_t work_in_order(
    Order *all, Kernel kernel, const uint64_t *words, uint8_t *answers)
{
    uint64_t changed = 0;
    all->kernel = kernel;
    all->words = words;
    all->answers = answers;
    in_threads(work_in_regions, all, all->threads);
    for (int t = 0; t < all->threads; t++)
        changed += all->changed[t];
    return changed;
}

#endif
