/* The loops over keys whose bits lie in blocks, for one kind of vectors: `blocks.h` includes this
   once for each, with KIND and TARGET defined. */

#define PASTE(name, kind) name##_##kind
#define OF_KIND(name, kind) PASTE(name, kind)
#define NAME(name) OF_KIND(name, KIND)

/* Ask for the lines of the keys that come first, of each loop. */
#ifndef MMBLOOM_FOR_KEYS
#define MMBLOOM_FOR_KEYS
#define FOR_KEYS(write) \
    for (ptrdiff_t j = 0; j < n && j < AHEAD; j++) \
        ask_for_blocks(shape, words, h1[j], write, paged); \
    for (ptrdiff_t j = 0; j < n; j++)
#define ASK_AHEAD(write) \
    if (j + AHEAD < n) \
        ask_for_blocks(shape, words, h1[j + AHEAD], write, paged)
#endif

TARGET INLINE void NAME(find_each)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers, int paged)
{
    FOR_KEYS(0) {
        uint64_t home = home_of(shape, h1[j], paged);
        int found = 1;
        ASK_AHEAD(0);
        /* The first block tells nearly all absent keys: half of the work, or more, is saved. */
        for (int b = 0; found && b < num_blocks_of(shape, paged); b++)
            found = NAME(has)(
                words + BLOCK_WORDS * block_at(home, h1[j], b, paged), h2[j],
                shape->multipliers + b * shape->in_each, shape->in_each);
        answers[j] = (uint8_t)found;
    }
}

/* Test keys: 1 for each whose bits are all set. */
TARGET static void NAME(find)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers)
{
    if (shape->paged)
        NAME(find_each)(words, h1, h2, n, shape, answers, 1);
    else
        NAME(find_each)(words, h1, h2, n, shape, answers, 0);
}

TARGET INLINE void NAME(find_lacking_each)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *lacking, int paged)
{
    FOR_KEYS(0) {
        uint64_t home = home_of(shape, h1[j], paged);
        int found = 0;
        ASK_AHEAD(0);
        for (int b = 0; b < num_blocks_of(shape, paged); b++)
            found |= !NAME(has)(
                words + BLOCK_WORDS * block_at(home, h1[j], b, paged), h2[j],
                shape->multipliers + b * shape->in_each, shape->in_each) << b;
        lacking[j] = (uint8_t)found;
    }
}

/* Tell which blocks of each key lack a bit of it: bit b for its b-th block, of 8 at most. */
TARGET static void NAME(find_lacking)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *lacking)
{
    if (shape->paged)
        NAME(find_lacking_each)(words, h1, h2, n, shape, lacking, 1);
    else
        NAME(find_lacking_each)(words, h1, h2, n, shape, lacking, 0);
}

TARGET INLINE uint64_t NAME(set_each)(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers, int paged)
{
    uint64_t newly_set = 0;
    FOR_KEYS(1) {
        uint64_t home = home_of(shape, h1[j], paged), clear = 0;
        ASK_AHEAD(1);
        for (int b = 0; b < num_blocks_of(shape, paged); b++)
            clear += NAME(set)(
                words + BLOCK_WORDS * block_at(home, h1[j], b, paged), h2[j],
                shape->multipliers + b * shape->in_each, shape->in_each);
        answers[j] = clear != 0;
        newly_set += clear;
    }
    return newly_set;
}

/* Test and set keys, one after the other: 1 for each of which a bit was clear when its turn came.
   Gives how many bits were. */
TARGET static uint64_t NAME(set_keys)(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers)
{
    return shape->paged ? NAME(set_each)(words, h1, h2, n, shape, answers, 1)
                        : NAME(set_each)(words, h1, h2, n, shape, answers, 0);
}

/* Set what the cells of a claim hold; gives how many bits were clear. */
TARGET static uint64_t NAME(commit)(
    uint64_t *words, const Cell *cells, size_t used, const uint64_t *h2, const uint64_t *masks,
    const Shape *shape)
{
    uint64_t newly_set = 0;
    for (size_t slot = 0; slot < used; slot++) {
        uint64_t held = cells[slot].held, *block = words + BLOCK_WORDS * cells[slot].at;
        if (slot + AHEAD < used)
            PREFETCH(words + BLOCK_WORDS * cells[slot + AHEAD].at, 1);
        if (held & MET)
            newly_set += NAME(join)(block, masks + BLOCK_WORDS * (held & ~MET));
        else
            newly_set += NAME(put)(
                block, h2[held >> 3], shape->multipliers + (held & 7) * shape->in_each,
                shape->in_each);
    }
    return newly_set;
}

#undef NAME
#undef OF_KIND
#undef PASTE
#undef KIND
#undef TARGET
