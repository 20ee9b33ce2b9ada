/* The limit of deduplicating lines: newlines found and lines hashed in one pass, 64 bits of each hash
   in a table in memory, the table asked for 128 lines ahead, each new line copied to a buffer and
   written; stdin to stdout, one thread.

   dedup_limit LINES <LOG >OUTPUT, where LINES are about as many as there are

   It is what the work itself costs, and no more: it forgets all at its end, shares nothing, and
   loses lines if it is killed, or if somebody who knows the hash chooses them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AHEAD = 128, BUFFER = 1 << 20 };

typedef struct { const char *at; size_t length; uint64_t hash; } line;

static uint64_t *table, last, held; /* last: of its places, a power of two less one */
static char input[2 * BUFFER + 16], output[2 * BUFFER];
static size_t used;

static inline uint64_t load(const char *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

static inline uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Never 0, which is a free place. Up to 7 bytes behind the line are read, and left out. */
static inline uint64_t hash(const char *at, size_t length) {
    const uint64_t c1 = 0x9E3779B97F4A7C15, c2 = 0x2D358DCCAA6C78A5, c3 = 0x8BB84B93962EACC9;
    uint64_t state = length * c1, first = 0, second = 0;
    for (; length > 16; at += 16, length -= 16) state = fold(load(at) ^ c2, load(at + 8) ^ state);
    if (length >= 8) first = load(at), second = load(at + length - 8);
    else if (length) first = load(at) << (64 - 8 * length);
    return fold(fold(first ^ c2, second ^ state), c3) | 1;
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
        uint64_t place = l->hash >> 8 & last;
        while (table[place] && table[place] != l->hash) place = (place + 1) & last;
        if (table[place]) continue;
        if (held++ == last) exit(1); /* more lines than there are places */
        table[place] = l->hash;
        if (used + l->length > BUFFER) flush();
        memcpy(output + used, l->at, l->length);
        used += l->length;
    }
}

/* Take the lines of a buffer, with what ends them; give the number of bytes they had. */
static size_t take(const char *start, const char *end, int is_last) {
    line lines[AHEAD];
    const char *at = start;
    int count = 0;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL && !is_last) break;
        size_t length = (size_t)((newline ? newline : end) - at), whole = length + (newline != NULL);
        uint64_t hashed = hash(at, length);
        __builtin_prefetch(table + (hashed >> 8 & last), 1);
        lines[count++] = (line){at, whole, hashed};
        if (count == AHEAD) emit_new(lines, count), count = 0;
        at += whole;
    }
    emit_new(lines, count);
    return (size_t)(at - start);
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    uint64_t places = 1 << 10;
    while ((double)places < 1.5 * atof(arguments[1])) places *= 2;
    last = places - 1;
    table = mmap(NULL, places * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) return 1;
#ifdef MADV_HUGEPAGE
    madvise(table, places * 8, MADV_HUGEPAGE);
#endif
    size_t kept = 0;
    for (;;) {
        ssize_t got = read(0, input + kept, BUFFER);
        if (got < 0) return 1;
        size_t taken = take(input, input + kept + (size_t)got, got == 0);
        kept += (size_t)got - taken;
        if (got == 0) break;
        if (kept > BUFFER) return 1; /* a line longer than the buffer */
        memmove(input, input + taken, kept);
    }
    flush();
    return 0;
}
