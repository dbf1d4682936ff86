/* Forth and back over a batch; graphs.c says what is computed.
 *
 * This text is compiled once per instruction set and number type. The including file defines
 *   REAL, FLOAT, NAME(x), TARGET    number type, whether it is float, name decoration, target attribute
 */

#define INLINE TARGET static inline __attribute__((always_inline))

typedef REAL NAME(vec) __attribute__((vector_size(WIDTH * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(vec)

/* out (n, WIDTH) [+]= x (n, inputs) @ columns (inputs, WIDTH). */
INLINE void NAME(product_of)(const REAL *x, int64_t n, const int64_t inputs, const VEC *columns, VEC *out, const int adds)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, x += 4 * inputs) {
        VEC a = {0}, b = {0}, c = {0}, d = {0};
        if (adds)
            a = out[i], b = out[i + 1], c = out[i + 2], d = out[i + 3];
        for (int64_t k = 0; k < inputs; k++) {
            const VEC column = columns[k];
            a += x[k] * column;
            b += x[inputs + k] * column;
            c += x[2 * inputs + k] * column;
            d += x[3 * inputs + k] * column;
        }
        out[i] = a, out[i + 1] = b, out[i + 2] = c, out[i + 3] = d;
    }
    for (; i < n; i++, x += inputs) {
        VEC a = {0};
        if (adds)
            a = out[i];
        for (int64_t k = 0; k < inputs; k++)
            a += x[k] * columns[k];
        out[i] = a;
    }
}

TARGET static void NAME(product)(const REAL *x, int64_t n, int64_t inputs, const VEC *columns, VEC *out, int adds)
{
    if (inputs == WIDTH && adds)
        NAME(product_of)(x, n, WIDTH, columns, out, 1);
    else if (inputs == WIDTH)
        NAME(product_of)(x, n, WIDTH, columns, out, 0);
    else
        NAME(product_of)(x, n, inputs, columns, out, adds);
}

/* total (inputs, WIDTH) += x (n, inputs)^T @ d (n, WIDTH), `many` rows of it at a time, in registers. */
INLINE void NAME(outer_of)(const REAL *x, int64_t stride, int64_t n, const VEC *d, VEC *total, const int many)
{
    VEC sum[WIDTH];
    for (int k = 0; k < many; k++)
        sum[k] = total[k];
    for (int64_t i = 0; i < n; i++, x += stride)
        for (int k = 0; k < many; k++)
            sum[k] += x[k] * d[i];
    for (int k = 0; k < many; k++)
        total[k] = sum[k];
}

TARGET static void NAME(outer)(const REAL *x, int64_t n, int64_t inputs, const VEC *d, VEC *total)
{
    int64_t k = 0;
    for (; k + WIDTH <= inputs; k += WIDTH)
        NAME(outer_of)(x + k, inputs, n, d, total + k, WIDTH);
    for (; k + 2 <= inputs; k += 2)
        NAME(outer_of)(x + k, inputs, n, d, total + k, 2);
    for (; k < inputs; k++)
        NAME(outer_of)(x + k, inputs, n, d, total + k, 1);
}

INLINE REAL NAME(dot)(const VEC *a, const VEC *b)
{
    const VEC v = *a * *b;
    REAL part[WIDTH / 2];
    for (int j = 0; j < WIDTH / 2; j++)
        part[j] = v[j] + v[j + WIDTH / 2];
    for (int half = WIDTH / 4; half; half /= 2)
        for (int j = 0; j < half; j++)
            part[j] += part[j + half];
    return part[0];
}

#if FLOAT
/* tanh(x) = (e^2x - 1) / (e^2x + 1), from e^r - 1 with |r| <= log(2) / 2: right to a few units in the last place, and
 * without a branch, so that it is done in vectors. */
INLINE void NAME(tanh_of)(REAL *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float size = 2.0f * fabsf(x[i]);
        const float t = size < 40.0f ? size : 40.0f;
        const int32_t power = (int32_t)(t * 1.44269504f + 0.5f);
        const float r = (t - (float)power * 0.693359375f) + (float)power * 2.12194440e-4f; /* log(2) in two parts */
        float p = 1.0f / 5040;
        p = p * r + 1.0f / 720;
        p = p * r + 1.0f / 120;
        p = p * r + 1.0f / 24;
        p = p * r + 1.0f / 6;
        p = p * r + 0.5f;
        p = p * r * r + r;
        const int32_t bits = (power + 127) << 23;
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        const float less = scale * p + (scale - 1.0f);
        x[i] = copysignf(less / (less + 2.0f), x[i]);
    }
}
#else
INLINE void NAME(tanh_of)(REAL *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = tanh(x[i]);
}
#endif

/* What both directions start from: matrices as columns, and room for one tile. */
struct NAME(room) {
    void *whole;
    VEC *rel[2], *root[2];           /* columns: (inputs, WIDTH) */
    VEC *of_code[2];                 /* (codes, WIDTH): rel and root times `learned`; back, sums of their gradients */
    VEC unit[2];                     /* select / |select| */
    REAL norm[2];
    VEC *a, *b, *c, *d;              /* (tile, WIDTH) */
    REAL *x;                         /* (tile, inputs) */
};

TARGET static int NAME(open)(const struct graphs *g, struct NAME(room) *room)
{
    const int64_t tile = TILE + g->longest;
    const int64_t vectors = 2 * g->inputs + 2 * WIDTH + 2 * g->codes + 4 * tile;
    VEC *at = room->whole = malloc((size_t)(vectors * WIDTH + tile * g->inputs + 1) * sizeof(REAL));
    if (!at)
        return -1;
    for (int layer = 0; layer < 2; layer++) {
        const int64_t inputs = layer ? WIDTH : g->inputs;
        room->rel[layer] = at, room->root[layer] = at + inputs, at += 2 * inputs;
        for (int64_t k = 0; k < inputs; k++)
            for (int j = 0; j < WIDTH; j++) {
                room->rel[layer][k][j] = ((const REAL *)g->rel[layer])[j * inputs + k];
                room->root[layer][k][j] = ((const REAL *)g->root[layer])[j * inputs + k];
            }
        const VEC select = *(const VEC *)g->select[layer];
        room->norm[layer] = (REAL)sqrt((double)NAME(dot)(&select, &select));
        room->unit[layer] = select / room->norm[layer];
    }
    room->of_code[0] = at, room->of_code[1] = at + g->codes, at += 2 * g->codes;
    room->a = at, room->b = at + tile, room->c = at + 2 * tile, room->d = at + 3 * tile;
    room->x = (REAL *)(at + 4 * tile);
    return 0;
}

/* Consecutive graphs from `graph` on that make one tile; their nodes in `nodes`. */
INLINE int64_t NAME(tile_of)(const struct graphs *g, int64_t graph, int64_t *nodes)
{
    int64_t n = g->length[graph++];
    while (graph < g->graphs && n + g->length[graph] <= TILE)
        n += g->length[graph++];
    *nodes = n;
    return graph;
}

/* The fixed inputs of a tile's nodes (n, inputs). */
INLINE void NAME(collect)(const struct graphs *g, int64_t from, int64_t to, REAL *x)
{
    const int64_t inputs = g->inputs;
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t *const row = g->row + g->first[graph];
        for (int64_t k = 0; k < inputs; k++)
            x[k] = g->own_fixed ? (REAL)g->own_fixed[graph * inputs + k] : 0;
        x += inputs;
        for (int64_t place = 1; place < g->length[graph]; place++, x += inputs)
            for (int64_t k = 0; k < inputs; k++)
                x[k] = (REAL)g->fixed[row[place] * inputs + k];
    }
}

INLINE int64_t NAME(code_of)(const struct graphs *g, int64_t graph, int64_t place)
{
    if (!place)
        return g->own_code[graph];
    const int64_t row = g->row[g->first[graph] + place];
    return g->code ? g->code[row] : row;
}

/* h = relu(sums of rel x + bias + root x) of a tile. */
INLINE void NAME(listen)(
    const struct graphs *g, int64_t from, int64_t to, const VEC *rel, const VEC *root, const VEC bias, VEC *h)
{
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t n = g->length[graph], near = n - 1 < g->nearest ? n - 1 : g->nearest;
        const int before = g->slot[graph] % GROUPS < BEFORE;
        VEC heard = rel[0] + root[0] + bias;
        if (before)
            for (int64_t i = n - near; i < n; i++)
                heard += rel[i];
        h[0] = heard;
        for (int64_t i = 1; i < n; i++) {
            heard = rel[i] + root[i] + bias;
            if (i > 1)
                heard += rel[i - 1];
            if (!before && i <= near)
                heard += rel[0];
            h[i] = heard;
        }
        REAL *const flat = (REAL *)h;
        for (int64_t i = 0; i < n * WIDTH; i++)
            flat[i] = flat[i] > 0 ? flat[i] : 0;
        rel += n, root += n, h += n;
    }
}

/* The transpose of `listen` without the bias: what each node's rel x is told by the gradients d of those that heard it. */
INLINE void NAME(tell)(const struct graphs *g, int64_t from, int64_t to, const VEC *d, VEC *rel)
{
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t n = g->length[graph], near = n - 1 < g->nearest ? n - 1 : g->nearest;
        const int before = g->slot[graph] % GROUPS < BEFORE;
        VEC told = d[0];
        if (!before)
            for (int64_t i = 1; i <= near; i++)
                told += d[i];
        rel[0] = told;
        for (int64_t i = 1; i < n; i++) {
            told = d[i];
            if (i + 1 < n)
                told += d[i + 1];
            if (before && i >= n - near)
                told += d[0];
            rel[i] = told;
        }
        d += n, rel += n;
    }
}

/* Which of a graph's n nodes stay; of equal gates the first go. */
INLINE int64_t NAME(thin)(const REAL *gate, const uint8_t *stayed, int64_t n, double ratio, uint8_t *stays)
{
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++)
        left += stays[i] = stayed ? stayed[i] : 1;
    const int64_t drop = left - (int64_t)ceil(ratio * (double)left - SLACK);
    for (int64_t gone = 0; gone < drop; gone++) {
        int64_t least = -1;
        for (int64_t i = 0; i < n; i++)
            if (stays[i] && (least < 0 || gate[i] < gate[least]))
                least = i;
        stays[least] = 0;
    }
    return left - drop;
}

/* x (n, WIDTH) of one graph: g h, zeros where a node went. */
INLINE void NAME(gated)(const VEC *h, const REAL *gate, const uint8_t *stays, int64_t n, VEC *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = h[i] * (stays[i] ? gate[i] : 0);
}

INLINE void NAME(largest)(const VEC *x, const uint8_t *stays, int64_t n, REAL *most)
{
    for (int j = 0; j < WIDTH; j++)
        most[j] = (REAL)-INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const REAL *const flat = (const REAL *)(x + i);
        if (stays[i])
            for (int j = 0; j < WIDTH; j++)
                most[j] = flat[j] > most[j] ? flat[j] : most[j];
    }
}

TARGET static int NAME(forth)(const struct graphs *g)
{
    struct NAME(room) room;
    if (NAME(open)(g, &room))
        return -1;
    NAME(product)(g->learned, g->codes, g->inputs, room.rel[0], room.of_code[0], 0);
    NAME(product)(g->learned, g->codes, g->inputs, room.root[0], room.of_code[1], 0);
    int64_t nodes = 0, done = 0;
    for (int64_t from = 0, to; from < g->graphs; from = to, done += nodes) {
        to = NAME(tile_of)(g, from, &nodes);
        VEC *const rel = room.a, *const root = room.b, *const x = room.c;
        int64_t node = 0;
        for (int64_t graph = from; graph < to; graph++)
            for (int64_t place = 0; place < g->length[graph]; place++, node++) {
                const int64_t code = NAME(code_of)(g, graph, place);
                rel[node] = room.of_code[0][code], root[node] = room.of_code[1][code];
            }
        if (g->fixed) {
            NAME(collect)(g, from, to, room.x);
            NAME(product)(room.x, nodes, g->inputs, room.rel[0], rel, 1);
            NAME(product)(room.x, nodes, g->inputs, room.root[0], root, 1);
        }
        for (int layer = 0; layer < 2; layer++) {
            VEC *const h = (VEC *)g->h[layer] + done;
            REAL *const gate = (REAL *)g->gate[layer] + done;
            uint8_t *const stays = g->stays[layer] + done;
            if (layer) {
                NAME(product)((const REAL *)x, nodes, WIDTH, room.rel[1], rel, 0);
                NAME(product)((const REAL *)x, nodes, WIDTH, room.root[1], root, 0);
            }
            NAME(listen)(g, from, to, rel, root, *(const VEC *)g->bias[layer], h);
            for (int64_t i = 0; i < nodes; i++)
                gate[i] = NAME(dot)(h + i, &room.unit[layer]);
            NAME(tanh_of)(gate, nodes);
            node = 0;
            for (int64_t graph = from; graph < to; graph++) {
                const int64_t n = g->length[graph];
                const uint8_t *const stayed = layer ? g->stays[0] + done + node : 0;
                const int64_t left = NAME(thin)(gate + node, stayed, n, g->ratio, stays + node);
                NAME(gated)(h + node, gate + node, stays + node, n, x + node);
                REAL most[WIDTH];
                NAME(largest)(x + node, stays + node, n, most);
                VEC *const readout = (VEC *)g->readout + 2 * g->slot[graph];
                readout[0] += *(VEC *)most;
                VEC sum = {0};
                for (int64_t i = 0; i < n; i++)
                    sum += x[node + i];
                readout[1] += sum / (REAL)left;
                node += n;
            }
        }
    }
    free(room.whole);
    return 0;
}

/* From the gradient dx of a layer's x (with what the next layer asks, or zeros) and of its readout to that of h before
 * the relu, in place; select gains what is its own. */
INLINE void NAME(unpool)(
    const struct graphs *g, const struct gradients *out, int64_t from, int64_t to, int64_t done, int layer,
    const struct NAME(room) *room, const VEC *x, VEC *dx, VEC *select)
{
    int64_t node = 0;
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t n = g->length[graph];
        const VEC *const h = (const VEC *)g->h[layer] + done + node;
        const REAL *const gate = (const REAL *)g->gate[layer] + done + node;
        const uint8_t *const stays = g->stays[layer] + done + node;
        const VEC *const asked = (const VEC *)out->readout + 2 * g->slot[graph];
        REAL most[WIDTH], share[WIDTH];
        NAME(largest)(x + node, stays, n, most);
        int64_t left = 0;
        REAL equal[WIDTH] = {0};
        for (int64_t i = 0; i < n; i++) {
            const REAL *const flat = (const REAL *)(x + node + i);
            if (stays[i])
                for (int j = 0; j < WIDTH; j++)
                    equal[j] += flat[j] == most[j] ? (REAL)1 : (REAL)0;
            left += stays[i];
        }
        for (int j = 0; j < WIDTH; j++)
            share[j] = asked[0][j] / equal[j];
        const VEC mean = asked[1] / (REAL)left;
        for (int64_t i = 0; i < n; i++) {
            VEC *const d = dx + node + i;
            REAL *const flat = (REAL *)d;
            if (!stays[i]) {
                *d = (VEC){0};
                continue;
            }
            const REAL *const value = (const REAL *)(x + node + i), *const kept = (const REAL *)(h + i);
            for (int j = 0; j < WIDTH; j++)
                flat[j] += value[j] == most[j] ? share[j] : (REAL)0;
            *d += mean;
            const REAL steep = NAME(dot)(d, h + i) * ((REAL)1 - gate[i] * gate[i]);
            *select += steep * h[i];
            *d = *d * gate[i] + steep * room->unit[layer];
            for (int j = 0; j < WIDTH; j++)
                flat[j] = kept[j] > 0 ? flat[j] : (REAL)0;
        }
        node += n;
    }
}

/* by rows (WIDTH, inputs) += columns (inputs, WIDTH). */
TARGET static void NAME(add_columns)(const VEC *columns, int64_t inputs, REAL *rows)
{
    for (int64_t k = 0; k < inputs; k++)
        for (int j = 0; j < WIDTH; j++)
            rows[j * inputs + k] += columns[k][j];
}

TARGET static int NAME(back)(const struct graphs *g, const struct gradients *out)
{
    struct NAME(room) room;
    if (NAME(open)(g, &room))
        return -1;
    const int64_t inputs = g->inputs;
    VEC *const sums = calloc((size_t)(2 * (inputs + WIDTH)), sizeof(VEC));
    if (!sums) {
        free(room.whole);
        return -1;
    }
    VEC *const rel_sum[2] = {sums, sums + 2 * inputs}, *const root_sum[2] = {sums + inputs, sums + 2 * inputs + WIDTH};
    VEC bias_sum[2] = {{0}, {0}}, select_sum[2] = {{0}, {0}};
    memset(room.of_code[0], 0, (size_t)(2 * g->codes) * sizeof(VEC));
    /* The second layer's matrices by rows take gradients of what it gave back to what it was given. */
    const VEC *const rel_rows = (const VEC *)g->rel[1], *const root_rows = (const VEC *)g->root[1];
    int64_t nodes = 0, done = 0;
    for (int64_t from = 0, to; from < g->graphs; from = to, done += nodes) {
        to = NAME(tile_of)(g, from, &nodes);
        VEC *const x = room.a, *const dx = room.b, *const dh = room.c, *const drel = room.d;
        memset(dh, 0, (size_t)nodes * sizeof(VEC));
        for (int layer = 1; layer >= 0; layer--) {
            VEC *const d = layer ? dh : dx;
            const VEC *const h = (const VEC *)g->h[layer] + done;
            NAME(gated)(h, (const REAL *)g->gate[layer] + done, g->stays[layer] + done, nodes, x);
            NAME(unpool)(g, out, from, to, done, layer, &room, x, d, &select_sum[layer]);
            NAME(tell)(g, from, to, d, drel);
            for (int64_t i = 0; i < nodes; i++)
                bias_sum[layer] += d[i];
            if (layer) {
                NAME(gated)(
                    (const VEC *)g->h[0] + done, (const REAL *)g->gate[0] + done, g->stays[0] + done, nodes, x);
                NAME(outer)((const REAL *)x, nodes, WIDTH, drel, rel_sum[1]);
                NAME(outer)((const REAL *)x, nodes, WIDTH, d, root_sum[1]);
                NAME(product)((const REAL *)drel, nodes, WIDTH, rel_rows, dx, 0);
                NAME(product)((const REAL *)d, nodes, WIDTH, root_rows, dx, 1);
                continue;
            }
            if (g->fixed) {
                NAME(collect)(g, from, to, room.x);
                NAME(outer)(room.x, nodes, inputs, drel, rel_sum[0]);
                NAME(outer)(room.x, nodes, inputs, d, root_sum[0]);
            }
            int64_t node = 0;
            for (int64_t graph = from; graph < to; graph++)
                for (int64_t place = 0; place < g->length[graph]; place++, node++) {
                    const int64_t code = NAME(code_of)(g, graph, place);
                    room.of_code[0][code] += drel[node];
                    room.of_code[1][code] += d[node];
                }
        }
    }
    NAME(outer)(g->learned, g->codes, inputs, room.of_code[0], rel_sum[0]);
    NAME(outer)(g->learned, g->codes, inputs, room.of_code[1], root_sum[0]);
    for (int64_t code = 0; code < g->codes; code++)
        for (int64_t k = 0; k < inputs; k++)
            ((REAL *)out->learned)[code * inputs + k] += NAME(dot)(&room.rel[0][k], &room.of_code[0][code])
                                                       + NAME(dot)(&room.root[0][k], &room.of_code[1][code]);
    for (int layer = 0; layer < 2; layer++) {
        const int64_t width = layer ? WIDTH : inputs;
        NAME(add_columns)(rel_sum[layer], width, out->rel[layer]);
        NAME(add_columns)(root_sum[layer], width, out->root[layer]);
        *(VEC *)out->bias[layer] += bias_sum[layer];
        const VEC unit = room.unit[layer];
        const REAL along = NAME(dot)(&unit, &select_sum[layer]);
        *(VEC *)out->select[layer] += (select_sum[layer] - along * unit) / room.norm[layer];
    }
    free(sums);
    free(room.whole);
    return 0;
}

#undef VEC
#undef INLINE
#undef NAME
#undef TARGET
