/* One pass over accounts at two prices.
 *
 * Account i with price interval [low, high] scores its levels at both ends, value - price * cost, where
 *     cost = offset_j + weight0_j * cost0_ij + weight1_j * cost1_ij.
 * Scores are straight lines in the price, so a level that is best at both ends is best in between: the account is
 * settled and only adds to sums. The few others are copied out, all their levels, for exact work in float64.
 *
 * Matrices are level-major with a common stride. Scores are formed in the matrices' own precision and an account is
 * settled only if its best level leads by more than that arithmetic can be wrong; sums are kept in double.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pass {
    int64_t levels, stride, allowed_stride, planes, measured; /* measured: 0, or which cost plane (1, 2) a mean is taken over */
    int64_t patterns;
    const void *value, *cost[2];
    const double *table[3];    /* offset and the planes' weights, (levels,) each */
    const double *low, *high;  /* prices, one per pattern */
    const uint16_t *pattern;   /* (accounts,), or null: every account has pattern 0 */
    const uint8_t *allowed;    /* (levels, allowed_stride), or null */
    double reach[3];           /* largest |offset|, |weight0|, |weight1| */
    double margin;             /* lead that settles, as a share of the terms of a score */
    int64_t packing;           /* power of two, at least `levels` */
    int32_t *level;            /* (accounts,) best level at the low price, or null */
    int8_t *narrow;            /* the same for at most 127 levels, or null */
    void *small;               /* buffer of 7 * levels + 2 * patterns numbers of the matrices' type */
};

struct collected {
    double *sums;      /* (patterns, 4): value, cost, measure and number of the settled accounts */
    int64_t *account;  /* (capacity,) positions of the unsettled accounts */
    void *point[3];    /* value and cost planes of the unsettled accounts, (levels, capacity) each */
    int64_t capacity, count;
    int64_t suspect;   /* set where an entry of a plane is negative or any entry is not finite; such may be settled */
};

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAS_X86 1
#include <immintrin.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
/* A pattern's four sums, added in one instruction where there is one. */
typedef double quad __attribute__((vector_size(32), aligned(8)));
#define QUAD_ADD(to, a, b, c) (*(quad *)(to) += (quad){a, b, c, 1.0})
#else
#define QUAD_ADD(to, a, b, c) ((to)[0] += (a), (to)[1] += (b), (to)[2] += (c), (to)[3] += 1.0)
#endif

/* Accounts between two checks of the free space for unsettled ones. */
#define STEP 2048

/* How far ahead each of the `levels` streams is fetched: the processor follows only a few streams by itself. */
#ifndef AHEAD
#define AHEAD 256
#endif

/* The vectors that are worked on at a time. */
#define EACH _Pragma("GCC unroll 8") for (int u = 0; u < UNROLL; u++)

#define REAL float
#define INTEGER int32_t
#define RAW uint32_t
#define NOT_FINITE 0x7f800000
#define NEVER 3e38f
#define TINY 1e-37f
#define NAME(x) x##_f32
#include "collect.h"
#include "scalar.h"
#include "fused.h"
#include "forget.h"
#undef NAME

#ifdef HAS_X86
#define NAME(x) x##_f32_avx512
#define collect_f32_avx512 collect_f32
#include "avx512.h"
#include "fused.h"
#include "forget.h"
#undef NAME

#define NAME(x) x##_f32_avx2
#define collect_f32_avx2 collect_f32
#include "avx2.h"
#include "fused.h"
#include "forget.h"
#undef NAME
#endif
#undef REAL
#undef INTEGER
#undef RAW
#undef NOT_FINITE
#undef NEVER
#undef TINY

#define REAL double
#define INTEGER int64_t
#define RAW uint64_t
#define NOT_FINITE 0x7ff0000000000000
#define NEVER 1e308
#define TINY 1e-300
#define NAME(x) x##_f64
#include "collect.h"
#include "scalar.h"
#include "fused.h"
#include "forget.h"
#undef NAME

/* A library without this function was built from other sources than the Python beside it. */
void fused_version_3(void) {}

enum { SCALAR, AVX2, AVX512 };

int fused_best_instructions(void)
{
#ifdef HAS_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return AVX2;
#endif
    return SCALAR;
}

typedef int64_t (*block_function)(const struct pass *, struct collected *, int64_t, int64_t);

/* Which matrices there are is fixed outside the loops, so that each case is compiled without the others' work. */
#define KINDS(name, planes, same)                                                     \
    switch ((p->pattern ? 2 : 0) + (p->allowed ? 1 : 0)) {                            \
    case 0: return name(p, out, a, b, planes, same, 0, 0);                            \
    case 1: return name(p, out, a, b, planes, same, 0, 1);                            \
    case 2: return name(p, out, a, b, planes, same, 1, 0);                            \
    default: return name(p, out, a, b, planes, same, 1, 1);                           \
    }

#define CASES(name, target)                                                                              \
    target static int64_t name##_any(const struct pass *p, struct collected *out, int64_t a, int64_t b)  \
    {                                                                                                    \
        if (p->planes == 0) KINDS(name, 0, 0)                                                            \
        if (p->planes == 1 && p->cost[0] == p->value) KINDS(name, 1, 1)                                  \
        if (p->planes == 1) KINDS(name, 1, 0)                                                            \
        if (p->cost[0] == p->value) KINDS(name, 2, 1)                                                    \
        KINDS(name, 2, 0)                                                                                \
    }

CASES(block_f32, )
CASES(block_f64, )
#ifdef HAS_X86
CASES(block_f32_avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"))))
CASES(block_f32_avx2, __attribute__((target("avx2,fma"))))
#endif

#define PREPARE(NAME, REAL)                                                             \
    static void NAME(const struct pass *p)                                              \
    {                                                                                   \
        REAL *to = (REAL *)p->small;                                                    \
        const int64_t n = p->levels;                                                    \
        for (int64_t j = 0; j < n; j++) {                                               \
            const double off = p->table[0][j];                                          \
            const double w0 = p->planes > 0 ? p->table[1][j] : 0.0;                     \
            to[j] = (REAL)off;                                                          \
            to[n + j] = (REAL)w0;                                                       \
            to[2 * n + j] = (REAL)(p->planes > 1 ? p->table[2][j] : 0.0);               \
            to[3 * n + j] = (REAL)(1.0 - p->low[0] * w0);                               \
            to[4 * n + j] = (REAL)(p->low[0] * off);                                    \
            to[5 * n + j] = (REAL)(1.0 - p->high[0] * w0);                              \
            to[6 * n + j] = (REAL)(p->high[0] * off);                                   \
        }                                                                               \
        for (int64_t k = 0; k < p->patterns; k++) {                                     \
            to[7 * n + k] = (REAL)p->low[k];                                            \
            to[7 * n + p->patterns + k] = (REAL)p->high[k];                             \
        }                                                                               \
    }

PREPARE(prepare_f32, float)
PREPARE(prepare_f64, double)

/* Fills p->small; once before any number of passes. */
void fused_prepare(const struct pass *p, int is_double)
{
    if (is_double) prepare_f64(p);
    else prepare_f32(p);
}

/* Accounts [start, stop); returns where it stopped: before `stop` when the unsettled ones need more space. */
int64_t fused_pass(const struct pass *p, struct collected *out, int64_t start, int64_t stop, int is_double,
                   int instructions)
{
    block_function wide = is_double ? block_f64_any : block_f32_any;
    const block_function rest = wide;
#ifdef HAS_X86
    if (!is_double && instructions == AVX512) wide = block_f32_avx512_any;
    if (!is_double && instructions == AVX2) wide = block_f32_avx2_any;
#endif
    while (start < stop) {
        const int64_t end = stop - start > STEP ? start + STEP : stop;
        if (out->capacity - out->count < end - start) return start;
        const int64_t done = wide(p, out, start, end);
        if (done < end) rest(p, out, done, end);
        start = end;
    }
    return start;
}
