/* Which sessions a step's rows have in their past, each once, and the graphs of those and of the rows themselves. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"

#define AHEAD 16 /* so many sessions ahead the places of graphs are fetched */

struct lists {
    int64_t rows, most, pairs;
    int64_t past_groups;        /* groups of a past session that are seen; of a row itself BEFORE */
    const int64_t *past;        /* (rows, most): positions in the log, `pairs` of them not negative */
    const int64_t *target;      /* (rows,): the same of the rows themselves */
    const int64_t *start;       /* (GROUPS sessions of the log + 1,): first node of every graph */
    int64_t *row, *slot, *of;   /* (pairs,): found: row and place in its history, which session of those below */
    int64_t *session;           /* (up to pairs,): found: positions in the log, as they come */
    int64_t *graph_slot, *first, *length; /* (up to GROUPS pairs + BEFORE rows,): of each graph that is not empty */
    int64_t sessions, past_graphs, graphs;
};

static void graphs_of(struct lists *s, const int64_t *session, int64_t n, int64_t member, int64_t groups)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n && session[i + AHEAD] >= 0)
            __builtin_prefetch(s->start + session[i + AHEAD] * GROUPS);
        if (session[i] < 0)
            continue;
        const int64_t *const start = s->start + session[i] * GROUPS;
        for (int64_t group = 0; group < groups; group++) {
            if (start[group] == start[group + 1])
                continue;
            s->graph_slot[s->graphs] = (member + i) * GROUPS + group;
            s->first[s->graphs] = start[group];
            s->length[s->graphs++] = start[group + 1] - start[group];
        }
    }
}

/* 0, or -1 where memory ran out. */
int sessions_list(struct lists *s)
{
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * s->pairs)
        bits++;
    const size_t size = (size_t)1 << bits;
    int64_t *const known = malloc(size * sizeof *known); /* by a hash of its position, which session; -1 for none */
    if (!known)
        return -1;
    memset(known, 0xff, size * sizeof *known);
    s->sessions = s->graphs = 0;
    int64_t pair = 0;
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t slot = 0; slot < s->most; slot++) {
            const int64_t session = s->past[row * s->most + slot];
            if (session < 0)
                continue;
            size_t at = (size_t)(((uint64_t)session * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - bits));
            while (known[at] >= 0 && s->session[known[at]] != session)
                at = (at + 1) & (size - 1);
            if (known[at] < 0) {
                known[at] = s->sessions;
                s->session[s->sessions++] = session;
            }
            s->row[pair] = row, s->slot[pair] = slot, s->of[pair++] = known[at];
        }
    free(known);
    graphs_of(s, s->session, s->sessions, 0, s->past_groups);
    s->past_graphs = s->graphs;
    graphs_of(s, s->target, s->rows, s->sessions, BEFORE);
    return 0;
}
