/* One pass over accounts with a bracket of prices, one interval for each segment.
 *
 * An account takes the segment with the best value - price. It is settled when one segment wins at its highest price
 * against every other at its lowest: then it wins everywhere in the bracket, and the account only adds to a size
 * and a sum. The few others are copied out, an ineligible segment as minus infinity.
 *
 * Scores are formed in the matrix's own precision; a lead settles only when it is larger than that can be wrong.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "clones.h"

#define WIDTH 256
#define AHEAD 256 /* accounts between what is scored and what is fetched */

struct bracket {
    int64_t levels, stride, allowed_stride;
    const void *value, *low, *high; /* prices in the matrix's precision, low rounded down and high up; finite */
    const uint8_t *allowed;         /* (levels, allowed_stride), or null */
    double share, reach;            /* lead that settles: share * (|value| + reach) */
    int8_t *narrow;                 /* (accounts,) the winner at the highest prices, or null and in `wide` */
    int16_t *wide;
};

struct unsettled {
    double *worth;    /* value of the settled accounts */
    int64_t *sizes;   /* (levels,) number of them */
    int64_t *account; /* (capacity,) positions of the others */
    void *value;      /* (levels, capacity) */
    int64_t capacity, count;
};

#define REAL float
#define INTEGER int32_t
#define NAME(x) x##_f32
#include "place.h"
#undef REAL
#undef INTEGER
#undef NAME

#define REAL double
#define INTEGER int64_t
#define NAME(x) x##_f64
#include "place.h"
