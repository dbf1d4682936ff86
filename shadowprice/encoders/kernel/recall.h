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

TARGET static int NAME(recall)(const struct histories *g)
{
    const int64_t n = g->rows, width = 2 * BOTH + g->most + 3;
    struct NAME(unit) *const unit = lines(sizeof *unit);
    /* Of every session: its embedding (2), its part of what the unit reads (BLOCKS); its sigmoid and -log of it. */
    VEC *const keys = lines((size_t)(g->sessions * (2 + BLOCKS) + 1) * sizeof(VEC));
    REAL *const told = lines((size_t)(2 * g->sessions + 1) * sizeof(REAL));
    if (!unit || !keys || !told) {
        free(unit), free(keys), free(told);
        return -1;
    }
    VEC *const heard = keys + 2 * g->sessions;
    if (!g->average)
        NAME(unfold)(g->weight, unit);
    for (int64_t s = 0; s < g->sessions; s++) {
        NAME(embedding)(g, s, keys + 2 * s);
        const double score = (double)NAME(total)(keys[2 * s] * keys[2 * s + 1]);
        ((REAL *)g->scores)[s] = (REAL)score;
        told[2 * s] = (REAL)NAME(sigmoid)(score);
        told[2 * s + 1] = (REAL)(score > 0 ? log1p(exp(-score)) : log1p(exp(score)) - score);
        if (!g->average) {
            memset(heard + BLOCKS * s, 0, BLOCKS * sizeof(VEC));
            NAME(apply)(unit->columns[1], (const REAL *)(keys + 2 * s), heard + BLOCKS * s);
        }
    }
    const VEC *const slope = g->slope, *const last = g->last, *const bias = g->bias;
    int64_t p = 0;
    for (int64_t row = 0; row < n; row++) {
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
            const VEC *const key = keys + 2 * s;
            REAL w = 1 / count;
            if (!g->average) {
                VEC *const before = (VEC *)g->before + BLOCKS * p;
                const VEC both[2] = {query[0] * key[0], query[1] * key[1]};
                for (int block = 0; block < BLOCKS; block++)
                    before[block] = asked[block] + heard[BLOCKS * s + block];
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
            const REAL here = told[2 * s];
            score[g->slot[p]] = here;
            three[0] = p == start || here > three[0] ? here : three[0];
            three[1] += here / count;
            three[2] = p == start || here < three[2] ? here : three[2];
            aux += told[2 * s + 1] / count;
        }
        ((REAL *)g->auxiliary)[row] = aux;
        memcpy(read, concerned, sizeof concerned);
        memcpy(read + BOTH, query, sizeof query);
    }
    free(unit), free(keys), free(told);
    return 0;
}

TARGET static int NAME(regret)(const struct histories *g, const struct history_gradients *out)
{
    const int64_t n = g->rows, width = 2 * BOTH + g->most + 3;
    struct NAME(unit) *const unit = lines(sizeof *unit);
    struct NAME(unit) *const sums = lines(sizeof *sums); /* of its columns alone */
    /* Of every session: its embedding and the gradient of it (2 each), of its part of what the unit reads (BLOCKS), of
     * its score (one lane). Of every pair: q k (2) and what the unit is told (BLOCKS). */
    const size_t size = (size_t)(g->sessions * (5 + BLOCKS) + 1) * sizeof(VEC);
    VEC *const of_session = lines(size);
    VEC *const of_pair = lines((size_t)(g->pairs * (2 + BLOCKS) + n * (2 + BLOCKS) + 1) * sizeof(VEC));
    if (!unit || !sums || !of_session || !of_pair) {
        free(unit), free(sums), free(of_session), free(of_pair);
        return -1;
    }
    memset(sums, 0, sizeof *sums);
    memset(of_session, 0, size);
    VEC *const keys = of_session, *const dkeys = keys + 2 * g->sessions, *const dheard = dkeys + 2 * g->sessions;
    REAL *const dscore = (REAL *)(dheard + BLOCKS * g->sessions);
    VEC *const products = of_pair, *const told = products + 2 * g->pairs;
    VEC *const queries = told + BLOCKS * g->pairs, *const dasked = queries + 2 * n; /* of the rows with a past, in turn */
    if (!g->average)
        NAME(unfold)(g->weight, unit);
    for (int64_t s = 0; s < g->sessions; s++)
        NAME(embedding)(g, s, keys + 2 * s);
    const VEC *const slope = g->slope, *const last = g->last;
    VEC dslope[BLOCKS] = {{0}}, dlast[BLOCKS] = {{0}}, dbias[BLOCKS] = {{0}};
    REAL dshift = 0;
    int64_t p = 0, asking = 0;
    for (int64_t row = 0; row < n; row++) {
        const REAL *const read = (const REAL *)out->read + row * width, *const score = read + 2 * BOTH;
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
        ((VEC *)out->own)[g->sessions + row] += dquery[0];
        ((VEC *)out->offer)[g->code[g->sessions + row]] += dquery[1];
    }
    for (int64_t s = 0; s < g->sessions; s++) {
        VEC *const dkey = dkeys + 2 * s;
        const VEC *const key = keys + 2 * s;
        if (!g->average)
            NAME(apply_back)(unit->rows[1], (const REAL *)(dheard + BLOCKS * s), dkey);
        ((VEC *)out->own)[s] += dkey[0] + dscore[s] * key[1];
        ((VEC *)out->offer)[g->code[s]] += dkey[1] + dscore[s] * key[0];
    }
    if (!g->average) {
        NAME(gather_outer)(queries, dasked, asking, sums->columns[0]);
        NAME(gather_outer)(keys, dheard, g->sessions, sums->columns[1]);
        NAME(gather_outer)(products, told, g->pairs, sums->columns[2]);
        REAL *const dweight = out->weight;
        for (int64_t u = 0; u < UNITS; u++)
            for (int64_t k = 0; k < BOTH; k++) {
                const REAL a = ((const REAL *)sums->columns[0][k])[u], b = ((const REAL *)sums->columns[1][k])[u];
                REAL *const at = dweight + u * 4 * BOTH + k;
                at[0] += a, at[BOTH] += b, at[2 * BOTH] += a - b;
                at[3 * BOTH] += ((const REAL *)sums->columns[2][k])[u];
            }
        for (int block = 0; block < BLOCKS; block++) {
            ((VEC *)out->bias)[block] += dbias[block];
            ((VEC *)out->slope)[block] += dslope[block];
            ((VEC *)out->last)[block] += dlast[block];
        }
        *(REAL *)out->shift += dshift;
    }
    free(unit), free(sums), free(of_session), free(of_pair);
    return 0;
}
