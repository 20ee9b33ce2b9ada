/* The loops over keys whose bits lie in blocks, for one kind of vectors: `blocks.h` includes this
   once for each, with KIND and TARGET defined. */

#define PASTE(name, kind) name##_##kind
#define OF_KIND(name, kind) PASTE(name, kind)
#define NAME(name) OF_KIND(name, KIND)

/* Prefetch the lines of the first keys of a loop. */
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
        /* For nearly all absent keys the first block decides: half of the work or more is saved. */
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

TARGET INLINE size_t NAME(claim_each)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, const uint8_t *meeting, uint8_t *lacking, uint32_t *notes, int paged)
{
    size_t used = 0;
    FOR_KEYS(0) {
        uint64_t home = home_of(shape, h1[j], paged);
        unsigned found = 0, alone = !meeting[j];
        ASK_AHEAD(0);
        for (int b = 0; b < num_blocks_of(shape, paged); b++) {
            unsigned lacks = !NAME(has)(
                words + BLOCK_WORDS * block_at(home, h1[j], b, paged), h2[j],
                shape->multipliers + b * shape->in_each, shape->in_each);
            found |= lacks << b;
            /* Without a branch, which would be mispredicted for every third key of a log. The next
               note overwrites that of a block that has all bits. */
            notes[used] = (uint32_t)(8 * j + b);
            used += lacks & alone;
        }
        lacking[j] = (uint8_t)found;
    }
    return used;
}

/* Find which blocks of each key have a clear bit of it: bit b for its b-th block, of 8 at most. For
   keys that share no block with others, note 8 * j + b for the b-th block of key j. Returns the
   number of notes. */
TARGET static size_t NAME(claim)(
    const uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, const uint8_t *meeting, uint8_t *lacking, uint32_t *notes)
{
    return shape->paged
        ? NAME(claim_each)(words, h1, h2, n, shape, meeting, lacking, notes, 1)
        : NAME(claim_each)(words, h1, h2, n, shape, meeting, lacking, notes, 0);
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

/* Test and set keys, one after the other: 1 for each that had a clear bit when its turn came.
   Returns how many bits were clear. */
TARGET static uint64_t NAME(set_keys)(
    uint64_t *words, const uint64_t *h1, const uint64_t *h2, ptrdiff_t n,
    const Shape *shape, uint8_t *answers)
{
    return shape->paged ? NAME(set_each)(words, h1, h2, n, shape, answers, 1)
                        : NAME(set_each)(words, h1, h2, n, shape, answers, 0);
}

TARGET INLINE uint64_t NAME(commit_each)(
    uint64_t *words, const uint32_t *notes, size_t noted, const uint64_t *h1, const uint64_t *h2,
    const Shape *shape, int paged)
{
    uint64_t newly_set = 0;
    for (size_t i = 0; i < noted; i++) {
        uint64_t note = notes[i];
        if (i + AHEAD < noted)
            PREFETCH(words + BLOCK_WORDS * block_of_note(shape, h1, notes[i + AHEAD], paged), 1);
        newly_set += NAME(put)(
            words + BLOCK_WORDS * block_of_note(shape, h1, note, paged), h2[note >> 3],
            shape->multipliers + (note & 7) * shape->in_each, shape->in_each);
    }
    return newly_set;
}

/* Set the bits that notes refer to; return how many were clear. */
TARGET static uint64_t NAME(commit)(
    uint64_t *words, const uint32_t *notes, size_t noted, const uint64_t *h1, const uint64_t *h2,
    const Shape *shape)
{
    return shape->paged ? NAME(commit_each)(words, notes, noted, h1, h2, shape, 1)
                        : NAME(commit_each)(words, notes, noted, h1, h2, shape, 0);
}

/* Add the bits that a key has in its b-th block to a mask of 8 words; return whether any of them is
   in neither the block nor the mask. */
TARGET static int NAME(cover_block)(
    const uint64_t *block, uint64_t *mask, uint64_t h2, const Shape *shape, int b)
{
    return NAME(cover)(
        block, mask, h2, shape->multipliers + b * shape->in_each, shape->in_each);
}

/* Set masks of 8 words, each in the block of its number; return how many bits were clear. */
TARGET static uint64_t NAME(join_all)(
    uint64_t *words, const uint64_t *at, const uint64_t *masks, size_t n)
{
    uint64_t newly_set = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            PREFETCH(words + BLOCK_WORDS * at[i + AHEAD], 1);
        newly_set += NAME(join)(words + BLOCK_WORDS * at[i], masks + BLOCK_WORDS * i);
    }
    return newly_set;
}

#undef NAME
#undef OF_KIND
#undef PASTE
#undef KIND
#undef TARGET
