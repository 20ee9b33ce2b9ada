/* Which vector instructions a processor has, of those that the kernels are written for.

   A kind is compiled where the compiler can make it, and runs where the processor has it: so one
   build, for the oldest processors of its kind, serves all. "avx512" asks for a count of bits in
   vectors as well, which the first processors with AVX-512 lack: these ran at a lower clock
   whenever they used it. */

#ifndef MMBLOOM_VECTORS_H
#define MMBLOOM_VECTORS_H

#include <stdint.h>

/* A function of which each call is translated by itself, for arguments that are constants there. */
#define INLINE static inline __attribute__((always_inline))

enum { SCALAR, NEON, AVX2, AVX512, KINDS };

#if defined(__GNUC__) && defined(__x86_64__)
#define MMBLOOM_X86
#include <immintrin.h>
#define TARGET_AVX2 __attribute__((target("avx2,popcnt")))
#define TARGET_AVX512 \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vpopcntdq,popcnt")))
#elif defined(__GNUC__) && defined(__aarch64__)
#define MMBLOOM_NEON
#include <arm_neon.h>
#endif

/* Tell whether this machine can run a kind. */
static inline int can_run(int kind)
{
#ifdef MMBLOOM_X86
    if (kind == AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512vpopcntdq");
    if (kind == AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
#endif
#ifdef MMBLOOM_NEON
    if (kind == NEON)
        return 1; /* every processor of 64 bits has it */
#endif
    return kind == SCALAR;
}

#endif
