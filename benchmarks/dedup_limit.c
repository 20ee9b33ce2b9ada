/* The limit of deduplicating lines: memchr, MurmurHash3, a blocked filter in plain memory, and
   buffered output; stdin to stdout, one thread.

   dedup_limit BYTES HASHES <LOG >OUTPUT

   The positions are mmbloom's: docs in mmbloom/_positions.py. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 8 << 20, AHEAD = 64, MAX_HASHES = 64 };

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15;
static uint64_t *words, blocks, multipliers[MAX_HASHES];
static char input[BUFFER], output[BUFFER];
static size_t used;
static int hashes;

typedef struct { uint64_t h1, h2; } hash;
typedef struct { const char *start; size_t length; uint64_t *block, h2; } line;

static inline uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline uint64_t mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53;
    return x ^ x >> 33;
}

/* MurmurHash3_x64_128, seed 0, of Austin Appleby, who put it in the public domain. */
static hash murmur(const char *key, size_t length) {
    const uint64_t c1 = 0x87C37B91114253D5, c2 = 0x4CF5AD432745937F;
    uint64_t h1 = 0, h2 = 0, k[2];
    size_t left = length;
    for (; left >= 16; key += 16, left -= 16) {
        memcpy(k, key, 16);
        h1 = rotate(h1 ^ rotate(k[0] * c1, 31) * c2, 27) + h2;
        h1 = h1 * 5 + 0x52DCE729;
        h2 = rotate(h2 ^ rotate(k[1] * c2, 33) * c1, 31) + h1;
        h2 = h2 * 5 + 0x38495AB5;
    }
    k[0] = k[1] = 0;
    memcpy(k, key, left);
    h2 ^= rotate(k[1] * c2, 33) * c1;
    h1 ^= rotate(k[0] * c1, 31) * c2;
    h1 ^= length, h2 ^= length;
    h1 += h2, h2 += h1;
    h1 = mix(h1), h2 = mix(h2);
    h1 += h2;
    return (hash){h1, h2 + h1};
}

static void flush(void) {
    for (size_t done = 0; done < used;) {
        ssize_t written = write(1, output + done, used - done);
        if (written < 0) exit(1);
        done += (size_t)written;
    }
    used = 0;
}

static void emit_new(const line *lines, int count) {
    for (const line *l = lines; l < lines + count; l++) {
        uint64_t known = 1;
        for (int k = 0; k < hashes; k++) {
            uint64_t bit = l->h2 * multipliers[k] >> 55, mask = (uint64_t)1 << (bit & 63);
            known &= (l->block[bit >> 6] & mask) != 0;
            l->block[bit >> 6] |= mask;
        }
        if (known) continue;
        if (used + l->length > BUFFER) flush();
        memcpy(output + used, l->start, l->length);
        used += l->length;
    }
}

/* Take the whole lines of a buffer; give the number of bytes they had. */
static size_t take(const char *start, const char *end) {
    line lines[AHEAD];
    const char *at = start, *newline;
    int count = 0;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        hash h = murmur(at, (size_t)(newline - at));
        uint64_t *block = words + 8 * ((h.h1 >> 32) * blocks >> 32);
        __builtin_prefetch(block, 1);
        lines[count++] = (line){at, (size_t)(newline + 1 - at), block, h.h2};
        if (count == AHEAD) emit_new(lines, count), count = 0;
        at = newline + 1;
    }
    emit_new(lines, count);
    return (size_t)(at - start);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    blocks = strtoull(arguments[1], NULL, 10) / 64;
    hashes = atoi(arguments[2]);
    words = aligned_alloc(64, blocks * 64);
    if (!words || hashes > MAX_HASHES) return 1;
    memset(words, 0, blocks * 64);
    uint64_t multiplier = 1;
    for (int k = 0; k < MAX_HASHES; k++) multipliers[k] = multiplier *= GOLDEN;
    size_t kept = 0;
    for (ssize_t got; (got = read(0, input + kept, BUFFER - kept)) != 0;) {
        if (got < 0) return 1; /* and a line longer than the buffer ends the program here */
        size_t taken = take(input, input + kept + (size_t)got);
        kept += (size_t)got - taken;
        memmove(input, input + taken, kept);
    }
    flush();
    return kept != 0;
}
