/* Upper hulls of a few accounts, in double: the critical prices at which their best level changes. */

#include <math.h>
#include <stdint.h>

#define DEEPEST 256

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

/* Every account starts from its best level at the price `high` and climbs by the steepest edge while the slope is at
 * least `low`. Edges are written in order of falling slope for each account.
 *
 * value, cost: (levels, accounts), at most DEEPEST levels; allowed: the same of bytes, or null.
 * first: (accounts,) the level each starts from. Returns the number of edges; at most accounts * (levels - 1).
 */
int64_t climb(int64_t levels, int64_t accounts, const double *value, const double *cost, const uint8_t *allowed,
              double low, double high, int32_t *first, double *slope, double *step, int64_t *account)
{
    int64_t edges = 0;
    for (int64_t i = 0; i < accounts; i++) {
        double v[DEEPEST], g[DEEPEST];
        int32_t level[DEEPEST];
        int64_t size = 0;
        for (int64_t j = 0; j < levels; j++) {
            v[size] = value[j * accounts + i];
            g[size] = cost[j * accounts + i];
            level[size] = (int32_t)j;
            size += !allowed || allowed[j * accounts + i];
        }
        int64_t at = best_at(size, v, g, high);
        first[i] = level[at];
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
            if (next < 0 || steepest < low) break;
            at = next;
            slope[edges] = steepest;
            step[edges] = rise;
            account[edges++] = i;
        }
    }
    return edges;
}
