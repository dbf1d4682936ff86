/* What n rows read of their histories: attention over past sessions, and what those scored; and its gradient.
 *
 * A session is e = own || offer, HALF numbers each, and scores own . offer. For a row with query q and past sessions k_r
 *     w_r  = last . prelu(A q + B k_r + C (q - k_r) + D (q k_r) + bias) + shift, or 1 / count
 *     read = sum_r w_r k_r || q || sigmoid of the scores, raw by place, then their max, mean and min
 *     aux  = mean_r -log sigmoid(score_r)
 * with [A B C D] = `weight`. A q + C q is formed once a row, B k - C k once a session, and only D (q k) for each pair.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define WIDTH 16
#define HALF 16            /* numbers of either part of an embedding: one vector */
#define BOTH (2 * HALF)
#define UNITS 64
#define BLOCKS (UNITS / WIDTH)

struct histories {
    int64_t rows, sessions, pairs, most, codes;
    int64_t average;         /* whether w_r is 1 / count */
    struct threads threads;
    const int64_t *row;      /* (pairs,), ascending */
    const int64_t *slot;     /* (pairs,): place in the row's history */
    const int64_t *session;  /* (pairs,) */
    const int64_t *code;     /* (sessions + rows,): row of `offer` */
    const void *own;         /* (sessions + rows, HALF): past sessions, then the rows themselves */
    const void *offer;       /* (codes, HALF) */
    const void *weight, *bias, *slope, *last, *shift; /* (UNITS, 4 * BOTH), (UNITS,) thrice, (1,) */
    void *before;            /* (pairs, UNITS) before the prelu, (pairs,) weights, (sessions,) scores: for the way back */
    void *weights, *scores;
    void *read;              /* (rows, 2 * BOTH + most + 3) */
    void *auxiliary;         /* (rows,) */
};

struct history_gradients {
    int64_t stride;              /* numbers from one row of `read` to the next */
    const void *read, *auxiliary;
    void *own;                   /* written */
    void *offer, *weight, *bias, *slope, *last, *shift; /* zeros; added to */
};

#define TEXT "recall.h"
#include "targets.h"

/* Both return 0, or -1 where memory ran out. */
int histories_forth(const struct histories *given, int is_double, int instructions)
{
    (void)instructions;
    return is_double ? CHOOSE(recall, f64)(given) : CHOOSE(recall, f32)(given);
}

int histories_back(const struct histories *given, const struct history_gradients *out, int is_double, int instructions)
{
    (void)instructions;
    return is_double ? CHOOSE(regret, f64)(given, out) : CHOOSE(regret, f32)(given, out);
}
