/* Forth and back over histories; histories.c says what is computed. */

/* The unit's matrices, by columns (BOTH, BLOCKS) and by rows (UNITS, 2): of the query, of the key, of their product. */
struct NAME(unit) {
    VEC columns[3][BOTH][BLOCKS];
    VEC rows[3][UNITS][2];
};

TARGET static void NAME(unfold)(const REAL *weight, struct NAME(unit) *unit)
{
    for (int64_t u = 0; u < UNITS; u++)
        for (int64_t k = 0; k < BOTH; k++) {
            const REAL *const at = weight + u * 4 * BOTH + k;
            const REAL part[3] = {at[0] + at[2 * BOTH], at[BOTH] - at[2 * BOTH], at[3 * BOTH]};
            for (int m = 0; m < 3; m++) {
                ((REAL *)unit->columns[m][k])[u] = part[m];
                ((REAL *)unit->rows[m][u])[k] = part[m];
            }
        }
}

/* to (UNITS) += matrix x (BOTH). */
INLINE void NAME(apply)(const VEC columns[BOTH][BLOCKS], const REAL *x, VEC *to)
{
    VEC a = to[0], b = to[1], c = to[2], d = to[3];
    for (int k = 0; k < BOTH; k++) {
        a += x[k] * columns[k][0];
        b += x[k] * columns[k][1];
        c += x[k] * columns[k][2];
        d += x[k] * columns[k][3];
    }
    to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

/* to (BOTH) += transposed matrix d (UNITS). */
INLINE void NAME(apply_back)(const VEC rows[UNITS][2], const REAL *d, VEC *to)
{
    VEC a = to[0], b = to[1], c = {0}, e = {0};
    for (int u = 0; u < UNITS; u += 2) {
        a += d[u] * rows[u][0];
        b += d[u] * rows[u][1];
        c += d[u + 1] * rows[u + 1][0];
        e += d[u + 1] * rows[u + 1][1];
    }
    to[0] = a + c, to[1] = b + e;
}

/* total (BOTH, UNITS) += x (n, BOTH)^T d (n, UNITS). */
INLINE void NAME(gather_outer)(const VEC *x, const VEC *d, int64_t n, VEC total[BOTH][BLOCKS])
{
    for (int k = 0; k < BOTH; k += 4) {
        VEC sum[4][BLOCKS];
        memcpy(sum, total[k], sizeof sum);
        for (int64_t i = 0; i < n; i++) {
            const REAL *const at = (const REAL *)(x + 2 * i) + k;
            for (int o = 0; o < 4; o++)
                for (int block = 0; block < BLOCKS; block++)
                    sum[o][block] += at[o] * d[BLOCKS * i + block];
        }
        memcpy(total[k], sum, sizeof sum);
    }
}

INLINE void NAME(embedding)(const struct histories *g, int64_t at, VEC *e)
{
    e[0] = ((const VEC *)g->own)[at];
    e[1] = ((const VEC *)g->offer)[g->code[at]];
}

INLINE double NAME(sigmoid)(double x) { return 1 / (1 + exp(-x)); }

/* What the parts of either way share; back also what each of them adds up. */
struct NAME(shared) {
    const struct histories *given;
    const struct history_gradients *asked; /* null on the way forth */
    struct NAME(unit) *unit;
    VEC *keys, *heard;               /* of every session: its embedding (2), its part of what the unit reads (BLOCKS) */
    REAL *told;                      /* of every session: its sigmoid and -log of it */
    /* Of every pair: q k (2), what the unit is told (BLOCKS); of the rows of a part with a past, in turn: the same. */
    VEC *products, *pair_told, *queries, *row_told;
    VEC *sums;                       /* (PARTS, size) */
    int64_t size;
};

/* Where the sums of a part are. */
struct NAME(sums) {
    VEC *keys, *heard, *scores;      /* of every session: gradients (2), (BLOCKS), one lane */
    VEC *offer;                      /* (codes,) */
    VEC *slope, *last, *bias, *shift; /* (BLOCKS,) thrice, one lane */
    VEC (*query)[BLOCKS], (*product)[BLOCKS]; /* (BOTH,): of the unit's columns */
};

INLINE int64_t NAME(size_of)(const struct histories *g)
{
    const int64_t lanes = (g->sessions + WIDTH - 1) / WIDTH;
    return (2 + BLOCKS) * g->sessions + lanes + g->codes + 3 * BLOCKS + 1 + 2 * BOTH * BLOCKS;
}

INLINE void NAME(sums_of)(const struct histories *g, VEC *at, struct NAME(sums) *sums)
{
    sums->keys = at, at += 2 * g->sessions;
    sums->heard = at, at += BLOCKS * g->sessions;
    sums->scores = at, at += (g->sessions + WIDTH - 1) / WIDTH;
    sums->offer = at, at += g->codes;
    sums->slope = at, sums->last = at + BLOCKS, sums->bias = at + 2 * BLOCKS, sums->shift = at + 3 * BLOCKS;
    at += 3 * BLOCKS + 1;
    sums->query = (VEC(*)[BLOCKS])at, sums->product = (VEC(*)[BLOCKS])(at + BOTH * BLOCKS);
}

/* The first pair of a row or of one after it. */
INLINE int64_t NAME(pairs_before)(const struct histories *g, int64_t row)
{
    int64_t low = 0, high = g->pairs;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (g->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

TARGET static void NAME(recall_sessions)(void *at, int part)
{
    const struct NAME(shared) *const shared = at;
    const struct histories *const g = shared->given;
    for (int64_t s = g->sessions * part / PARTS; s < g->sessions * (part + 1) / PARTS; s++) {
        VEC *const key = shared->keys + 2 * s, *const heard = shared->heard + BLOCKS * s;
        NAME(embedding)(g, s, key);
        const double score = (double)NAME(total)(key[0] * key[1]);
        ((REAL *)g->scores)[s] = (REAL)score;
        shared->told[2 * s] = (REAL)NAME(sigmoid)(score);
        shared->told[2 * s + 1] = (REAL)(score > 0 ? log1p(exp(-score)) : log1p(exp(score)) - score);
        if (!g->average) {
            memset(heard, 0, BLOCKS * sizeof(VEC));
            NAME(apply)(shared->unit->columns[1], (const REAL *)key, heard);
        }
    }
}

TARGET static void NAME(recall_rows)(void *at, int part)
{
    const struct NAME(shared) *const shared = at;
    const struct histories *const g = shared->given;
    const struct NAME(unit) *const unit = shared->unit;
    const int64_t width = 2 * BOTH + g->most + 3, from = g->rows * part / PARTS, to = g->rows * (part + 1) / PARTS;
    const VEC *const slope = g->slope, *const last = g->last, *const bias = g->bias;
    int64_t p = NAME(pairs_before)(g, from);
    for (int64_t row = from; row < to; row++) {
        REAL *const read = (REAL *)g->read + row * width, *const score = read + 2 * BOTH, *const three = score + g->most;
        VEC query[2], concerned[2] = {{0}, {0}}, asked[BLOCKS];
        NAME(embedding)(g, g->sessions + row, query);
        memset(score, 0, (size_t)(g->most + 3) * sizeof(REAL));
        int64_t stop = p;
        while (stop < g->pairs && g->row[stop] == row)
            stop++;
        const REAL count = (REAL)(stop - p);
        REAL aux = 0;
        if (stop > p && !g->average) {
            memcpy(asked, bias, sizeof asked);
            NAME(apply)(unit->columns[0], (const REAL *)query, asked);
        }
        for (const int64_t start = p; p < stop; p++) {
            const int64_t s = g->session[p];
            const VEC *const key = shared->keys + 2 * s;
            REAL w = 1 / count;
            if (!g->average) {
                VEC *const before = (VEC *)g->before + BLOCKS * p;
                const VEC both[2] = {query[0] * key[0], query[1] * key[1]};
                for (int block = 0; block < BLOCKS; block++)
                    before[block] = asked[block] + shared->heard[BLOCKS * s + block];
                NAME(apply)(unit->columns[2], (const REAL *)both, before);
                VEC sum = {0};
                for (int block = 0; block < BLOCKS; block++) {
                    const VEC v = before[block], rise = WHERE(v > 0, v);
                    sum += (rise + slope[block] * (v - rise)) * last[block];
                }
                w = NAME(total)(sum) + *(const REAL *)g->shift;
            }
            ((REAL *)g->weights)[p] = w;
            concerned[0] += w * key[0];
            concerned[1] += w * key[1];
            const REAL here = shared->told[2 * s];
            score[g->slot[p]] = here;
            three[0] = p == start || here > three[0] ? here : three[0];
            three[1] += here / count;
            three[2] = p == start || here < three[2] ? here : three[2];
            aux += shared->told[2 * s + 1] / count;
        }
        ((REAL *)g->auxiliary)[row] = aux;
        memcpy(read, concerned, sizeof concerned);
        memcpy(read + BOTH, query, sizeof query);
    }
}

TARGET static int NAME(recall)(const struct histories *g)
{
    struct NAME(shared) shared = {.given = g, .unit = lines(sizeof *shared.unit)};
    shared.keys = lines((size_t)(g->sessions * (2 + BLOCKS) + 1) * sizeof(VEC));
    shared.told = lines((size_t)(2 * g->sessions + 1) * sizeof(REAL));
    const int fits = shared.unit && shared.keys && shared.told;
    if (fits) {
        shared.heard = shared.keys + 2 * g->sessions;
        if (!g->average)
            NAME(unfold)(g->weight, shared.unit);
        in_parts(&g->threads, NAME(recall_sessions), &shared);
        in_parts(&g->threads, NAME(recall_rows), &shared);
    }
    free(shared.unit), free(shared.keys), free(shared.told);
    return fits ? 0 : -1;
}

TARGET static void NAME(regret_rows)(void *at, int part)
{
    const struct NAME(shared) *const shared = at;
    const struct histories *const g = shared->given;
    const struct history_gradients *const out = shared->asked;
    const struct NAME(unit) *const unit = shared->unit;
    const VEC *const keys = shared->keys;
    VEC *const products = shared->products, *const told = shared->pair_told;
    const int64_t from = g->rows * part / PARTS, to = g->rows * (part + 1) / PARTS;
    VEC *const queries = shared->queries + 2 * from, *const dasked = shared->row_told + BLOCKS * from;
    struct NAME(sums) sums;
    NAME(sums_of)(g, shared->sums + part * shared->size, &sums);
    memset(sums.keys, 0, (size_t)shared->size * sizeof(VEC));
    VEC *const dkeys = sums.keys, *const dheard = sums.heard;
    REAL *const dscore = (REAL *)sums.scores;
    const VEC *const slope = g->slope, *const last = g->last;
    VEC dslope[BLOCKS] = {{0}}, dlast[BLOCKS] = {{0}}, dbias[BLOCKS] = {{0}};
    REAL dshift = 0;
    const int64_t start = NAME(pairs_before)(g, from);
    int64_t p = start, asking = 0;
    for (int64_t row = from; row < to; row++) {
        const REAL *const read = (const REAL *)out->read + row * out->stride, *const score = read + 2 * BOTH;
        const REAL *const three = score + g->most, aux = ((const REAL *)out->auxiliary)[row];
        const VEC *const dconcerned = (const VEC *)read;
        VEC query[2], dquery[2];
        NAME(embedding)(g, g->sessions + row, query);
        memcpy(dquery, read + BOTH, sizeof dquery);
        int64_t stop = p, most = p, least = p;
        while (stop < g->pairs && g->row[stop] == row) {
            const REAL here = ((const REAL *)g->scores)[g->session[stop]];
            if (here > ((const REAL *)g->scores)[g->session[most]])
                most = stop;
            if (here < ((const REAL *)g->scores)[g->session[least]])
                least = stop;
            stop++;
        }
        const REAL count = (REAL)(stop - p);
        VEC *const asked = dasked + BLOCKS * asking;
        if (stop > p) {
            memset(asked, 0, BLOCKS * sizeof(VEC));
            memcpy(queries + 2 * asking, query, sizeof query);
        }
        for (; p < stop; p++) {
            const int64_t s = g->session[p];
            const VEC *const key = keys + 2 * s;
            VEC *const dkey = dkeys + 2 * s;
            const REAL w = ((const REAL *)g->weights)[p];
            dkey[0] += w * dconcerned[0];
            dkey[1] += w * dconcerned[1];
            const double sigmoid = NAME(sigmoid)((double)((const REAL *)g->scores)[s]);
            const REAL dsigmoid = score[g->slot[p]] + three[1] / count + (p == most ? three[0] : 0) + (p == least ? three[2] : 0);
            dscore[s] += dsigmoid * (REAL)(sigmoid * (1 - sigmoid)) - aux / count * (REAL)(1 - sigmoid);
            if (g->average)
                continue;
            const REAL dw = NAME(total)(dconcerned[0] * key[0] + dconcerned[1] * key[1]);
            dshift += dw;
            const VEC *const before = (const VEC *)g->before + BLOCKS * p;
            VEC *const d = told + BLOCKS * p;
            for (int block = 0; block < BLOCKS; block++) {
                const VEC v = before[block], rise = WHERE(v > 0, v), fall = v - rise, back = dw * last[block];
                dlast[block] += dw * (rise + slope[block] * fall);
                dslope[block] += back * fall;
                d[block] = back * (WHERE(v > 0, (VEC){0} + (REAL)1) + WHERE(v <= 0, slope[block]));
            }
            for (int block = 0; block < BLOCKS; block++) {
                asked[block] += d[block];
                dheard[BLOCKS * s + block] += d[block];
            }
            products[2 * p] = query[0] * key[0], products[2 * p + 1] = query[1] * key[1];
            VEC dboth[2] = {{0}, {0}};
            NAME(apply_back)(unit->rows[2], (const REAL *)d, dboth);
            for (int part = 0; part < 2; part++) {
                dkey[part] += dboth[part] * query[part];
                dquery[part] += dboth[part] * key[part];
            }
        }
        if (count > 0 && !g->average) {
            for (int block = 0; block < BLOCKS; block++)
                dbias[block] += asked[block];
            NAME(apply_back)(unit->rows[0], (const REAL *)asked, dquery);
            asking++;
        }
        ((VEC *)out->own)[g->sessions + row] = dquery[0];
        sums.offer[g->code[g->sessions + row]] += dquery[1];
    }
    if (!g->average) {
        NAME(gather_outer)(queries, dasked, asking, sums.query);
        NAME(gather_outer)(products + 2 * start, told + BLOCKS * start, p - start, sums.product);
    }
    memcpy(sums.slope, dslope, sizeof dslope);
    memcpy(sums.last, dlast, sizeof dlast);
    memcpy(sums.bias, dbias, sizeof dbias);
    *(REAL *)sums.shift = dshift;
}

TARGET static int NAME(regret)(const struct histories *g, const struct history_gradients *out)
{
    struct NAME(shared) shared = {.given = g, .asked = out, .unit = lines(sizeof *shared.unit)};
    struct NAME(sums) sums;
    shared.size = NAME(size_of)(g);
    VEC *const of_key = lines(BOTH * BLOCKS * sizeof(VEC)); /* of the unit's columns */
    shared.keys = lines((size_t)(2 * g->sessions + 1) * sizeof(VEC));
    shared.products = lines((size_t)((g->pairs + g->rows) * (2 + BLOCKS) + 1) * sizeof(VEC));
    shared.sums = lines((size_t)(PARTS * shared.size) * sizeof(VEC));
    const int fits = shared.unit && of_key && shared.keys && shared.products && shared.sums;
    if (fits) {
        const struct NAME(unit) *const unit = shared.unit;
        VEC *const keys = shared.keys;
        shared.pair_told = shared.products + 2 * g->pairs;
        shared.queries = shared.pair_told + BLOCKS * g->pairs;
        shared.row_told = shared.queries + 2 * g->rows;
        if (!g->average)
            NAME(unfold)(g->weight, shared.unit);
        for (int64_t s = 0; s < g->sessions; s++)
            NAME(embedding)(g, s, keys + 2 * s);
        in_parts(&g->threads, NAME(regret_rows), &shared);
        NAME(sums_of)(g, shared.sums, &sums);
        for (int part = 1; part < PARTS; part++)
            for (int64_t i = 0; i < shared.size; i++)
                shared.sums[i] += shared.sums[part * shared.size + i];
        for (int64_t s = 0; s < g->sessions; s++) {
            VEC *const dkey = sums.keys + 2 * s;
            const VEC *const key = keys + 2 * s;
            const REAL dscore = ((const REAL *)sums.scores)[s];
            if (!g->average)
                NAME(apply_back)(unit->rows[1], (const REAL *)(sums.heard + BLOCKS * s), dkey);
            ((VEC *)out->own)[s] = dkey[0] + dscore * key[1];
            sums.offer[g->code[s]] += dkey[1] + dscore * key[0];
        }
        for (int64_t code = 0; code < g->codes; code++)
            ((VEC *)out->offer)[code] += sums.offer[code];
        if (!g->average) {
            memset(of_key, 0, BOTH * BLOCKS * sizeof(VEC));
            NAME(gather_outer)(keys, sums.heard, g->sessions, (VEC(*)[BLOCKS])of_key);
            REAL *const dweight = out->weight;
            for (int64_t u = 0; u < UNITS; u++)
                for (int64_t k = 0; k < BOTH; k++) {
                    const REAL a = ((const REAL *)sums.query[k])[u], b = ((const REAL *)(of_key + BLOCKS * k))[u];
                    REAL *const at = dweight + u * 4 * BOTH + k;
                    at[0] += a, at[BOTH] += b, at[2 * BOTH] += a - b;
                    at[3 * BOTH] += ((const REAL *)sums.product[k])[u];
                }
            for (int block = 0; block < BLOCKS; block++) {
                ((VEC *)out->bias)[block] += sums.bias[block];
                ((VEC *)out->slope)[block] += sums.slope[block];
                ((VEC *)out->last)[block] += sums.last[block];
            }
            *(REAL *)out->shift += *(const REAL *)sums.shift;
        }
    }
    free(shared.unit), free(of_key), free(shared.keys), free(shared.products), free(shared.sums);
    return fits ? 0 : -1;
}
