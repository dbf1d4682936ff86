/* Smallest and largest entry of an array in one read; NaN and infinity are counted. */

#include <math.h>
#include <stdint.h>

#include "clones.h"

#define LANES 64

#define SCAN(NAME, REAL, LARGEST)                                                      \
    CLONES int64_t NAME(const REAL *x, int64_t n, double *ends)                        \
    {                                                                                  \
        REAL least[LANES], most[LANES];                                                \
        int32_t bad[LANES];                                                            \
        int64_t i = 0, unknown = 0;                                                    \
        for (int l = 0; l < LANES; l++) {                                              \
            least[l] = (REAL)INFINITY;                                                 \
            most[l] = (REAL)-INFINITY;                                                 \
            bad[l] = 0;                                                                \
        }                                                                              \
        for (; i + LANES <= n; i += LANES)                                             \
            for (int l = 0; l < LANES; l++) {                                          \
                const REAL v = x[i + l], size = v < 0 ? -v : v;                        \
                least[l] = v < least[l] ? v : least[l];                                \
                most[l] = v > most[l] ? v : most[l];                                   \
                bad[l] |= !(size <= LARGEST);                                          \
            }                                                                          \
        for (int l = 0; i < n; i++, l++) {                                             \
            const REAL v = x[i], size = v < 0 ? -v : v;                                \
            least[l] = v < least[l] ? v : least[l];                                    \
            most[l] = v > most[l] ? v : most[l];                                       \
            bad[l] |= !(size <= LARGEST);                                              \
        }                                                                              \
        ends[0] = INFINITY;                                                            \
        ends[1] = -INFINITY;                                                           \
        for (int l = 0; l < LANES; l++) {                                              \
            ends[0] = (double)least[l] < ends[0] ? (double)least[l] : ends[0];         \
            ends[1] = (double)most[l] > ends[1] ? (double)most[l] : ends[1];           \
            unknown += bad[l];                                                         \
        }                                                                              \
        return unknown;                                                                \
    }

SCAN(scan_f32, float, 3.4028234663852886e38f)
SCAN(scan_f64, double, 1.7976931348623157e308)
