/* Which vector instructions a processor has, of those that the kernels are written for.

   A kind is compiled if the compiler can make it, and used if the processor has it. So one build
   for the oldest processors serves all. "avx512" also requires the vector popcount, which the first
   processors with AVX-512 do not have: these ran at a lower clock whenever they used AVX-512.

   The code asks the processor itself, as __builtin_cpu_supports reads what the compiler's library
   has found, and zig's finds nothing: wheels made with it had no vectors. */

#ifndef MMBLOOM_VECTORS_H
#define MMBLOOM_VECTORS_H

#include <stdint.h>

/* A function that is compiled separately for each call, for arguments that are constants there. */
#define INLINE static inline __attribute__((always_inline))

enum { SCALAR, NEON, AVX2, AVX512, KINDS };

#if defined(__GNUC__) && defined(__x86_64__)
#define MMBLOOM_X86
#include <cpuid.h>
#include <immintrin.h>
#define TARGET_AVX2 __attribute__((target("avx2,popcnt")))
#define TARGET_AVX512 \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,popcnt")))
#elif defined(__GNUC__) && defined(__aarch64__)
#define MMBLOOM_NEON
#include <arm_neon.h>
#endif

#ifdef MMBLOOM_X86
/* Return the best kind that the processor has, and whose registers the system saves. */
__attribute__((target("xsave"))) static inline int best_of_x86(void)
{
    const unsigned ymm = 0x06, zmm = 0xe6; /* of XCR0: all the state that these registers need */
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE) || !(ecx & bit_POPCNT))
        return SCALAR;
    const unsigned kept = (unsigned)_xgetbv(0);
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(ebx & bit_AVX2)
        || (kept & ymm) != ymm)
        return SCALAR;
    if ((ebx & avx512) != avx512 || !(ecx & bit_AVX512VPOPCNTDQ) || (kept & zmm) != zmm)
        return AVX2;
    return AVX512;
}
#endif

/* Return whether this machine can run a kind. */
static inline int can_run(int kind)
{
#ifdef MMBLOOM_X86
    if (kind != NEON)
        return kind <= best_of_x86();
#endif
#ifdef MMBLOOM_NEON
    if (kind == NEON)
        return 1; /* every processor of 64 bits has it */
#endif
    return kind == SCALAR;
}

#endif
