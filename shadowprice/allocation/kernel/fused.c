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
    const void *value, *cost[2];
    const void *offset, *weight[2]; /* (levels,) in the matrices' precision */
    const double *table_offset, *table_weight[2]; /* the same in double */
    const void *low, *high;         /* prices, one per pattern */
    const uint16_t *pattern;        /* (accounts,), or null: every account has pattern 0 */
    const uint8_t *allowed;         /* (levels, allowed_stride), or null */
    double reach[3];                /* largest |offset|, |weight0|, |weight1| */
    double margin;                  /* lead that settles, as a share of the terms of a score */
    int64_t packing;                /* power of two, at least `levels` */
    int32_t *level;                 /* (accounts,) best level at the low price, or null */
};

struct collected {
    double *sums;      /* (patterns, 4): value, cost, measure and number of the settled accounts */
    int64_t *account;  /* (capacity,) positions of the unsettled accounts */
    void *point[3];    /* value and cost planes of the unsettled accounts, (levels, capacity) each */
    int64_t capacity, count;
};

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAS_X86 1
#include <immintrin.h>
#endif

/* Accounts between two looks at the room that is left for unsettled ones. */
#define STEP 2048

/* How far ahead each of the `levels` streams is fetched: the processor follows only a few streams by itself. */
#ifndef AHEAD
#define AHEAD 256
#endif

#define REAL float
#define INTEGER int32_t
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
#define add_f32_avx512 add_f32
#define collect_f32_avx512 collect_f32
#include "avx512.h"
#include "fused.h"
#include "forget.h"
#undef NAME

#define NAME(x) x##_f32_avx2
#define add_f32_avx2 add_f32
#define collect_f32_avx2 collect_f32
#include "avx2.h"
#include "fused.h"
#include "forget.h"
#undef NAME
#endif
#undef REAL
#undef INTEGER
#undef NEVER
#undef TINY

#define REAL double
#define INTEGER int64_t
#define NEVER 1e308
#define TINY 1e-300
#define NAME(x) x##_f64
#include "collect.h"
#include "scalar.h"
#include "fused.h"
#include "forget.h"
#undef NAME

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
#define CASES(name, target)                                                                                       \
    target static int64_t name##_any(const struct pass *p, struct collected *out, int64_t a, int64_t b)           \
    {                                                                                                             \
        const int kind = (int)p->planes * 4 + (p->pattern ? 2 : 0) + (p->allowed ? 1 : 0);                        \
        switch (kind) {                                                                                           \
        case 0: return name(p, out, a, b, 0, 0, 0);                                                               \
        case 1: return name(p, out, a, b, 0, 0, 1);                                                               \
        case 2: return name(p, out, a, b, 0, 1, 0);                                                               \
        case 3: return name(p, out, a, b, 0, 1, 1);                                                               \
        case 4: return name(p, out, a, b, 1, 0, 0);                                                               \
        case 5: return name(p, out, a, b, 1, 0, 1);                                                               \
        case 6: return name(p, out, a, b, 1, 1, 0);                                                               \
        case 7: return name(p, out, a, b, 1, 1, 1);                                                               \
        case 8: return name(p, out, a, b, 2, 0, 0);                                                               \
        case 9: return name(p, out, a, b, 2, 0, 1);                                                               \
        case 10: return name(p, out, a, b, 2, 1, 0);                                                              \
        default: return name(p, out, a, b, 2, 1, 1);                                                              \
        }                                                                                                         \
    }

CASES(block_f32, )
CASES(block_f64, )
#ifdef HAS_X86
CASES(block_f32_avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"))))
CASES(block_f32_avx2, __attribute__((target("avx2,fma"))))
#endif

/* Accounts [start, stop); returns where it stopped: before `stop` when the unsettled ones need more room. */
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
