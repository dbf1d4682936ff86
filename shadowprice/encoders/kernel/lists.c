/* Which sessions a step's rows have in their past, each once, and the graphs and vouchers of those and of the rows. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "groups.h"

#define TERMS 2  /* numbers of a voucher */
#define AHEAD 16 /* so many sessions ahead the places of graphs are fetched */

struct lists {
    int64_t rows, most;
    int64_t logged, offers;     /* sessions of the log, vouchers on offer */
    int64_t past_groups;        /* groups of a past session that are seen; of a row itself BEFORE */
    const int64_t *past;        /* (rows, most): positions in the log, negative for none */
    const int64_t *target;      /* (rows,): the same of the rows themselves */
    const int64_t *level;       /* (rows,): which of the vouchers on offer */
    const int64_t *start;       /* (GROUPS sessions of the log + 1,): first node of every graph */
    const int64_t *of_session, *of_level;       /* codes of vouchers, by session of the log and by offer */
    const float *session_terms, *level_terms;   /* (sessions of the log, TERMS), (offers, TERMS) */
    int64_t above;              /* what stands above the vouchers in the table that nodes start from */
    /* Found, with room for a session at every place of every history. */
    int64_t *row, *slot, *of;   /* (pairs,): row and place in its history, which session of those below */
    int64_t *session;           /* (sessions,): positions in the log, as they come */
    int64_t *graph_slot, *first, *length; /* (graphs,): of each that is not empty */
    int64_t *code, *own_code;   /* (sessions + rows,): of the voucher of each session, then of each row; with `above` */
    float *own;                 /* (sessions + rows, TERMS) of the same */
    int64_t pairs, sessions, graphs, nodes, longest;
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
            const int64_t length = start[group + 1] - start[group];
            s->first[s->graphs] = start[group];
            s->length[s->graphs++] = length;
            s->nodes += length;
            if (length > s->longest)
                s->longest = length;
        }
    }
}

/* The vouchers at the places `at` of a table of codes and one of terms. */
static void vouchers_of(struct lists *s, const int64_t *at, int64_t n, int64_t member, const int64_t *code, const float *terms)
{
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            __builtin_prefetch(code + at[i + AHEAD]);
            __builtin_prefetch(terms + at[i + AHEAD] * TERMS);
        }
        s->code[member + i] = code[at[i]];
        s->own_code[member + i] = code[at[i]] + s->above;
        memcpy(s->own + (member + i) * TERMS, terms + at[i] * TERMS, TERMS * sizeof *terms);
    }
}

/* 0, or -1 where memory ran out, -3 where a session or an offer is none of the log's. */
int sessions_list(struct lists *s)
{
    s->pairs = s->sessions = s->graphs = s->nodes = s->longest = 0;
    int inside = 1;
    for (int64_t i = 0; i < s->rows * s->most; i++) {
        s->pairs += s->past[i] >= 0;
        inside &= s->past[i] < s->logged;
    }
    for (int64_t row = 0; row < s->rows; row++)
        inside &= s->target[row] < s->logged && s->level[row] >= 0 && s->level[row] < s->offers;
    if (!inside)
        return -3;
    int bits = 1;
    while (((int64_t)1 << bits) < 2 * s->pairs)
        bits++;
    const size_t size = (size_t)1 << bits;
    int64_t *const known = malloc(size * sizeof *known); /* by a hash of its position, which session; -1 for none */
    if (!known)
        return -1;
    memset(known, 0xff, size * sizeof *known);
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
    graphs_of(s, s->target, s->rows, s->sessions, BEFORE);
    vouchers_of(s, s->session, s->sessions, 0, s->of_session, s->session_terms);
    vouchers_of(s, s->level, s->rows, s->sessions, s->of_level, s->level_terms);
    return 0;
}
