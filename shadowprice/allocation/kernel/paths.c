/* Exact segment sizes for a few accounts: successive shortest paths over segments.
 *
 * Every account begins in the segment with the best value - price, which is the best plan for the sizes that come of
 * it. One account at a time then moves along each arc of a shortest path from a segment with too many to one with too
 * few; the length of arc a -> b is the least that an account of a loses by moving to b. Each such plan is the best for
 * its own sizes (Ahuja, Magnanti and Orlin 1993, section 9.7), so the last is optimal and its node potentials are
 * prices.
 *
 * The nodes are the segments. Each arc keeps a shortlist of the accounts that lose least, and makes it again when it is
 * used up.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mover {
    double loss;
    int64_t who;
};

/* Accounts of a that are not listed lose at least `cutoff` by moving to b. They are searched in turn, the next
 * time from where the search ended, so that many equal losses cost one search. */
struct arc {
    int64_t head, size, from;
    double cutoff;
};

struct state {
    int64_t levels, accounts, listed;
    const double *value; /* (accounts, levels) */
    int32_t *segment;
    struct arc *arc;     /* (levels, levels) */
    struct mover *list;  /* (levels, levels, listed) */
    double *least;       /* (levels, levels), loss of the first on each shortlist, or the cutoff of an empty one */
    int64_t **member, *size, *space, *place; /* accounts of each segment; where each account stands there */
};

static void insert(struct state *s, struct arc *arc, struct mover *list, struct mover new)
{
    if (!(new.loss < arc->cutoff)) return;
    if (arc->head > 0 && arc->size == s->listed) {
        memmove(list, list + arc->head, (size_t)(arc->size - arc->head) * sizeof *list);
        arc->size -= arc->head;
        arc->head = 0;
    }
    const int full = arc->size == s->listed;
    int64_t low = arc->head, high = arc->size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (list[middle].loss <= new.loss) low = middle + 1;
        else high = middle;
    }
    if (low < s->listed) {
        memmove(list + low + 1, list + low, (size_t)(arc->size - full - low) * sizeof *list);
        list[low] = new;
        arc->size += !full;
    }
    /* What did not fit, the new one or the last, loses no less than the last that is listed. */
    if (full) arc->cutoff = list[arc->size - 1].loss;
}

static void shortlist(struct state *s, int64_t a, int64_t b)
{
    struct arc *arc = s->arc + a * s->levels + b;
    struct mover *list = s->list + (a * s->levels + b) * s->listed;
    const double least = arc->cutoff;
    arc->head = arc->size = 0;
    arc->cutoff = INFINITY;
    for (int64_t k = 0, at = arc->from; k < s->size[a]; k++, at++) {
        if (at >= s->size[a]) at = 0;
        const int64_t who = s->member[a][at];
        const double *row = s->value + who * s->levels;
        if (row[b] == -INFINITY) continue;
        const struct mover new = {row[a] - row[b], who};
        if (arc->size == s->listed && list[arc->size - 1].loss <= least) {
            arc->cutoff = list[arc->size - 1].loss;
            arc->from = at;
            return;
        }
        insert(s, arc, list, new);
    }
}

/* Drop those who have left a from the head of a shortlist; false when nobody remains on it. */
static int refresh(struct state *s, int64_t a, int64_t b)
{
    struct arc *arc = s->arc + a * s->levels + b;
    const struct mover *list = s->list + (a * s->levels + b) * s->listed;
    while (arc->head < arc->size && s->segment[list[arc->head].who] != a) arc->head++;
    const int some = arc->head < arc->size;
    s->least[a * s->levels + b] = some ? list[arc->head].loss : arc->cutoff;
    return some;
}

/* Account `who` of segment a on the shortlists it belongs to. */
static void list_account(struct state *s, int64_t a, int64_t who)
{
    const double *row = s->value + who * s->levels;
    struct arc *arc = s->arc + a * s->levels;
    double *least = s->least + a * s->levels;
    for (int64_t b = 0; b < s->levels; b++) {
        const double loss = row[a] - row[b];
        if (loss < arc[b].cutoff && b != a) {
            insert(s, arc + b, s->list + (a * s->levels + b) * s->listed, (struct mover){loss, who});
            if (loss < least[b]) least[b] = loss;
        }
    }
}

static int join(struct state *s, int64_t a, int64_t who)
{
    if (s->size[a] == s->space[a]) {
        const int64_t space = s->space[a] + s->space[a] / 2 + 16;
        int64_t *larger = realloc(s->member[a], (size_t)space * sizeof *larger);
        if (!larger) return 0;
        s->member[a] = larger;
        s->space[a] = space;
    }
    s->place[who] = s->size[a];
    s->member[a][s->size[a]++] = who;
    s->segment[who] = (int32_t)a;
    return 1;
}

static int move(struct state *s, int64_t who, int64_t to)
{
    const int64_t from = s->segment[who], last = s->member[from][--s->size[from]];
    s->member[from][s->place[who]] = last;
    s->place[last] = s->place[who];
    if (!join(s, to, who)) return 0;
    list_account(s, to, who);
    for (int64_t b = 0; b < s->levels; b++)
        if (b != from) refresh(s, from, b);
    return 1;
}

/* One round: the shortest path from a segment with too many to one with too few, and the prices after it. An empty
 * shortlist stands for its cutoff, so lengths are too short rather than too long, and only those of the path returned
 * have to be right. Returns its end, or -1 when no segment with too few can be reached. */
static int64_t shortest(struct state *s, const int64_t *demand, double *price, double *distance, int64_t *before,
                        double *length, uint8_t *reached)
{
    const int64_t n = s->levels;
    int64_t end;
    double far;
again:
    end = -1;
    far = INFINITY;
    for (int64_t a = 0; a < n; a++) {
        distance[a] = s->size[a] > demand[a] ? 0.0 : INFINITY;
        before[a] = -1;
        reached[a] = 0;
    }
    for (;;) {
        int64_t a = -1;
        for (int64_t b = 0; b < n; b++)
            if (!reached[b] && distance[b] < INFINITY && (a < 0 || distance[b] < distance[a])) a = b;
        if (a < 0) return -1;
        reached[a] = 1;
        if (s->size[a] < demand[a]) {
            end = a;
            far = distance[a];
            break;
        }
        const double *least = s->least + a * n;
        for (int64_t b = 0; b < n; b++) {
            const double reduced = least[b] - (price[a] - price[b]);
            const double through = distance[a] + (reduced > 0.0 ? reduced : 0.0);
            if (reached[b] || !(through < distance[b])) continue;
            distance[b] = through;
            before[b] = a;
            length[b] = least[b];
        }
    }
    int known = 1;
    for (int64_t b = end; before[b] >= 0; b = before[b])
        if (s->arc[before[b] * n + b].head == s->arc[before[b] * n + b].size) {
            shortlist(s, before[b], b);
            refresh(s, before[b], b);
            known = 0;
        }
    if (!known) goto again;
    for (int64_t a = 0; a < n; a++) price[a] -= distance[a] < far ? distance[a] : far;
    return end;
}

/* About the `rank`-th smallest of x, from a few of them; infinite when the rank is beyond the end. */
static double quantile(const double *x, int64_t n, int64_t rank)
{
    double some[64];
    if (rank >= n) return INFINITY;
    for (int64_t k = 0; k < 64; k++) {
        const double new = x[k * n / 64];
        int64_t at = k;
        for (; at > 0 && some[at - 1] > new; at--) some[at] = some[at - 1];
        some[at] = new;
    }
    return some[rank * 64 / n];
}

/* value: (accounts, levels), minus infinity where ineligible; every account has an eligible level. demand: (levels,)
 * with sum `accounts`. price: (levels,) to begin with, and at the end. segment: (accounts,). least: (levels, levels),
 * what an account of one loses at least by moving to the other; infinite where none can. reached: (levels,), when
 * the sizes are impossible: which segments can take in the accounts that are too many.
 * Returns the number of moves; -1 when the sizes are impossible, -2 without memory.
 */
int64_t exact_sizes(int64_t levels, int64_t accounts, const double *value, const int64_t *demand, double *price,
                    int32_t *segment, double *least, uint8_t *reached)
{
    int64_t listed = 4, result = -2, moves = 0;
    while (listed < 256 && listed * listed < accounts / 64) listed *= 2;
    struct state s = {levels, accounts, listed, value, segment, NULL, NULL, least, NULL, NULL, NULL, NULL};
    double *distance = malloc((size_t)levels * sizeof *distance), *length = malloc((size_t)levels * sizeof *length);
    double *lead = malloc((size_t)(accounts ? accounts : 1) * sizeof *lead);
    int64_t *before = malloc((size_t)levels * sizeof *before), *moving = malloc((size_t)levels * sizeof *moving);
    s.arc = calloc((size_t)(levels * levels), sizeof *s.arc);
    s.list = malloc((size_t)(levels * levels * listed) * sizeof *s.list);
    s.member = calloc((size_t)levels, sizeof *s.member);
    s.size = calloc((size_t)levels, sizeof *s.size);
    s.space = calloc((size_t)levels, sizeof *s.space);
    s.place = malloc((size_t)(accounts ? accounts : 1) * sizeof *s.place);
    if (!distance || !length || !lead || !before || !moving || !s.arc || !s.list || !s.member || !s.size || !s.space || !s.place)
        goto end;

    for (int64_t i = 0; i < accounts; i++) {
        const double *row = value + i * levels;
        double top = -INFINITY, next = -INFINITY;
        int64_t best = 0;
        for (int64_t j = 0; j < levels; j++) {
            const double score = row[j] - price[j], lesser = score < top ? score : top;
            next = next > lesser ? next : lesser;
            best = score > top ? j : best;
            top = score > top ? score : top;
        }
        lead[i] = top - next;
        if (!join(&s, best, i)) goto end;
    }
    const double near = quantile(lead, accounts, 16 * levels + accounts / 16);
    for (int64_t a = 0; a < levels; a++)
        for (int64_t b = 0; b < levels; b++)
            s.arc[a * levels + b].cutoff = least[a * levels + b] = a == b ? INFINITY : price[a] - price[b] + near;
    for (int64_t i = 0; i < accounts; i++)
        if (lead[i] < near) list_account(&s, segment[i], i);
    for (;;) {
        int64_t excess = 0;
        for (int64_t j = 0; j < levels; j++) excess += s.size[j] > demand[j] ? s.size[j] - demand[j] : 0;
        if (!excess) break;
        const int64_t last = shortest(&s, demand, price, distance, before, length, reached);
        if (last < 0) {
            result = -1;
            goto end;
        }
        int64_t source = last;
        while (before[source] >= 0) source = before[source];
        /* The path stays shortest for as long as its arcs keep their lengths. */
        while (s.size[source] > demand[source] && s.size[last] < demand[last]) {
            int same = 1;
            for (int64_t b = last; before[b] >= 0 && same; b = before[b]) {
                const int64_t arc = before[b] * levels + b;
                same = least[arc] <= length[b] && s.arc[arc].head < s.arc[arc].size;
                if (same) moving[b] = s.list[arc * listed + s.arc[arc].head].who;
            }
            if (!same) break;
            for (int64_t b = last; before[b] >= 0; b = before[b], moves++)
                if (!move(&s, moving[b], b)) goto end;
        }
    }
    result = moves;
end:
    if (s.member)
        for (int64_t j = 0; j < levels; j++) free(s.member[j]);
    free(distance);
    free(length);
    free(lead);
    free(before);
    free(moving);
    free(s.arc);
    free(s.list);
    free(s.member);
    free(s.size);
    free(s.space);
    free(s.place);
    return result;
}
