/* Two graph convolutions with top-K pooling over a batch of small graphs, and their gradient.
 *
 * A graph is a voucher, its node 0, and a chain of items in order of time. Node v hears itself and those that send to it:
 *     an item hears the item before it,
 *     before the collection, the voucher hears the `nearest` last items of its graph,
 *     after it, the `nearest` first items hear the voucher.
 * With x_v = table[code_v], to which an item adds its `fixed` in the first columns and a voucher its `own` in the last,
 * and for each of the two layers
 *     h = relu(sum over heard of rel x + bias + root x)
 *     g = tanh(h . select / |select|), where among the nodes of a graph that are left the ratio with the greatest g stays
 *     x <- g h, zero where a node goes
 *     readout += max and mean of x over the nodes that stay
 * and last, for every member of the batch, bias + sum over its graphs of (its group's columns of out) readout, once over
 * all its graphs and once over those before the collection.
 *
 * Nodes of consecutive graphs go through all of it together, as many as stay in the first cache. A node has WIDTH
 * numbers, which are one vector; matrices are torch's, (WIDTH, inputs) by rows.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "parts.h"

#define WIDTH 16
#define TILE 96    /* nodes that go through the layers together */
#define AHEAD 16   /* so many graphs ahead what nodes start from is fetched, and twice as many what it stands by */
#define SLACK 1e-6 /* 0.9 is no binary fraction: 0.9 * 10 must not ask for a tenth node */

#define LEARNED 2

/* Each row of `values` (rows, width) `times` times, one below the other, from column `first` on. */
struct learned {
    const void *values;
    int64_t rows, width, first, times;
};

struct graphs {
    int64_t graphs, members, inputs, codes, nearest, longest; /* inputs >= WIDTH where there is `fixed` */
    int64_t targets;           /* the last so many members, of whom only what came before may be read */
    double ratio;
    struct threads threads;
    const int64_t *first;      /* (graphs,): its first node, the voucher, in `kind` and `code` */
    const int64_t *length;     /* (graphs,): its nodes, at least 1 */
    const int64_t *slot;       /* (graphs,): GROUPS times the member it belongs to, and its group */
    const float *fixed;        /* (kinds, WIDTH), or null: nothing is fixed */
    const int32_t *kind;       /* (all nodes,): row of `fixed`, null with it; not read at vouchers */
    const int32_t *code;       /* (all nodes,): row of the table, or null: it is the node's own; else not read at vouchers */
    const float *own;          /* (members, inputs - WIDTH) of the vouchers, null with `fixed` */
    const int64_t *own_code;   /* (members,) of the vouchers, null with `code` */
    const void *base;          /* (codes, inputs): the table where nothing is learned, zeros where it is */
    int64_t pieces;            /* of it that are learned, one below the other */
    struct learned piece[LEARNED];
    const void *rel[2], *bias[2], *root[2], *select[2];
    void *h[2], *gate[2];      /* (nodes, WIDTH) before pooling, (nodes,): written forth, read back */
    uint8_t *stays[2];         /* (nodes,) */
    int32_t *left[2];          /* (graphs,): how many stay */
    const void *out, *out_bias; /* (WIDTH, GROUPS * 2 * WIDTH), (WIDTH,) */
    void *readout;             /* (graphs, 2 * WIDTH), written forth, read back */
    void *whole, *before;      /* (members, WIDTH) each; before may be null */
};

struct gradients {
    const void *whole, *before; /* null where there is none */
    void *out, *out_bias;
    void *learned[LEARNED];     /* of the values of every piece */
    void *rel[2], *bias[2], *root[2], *select[2]; /* zeros; added to */
};

#define TEXT "pass.h"
#include "targets.h"

/* 2 where the processor has AVX-512, 1 for AVX2 and FMA, 0 otherwise. */
int best_instructions(void)
{
#ifdef HAS_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        return 2;
    if (__builtin_cpu_supports("x86-64-v3"))
        return 1;
#endif
    return 0;
}

/* Whether a graph of a target is of what came after. */
static int tells(const struct graphs *g)
{
    for (int64_t graph = g->graphs - 1; graph >= 0 && g->slot[graph] / GROUPS >= g->members - g->targets; graph--)
        if (g->slot[graph] % GROUPS >= BEFORE)
            return 1;
    return 0;
}

/* Both return 0, or -1 where memory ran out; -2 where a graph must not be read. */
int graphs_forth(const struct graphs *given, int is_double, int instructions)
{
    (void)instructions;
    if (tells(given))
        return -2;
    return is_double ? CHOOSE(forth, f64)(given) : CHOOSE(forth, f32)(given);
}

int graphs_back(const struct graphs *given, const struct gradients *out, int is_double, int instructions)
{
    (void)instructions;
    return is_double ? CHOOSE(back, f64)(given, out) : CHOOSE(back, f32)(given, out);
}

/* Of the structures and functions here, in histories.c and in lists.c. */
int passes_version_4(void) { return 1; }
