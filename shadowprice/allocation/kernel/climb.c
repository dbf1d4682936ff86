/* Upper hulls of a few accounts, in double: the critical prices at which their best level changes. */

#include <math.h>
#include <stdint.h>

/* Every account climbs from its cheapest level by the steepest edge. Edges with low <= slope <= high are written, in
 * order of falling slope for each account; steeper ones are climbed silently and a flatter one ends the climb.
 *
 * value, cost: (levels, accounts) with a stride; allowed: the same of bytes, or null.
 * first: (accounts,) level at a price just above `high`. Returns the number of edges; at most accounts * (levels - 1).
 */
int64_t climb(int64_t levels, int64_t accounts, int64_t stride, const double *value, const double *cost,
              const uint8_t *allowed, double low, double high, int32_t *first, double *slope, double *step,
              int64_t *account)
{
    int64_t edges = 0;
    for (int64_t i = 0; i < accounts; i++) {
        int64_t at = -1;
        for (int64_t j = 0; j < levels; j++) {
            if (allowed && !allowed[j * stride + i]) continue;
            if (at < 0 || cost[j * stride + i] < cost[at * stride + i] ||
                (cost[j * stride + i] == cost[at * stride + i] && value[j * stride + i] > value[at * stride + i]))
                at = j;
        }
        first[i] = (int32_t)at;
        for (;;) {
            const double here_cost = cost[at * stride + i], here_value = value[at * stride + i];
            double steepest = 0.0, rise = 0.0;
            int64_t next = -1;
            for (int64_t j = 0; j < levels; j++) {
                if (allowed && !allowed[j * stride + i]) continue;
                const double extra = cost[j * stride + i] - here_cost, gain = value[j * stride + i] - here_value;
                if (!(extra > 0.0 && gain > 0.0)) continue;
                const double ratio = gain / extra;
                /* Of points on one edge the farthest is taken: one edge, not several of the same slope. */
                if (ratio > steepest || (ratio == steepest && extra > rise)) {
                    steepest = ratio;
                    rise = extra;
                    next = j;
                }
            }
            if (next < 0 || steepest < low) break;
            at = next;
            if (steepest > high) {
                first[i] = (int32_t)at;
                continue;
            }
            slope[edges] = steepest;
            step[edges] = rise;
            account[edges++] = i;
        }
    }
    return edges;
}
