/* Upper hulls of a few accounts, in double: the critical prices at which their best level changes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define DEEPEST 256

/* Accounts with their levels' points. Entry (j, i) of a matrix lies at j * stride + i; planes may be null. What a level
 * takes is offset_j + weight0_j * cost0_ij + weight1_j * cost1_ij, times the member of the account's pattern. */
struct points {
    int64_t levels, accounts, stride, allowed_stride;
    const void *value, *cost[2];
    const double *offset, *weight[2], *member;
    const uint16_t *pattern; /* or null: every account has pattern 0 */
    const uint8_t *allowed;  /* or null */
};

/* What is found: edges in order of falling slope for each account, at most accounts * (levels - 1). */
struct climbed {
    int32_t *first; /* (accounts,) the level each starts from */
    double *base;   /* (accounts,) what that level takes */
    double *slope, *step;
    int64_t *account;
};

/* The level that is best at a finite price, or the cheapest at an infinite one; ties go to the cheaper, then to the
 * more valuable. Points of one account lie side by side. */
static int64_t best_at(int64_t levels, const double *value, const double *cost, double price)
{
    int64_t best = 0;
    double top = isinf(price) ? -cost[0] : value[0] - price * cost[0];
    for (int64_t j = 1; j < levels; j++) {
        const double score = isinf(price) ? -cost[j] : value[j] - price * cost[j];
        if (score > top || (score == top && (cost[j] < cost[best] || (cost[j] == cost[best] && value[j] > value[best])))) {
            top = score;
            best = j;
        }
    }
    return best;
}

/* An account starts from its best level at the price `high` and climbs by the steepest edge while the slope is at
 * least `low`. */
static int64_t climb_one(int64_t size, const double *v, const double *g, const int32_t *level, double low, double high,
                         int64_t i, int64_t edges, const struct climbed *out)
{
    int64_t at = best_at(size, v, g, high);
    out->first[i] = level[at];
    out->base[i] = g[at];
    for (;;) {
        double steepest = 0.0, rise = 0.0, bar = low * (1.0 - 1e-15);
        int64_t next = -1;
        for (int64_t j = 0; j < size; j++) {
            const double extra = g[j] - g[at], gain = v[j] - v[at];
            /* Most levels are ruled out without a division. */
            if (!(extra > 0.0 && gain > 0.0 && gain >= bar * extra)) continue;
            const double ratio = gain / extra;
            /* Of points on one edge the farthest is taken: one edge, not several of the same slope. */
            if (ratio > steepest || (ratio == steepest && extra > rise)) {
                steepest = ratio;
                bar = (ratio > low ? ratio : low) * (1.0 - 1e-15);
                rise = extra;
                next = j;
            }
        }
        if (next < 0 || steepest < low) return edges;
        at = next;
        out->slope[edges] = steepest;
        out->step[edges] = rise;
        out->account[edges++] = i;
    }
}

/* Returns the number of edges. A plane that is missing is the value with a weight of nothing. */
#define CLIMB(NAME, REAL)                                                                                         \
    int64_t NAME(const struct points *p, double low, double high, const struct climbed *out)                      \
    {                                                                                                             \
        const int64_t levels = p->levels, stride = p->stride;                                                     \
        const REAL *value = (const REAL *)p->value;                                                               \
        const REAL *cost0 = p->cost[0] ? (const REAL *)p->cost[0] : value;                                        \
        const REAL *cost1 = (const REAL *)p->cost[1];                                                             \
        const double *offset = p->offset;                                                                         \
        double weight0[DEEPEST];                                                                                  \
        int64_t edges = 0;                                                                                        \
        for (int64_t j = 0; j < levels; j++) weight0[j] = p->cost[0] ? p->weight[0][j] : 0.0;                     \
        for (int64_t i = 0; i < p->accounts; i++) {                                                               \
            double v[DEEPEST], g[DEEPEST];                                                                        \
            int32_t level[DEEPEST];                                                                               \
            int64_t size = levels;                                                                                \
            for (int64_t j = 0, at = i; j < levels; j++, at += stride) {                                          \
                v[j] = (double)value[at];                                                                         \
                g[j] = offset[j] + weight0[j] * (double)cost0[at];                                                \
                level[j] = (int32_t)j;                                                                            \
            }                                                                                                     \
            if (cost1)                                                                                            \
                for (int64_t j = 0; j < levels; j++) g[j] += p->weight[1][j] * (double)cost1[j * stride + i];     \
            if (p->pattern)                                                                                       \
                for (int64_t j = 0; j < levels; j++) g[j] *= p->member[p->pattern[i]];                            \
            if (p->allowed) {                                                                                     \
                size = 0;                                                                                         \
                for (int64_t j = 0; j < levels; j++) {                                                            \
                    v[size] = v[j];                                                                               \
                    g[size] = g[j];                                                                               \
                    level[size] = (int32_t)j;                                                                     \
                    size += p->allowed[j * p->allowed_stride + i];                                                \
                }                                                                                                 \
            }                                                                                                     \
            edges = climb_one(size, v, g, level, low, high, i, edges, out);                                       \
        }                                                                                                         \
        return edges;                                                                                             \
    }

CLIMB(climb_f32, float)
CLIMB(climb_f64, double)

/* Weighted selection: of edges in order of falling slope, the slope of the first at which the sum of steps exceeds
 * `budget`; `none` where no sum does, -1 without memory. The steps of one slope count together. About O(edges). */
double select_edge(int64_t edges, const double *slope, const double *step, double budget, double none)
{
    double *const buffer = edges > 0 ? malloc(4 * (size_t)edges * sizeof *buffer) : NULL;
    if (edges > 0 && !buffer) return -1.0;
    const double *s = slope, *w = step;
    const int64_t all = edges;
    int64_t side = 0;
    while (edges > 0) {
        const double a = s[0], b = s[edges / 2], c = s[edges - 1];
        const double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        /* The two parts of the buffer take turns: what is read is never written. */
        double *to_s = buffer + side * 2 * all, *to_w = to_s + all;
        double above = 0.0, equal = 0.0;
        int64_t more = 0, less = 0;
        for (int64_t k = 0; k < edges; k++) {
            const double x = s[k], y = w[k];
            above += x > pivot ? y : 0.0;
            equal += x == pivot ? y : 0.0;
            to_s[more] = x;
            to_w[more] = y;
            more += x > pivot;
        }
        if (above > budget) {
            edges = more;
        } else {
            budget -= above + equal;
            if (budget < 0.0) {
                none = pivot;
                break;
            }
            for (int64_t k = 0; k < edges; k++) {
                const double x = s[k], y = w[k];
                to_s[less] = x;
                to_w[less] = y;
                less += x < pivot;
            }
            edges = less;
        }
        s = to_s;
        w = to_w;
        side ^= 1;
    }
    free(buffer);
    return none;
}
