/* Compiles TEXT, the name of a file that the including one defines, once per number type and instruction set, and defines
 * CHOOSE(x, type), the function x of that text for f32 or f64 and the `instructions` at hand.
 *
 * The text sees
 *   REAL, BITS, FLOAT, NAME(x), TARGET    number type, integers as wide, whether it is float, name decoration, target
 *                                         attribute
 */

/* Whole lines of the cache: a vector across two of them costs twice. */
static inline void *lines(size_t bytes) { return aligned_alloc(64, (bytes + 64) / 64 * 64); }

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__)
#define HAS_X86 1
#endif

#define FLOAT 1
#define REAL float
#define BITS int32_t
#ifdef HAS_X86
#define NAME(x) x##_f32_v4
#define TARGET __attribute__((target("arch=x86-64-v4")))
#include "vectors.h"
#define NAME(x) x##_f32_v3
#define TARGET __attribute__((target("arch=x86-64-v3")))
#include "vectors.h"
#endif
#define NAME(x) x##_f32_v1
#define TARGET
#include "vectors.h"
#undef REAL
#undef BITS
#undef FLOAT

#define FLOAT 0
#define REAL double
#define BITS int64_t
#ifdef HAS_X86
#define NAME(x) x##_f64_v4
#define TARGET __attribute__((target("arch=x86-64-v4")))
#include "vectors.h"
#define NAME(x) x##_f64_v3
#define TARGET __attribute__((target("arch=x86-64-v3")))
#include "vectors.h"
#endif
#define NAME(x) x##_f64_v1
#define TARGET
#include "vectors.h"

#ifdef HAS_X86
#define CHOOSE(x, type) (instructions == 2 ? x##_##type##_v4 : instructions == 1 ? x##_##type##_v3 : x##_##type##_v1)
#else
#define CHOOSE(x, type) x##_##type##_v1
#endif
