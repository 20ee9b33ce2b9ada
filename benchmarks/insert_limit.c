/* The limit of adding and asking: a blocked filter in a mapped file, one thread, hashes given.

   All bits of a key are one mask of 512 bits, by the vectors of the processor that this is compiled
   for: tested against the block, and set by one store.

   insert_limit FILE BYTES HASHES KEYS ROUNDS

   Prints a line a round: nanoseconds per key to add in an empty file (cold), to add, to query
   keys that are in, to query keys that are not, and the percentage of those that were found.
   The positions are mmbloom's: mmbloom/format/positions.py. */

#define _GNU_SOURCE
#include <fcntl.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { AHEAD = 32, MAX_HASHES = 64 };

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15;
static uint64_t multipliers[MAX_HASHES];

typedef struct { uint64_t h1, h2; } hash;
typedef struct { uint64_t *words, blocks; int hashes; } filter;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += GOLDEN;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static void fill(hash *hashes, size_t keys, uint64_t batch) {
    for (size_t i = 0; i < keys; i++) {
        uint64_t key = batch << 40 | i;
        hashes[i] = (hash){mix(2 * key), mix(2 * key + 1)};
    }
}

static inline uint64_t *block(const filter *f, hash h) {
    return f->words + 8 * ((h.h1 >> 32) * f->blocks >> 32);
}

/* Tell whether all bits of a key are in a block; with `add`, put them in. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
static inline __attribute__((always_inline)) int touch(
    uint64_t *words, uint64_t h2, int hashes, int add) {
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i firsts = _mm512_setr_epi64(0, -64, -128, -192, -256, -320, -384, -448);
    __m512i mask = _mm512_setzero_si512(), block = _mm512_loadu_si512(words);
    for (int k = 0; k < hashes; k++) {
        __m512i bit = _mm512_set1_epi64((long long)(h2 * multipliers[k] >> 55));
        mask = _mm512_or_si512(mask, _mm512_sllv_epi64(one, _mm512_add_epi64(bit, firsts)));
    }
    __m512i clear = _mm512_andnot_si512(block, mask);
    int in = !_mm512_test_epi64_mask(clear, clear);
    if (add && !in) _mm512_storeu_si512(words, _mm512_or_si512(block, mask));
    return in;
}
#elif defined(__AVX2__)
static inline __attribute__((always_inline)) int touch(
    uint64_t *words, uint64_t h2, int hashes, int add) {
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i low = _mm256_setr_epi64x(0, -64, -128, -192);
    const __m256i high = _mm256_setr_epi64x(-256, -320, -384, -448);
    __m256i *at = (__m256i *)words, masks[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int k = 0; k < hashes; k++) {
        __m256i bit = _mm256_set1_epi64x((long long)(h2 * multipliers[k] >> 55));
        masks[0] = _mm256_or_si256(masks[0], _mm256_sllv_epi64(one, _mm256_add_epi64(bit, low)));
        masks[1] = _mm256_or_si256(masks[1], _mm256_sllv_epi64(one, _mm256_add_epi64(bit, high)));
    }
    __m256i first = _mm256_loadu_si256(at), second = _mm256_loadu_si256(at + 1);
    int in = _mm256_testc_si256(first, masks[0]) && _mm256_testc_si256(second, masks[1]);
    if (add && !in) {
        _mm256_storeu_si256(at, _mm256_or_si256(first, masks[0]));
        _mm256_storeu_si256(at + 1, _mm256_or_si256(second, masks[1]));
    }
    return in;
}
#else
static inline __attribute__((always_inline)) int touch(
    uint64_t *words, uint64_t h2, int hashes, int add) {
    uint64_t in = 1;
    for (int k = 0; k < hashes; k++) {
        uint64_t bit = h2 * multipliers[k] >> 55;
        in &= words[bit >> 6] >> (bit & 63);
        if (add) words[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return (int)in;
}
#endif

/* Tell of each key whether it was in, and how many were; with `add`, put it in. */
static inline __attribute__((always_inline)) size_t pass(
    const filter *f, const hash *hashes, size_t keys, uint8_t *found, int add) {
    size_t total = 0;
    for (size_t i = 0; i < keys; i++) {
        if (i + AHEAD < keys) __builtin_prefetch(block(f, hashes[i + AHEAD]), 1);
        found[i] = (uint8_t)touch(block(f, hashes[i]), hashes[i].h2, f->hashes, add);
        total += found[i];
    }
    return total;
}

static __attribute__((noinline)) size_t add(
    const filter *f, const hash *hashes, size_t keys, uint8_t *found) {
    return pass(f, hashes, keys, found, 1);
}

static __attribute__((noinline)) size_t query(
    const filter *f, const hash *hashes, size_t keys, uint8_t *found) {
    return pass(f, hashes, keys, found, 0);
}

int main(int count, char **arguments) {
    if (count != 6) return 2;
    size_t bytes = strtoull(arguments[2], NULL, 10), keys = strtoull(arguments[4], NULL, 10);
    uint64_t rounds = strtoull(arguments[5], NULL, 10), multiplier = 1;
    hash *present = malloc(keys * sizeof(hash)), *absent = malloc(keys * sizeof(hash));
    uint8_t *found = malloc(keys);
    if (!present || !absent || !found) return 1;
    memset(found, 1, keys);
    for (int k = 0; k < MAX_HASHES; k++) multipliers[k] = multiplier *= GOLDEN;
    for (uint64_t round = 0; round < rounds; round++) {
        int fd = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes)) return 1;
        void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) return 1;
        filter f = {map, bytes / 64, atoi(arguments[3])};
        fill(present, keys, 2 * round);
        fill(absent, keys, 2 * round + 1);
        double times[8];
        times[0] = now(), add(&f, present, keys, found), times[1] = now();
        memset(map, 0, bytes);
        times[2] = now(), add(&f, present, keys, found), times[3] = now();
        times[4] = now(), query(&f, present, keys, found), times[5] = now();
        times[6] = now();
        size_t wrong = query(&f, absent, keys, found);
        times[7] = now();
        for (int i = 0; i < 8; i += 2) printf("%.3f ", (times[i + 1] - times[i]) / (double)keys);
        printf("%.6f\n", 100.0 * (double)wrong / (double)keys);
        munmap(map, bytes);
        close(fd);
        unlink(arguments[1]);
    }
    return 0;
}
