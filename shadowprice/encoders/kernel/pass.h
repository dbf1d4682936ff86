/* Forth and back over a batch; graphs.c says what is computed. */

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

/* a and b (n, WIDTH) += x (n, WIDTH) @ columns, of two matrices; x are rows that lie about. */
INLINE void NAME(products)(const float *const *x, int64_t n, const VEC *as, const VEC *bs, VEC *a, VEC *b)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        VEC sum[8] = {a[i], a[i + 1], a[i + 2], a[i + 3], b[i], b[i + 1], b[i + 2], b[i + 3]};
        for (int k = 0; k < WIDTH; k++)
            for (int o = 0; o < 4; o++) {
                sum[o] += (REAL)x[i + o][k] * as[k];
                sum[4 + o] += (REAL)x[i + o][k] * bs[k];
            }
        for (int o = 0; o < 4; o++)
            a[i + o] = sum[o], b[i + o] = sum[4 + o];
    }
    for (; i < n; i++) {
        VEC one = a[i], other = b[i];
        for (int k = 0; k < WIDTH; k++) {
            one += (REAL)x[i][k] * as[k];
            other += (REAL)x[i][k] * bs[k];
        }
        a[i] = one, b[i] = other;
    }
}

/* Their gradients: total (WIDTH, WIDTH) += x (n, WIDTH)^T @ d (n, WIDTH). */
TARGET static void NAME(outer_about)(const float *const *x, int64_t n, const VEC *d, VEC *total)
{
    VEC sum[WIDTH];
    memcpy(sum, total, sizeof sum);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < WIDTH; k++)
            sum[k] += (REAL)x[i][k] * d[i];
    memcpy(total, sum, sizeof sum);
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

INLINE REAL NAME(dot)(const VEC a, const VEC b) { return NAME(total)(a * b); }

#if FLOAT
/* tanh(x) = (e^2x - 1) / (e^2x + 1), from e^r - 1 with |r| <= log(2) / 2: right to a few units in the last place. */
INLINE void NAME(tanh_of)(VEC *x)
{
    const VEC one = (VEC){0} + 1.0f;
    const RAW sign = (RAW)*x & (RAW)-(VEC){0};
    VEC t = 2.0f * (VEC)((RAW)*x ^ sign);
    t = CHOICE(t < 40.0f, t, 40.0f * one);
    const RAW power = __builtin_convertvector(t * 1.44269504f + 0.5f, RAW);
    const VEC whole = __builtin_convertvector(power, VEC);
    const VEC r = (t - whole * 0.693359375f) + whole * 2.12194440e-4f; /* log(2) in two parts */
    VEC p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r;
    const VEC scale = (VEC)((power + 127) << 23);
    const VEC less = scale * p + (scale - one);
    *x = (VEC)((RAW)(less / (less + 2.0f)) | sign);
}
#else
INLINE void NAME(tanh_of)(VEC *x)
{
    for (int j = 0; j < WIDTH; j++)
        (*x)[j] = tanh((*x)[j]);
}
#endif

/* Consecutive graphs that one thread takes; a member's are in one part. */
struct NAME(part) {
    int64_t from, to, done;          /* graphs, and nodes before them */
    VEC *a, *b, *c, *d, *asked;      /* (tile, WIDTH), the last twice (tile, WIDTH) */
    const float **x;                 /* (tile,): where the fixed part of a node is */
    /* Sums of gradients, one behind the other from `of_code[0]` on: for matrices by columns. */
    VEC *of_code[2];                 /* (codes, WIDTH): of rel and root times the table */
    VEC *rel[2], *root[2], *out;     /* (inputs, WIDTH) each, (GROUPS * 2 * WIDTH, WIDTH) */
    VEC *bias, *select;              /* (2, WIDTH): of both layers */
};

/* What both directions start from: matrices as columns, and parts. */
struct NAME(room) {
    const struct graphs *given;
    const struct gradients *asked;   /* null on the way forth */
    void *whole;
    VEC *rel[2], *root[2];           /* columns: (inputs, WIDTH) */
    VEC *of_code[2];                 /* forth (codes, WIDTH): rel and root times the table */
    REAL *table;                     /* (codes, inputs) */
    VEC *out;                        /* columns: (GROUPS * 2 * WIDTH, WIDTH) */
    VEC unit[2];                     /* select / |select| */
    REAL norm[2];
    int64_t sums;                    /* vectors that a part adds up */
    struct NAME(part) part[PARTS];
};

/* The graphs of every part: about as many nodes in each. */
TARGET static void NAME(share)(const struct graphs *g, struct NAME(part) *part)
{
    int64_t nodes = 0, done = 0, graph = 0;
    for (int64_t each = 0; each < g->graphs; each++)
        nodes += g->length[each];
    for (int k = 0; k < PARTS; k++) {
        part[k].from = graph, part[k].done = done;
        while (graph < g->graphs
               && (done * PARTS < nodes * (k + 1) || g->slot[graph] / GROUPS == g->slot[graph - 1] / GROUPS))
            done += g->length[graph++];
        part[k].to = graph;
    }
}

TARGET static int NAME(open)(const struct graphs *g, const struct gradients *asked, struct NAME(room) *room)
{
    const int64_t tile = TILE + g->longest;
    const int64_t matrices = 2 * g->inputs + 2 * WIDTH + GROUPS * 2 * WIDTH;
    room->given = g, room->asked = asked;
    room->sums = 2 * g->codes + matrices + 4;
    const int64_t own = 6 * tile + (asked ? room->sums : 0), shared = matrices + (asked ? 0 : 2 * g->codes);
    const int64_t table = (g->codes * g->inputs + WIDTH - 1) / WIDTH;
    VEC *at = room->whole =
        lines((size_t)(shared + table + PARTS * own) * sizeof(VEC) + (size_t)(PARTS * tile) * sizeof(float *));
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
        room->norm[layer] = (REAL)sqrt((double)NAME(dot)(select, select));
        room->unit[layer] = select / room->norm[layer];
    }
    room->out = at, at += GROUPS * 2 * WIDTH;
    for (int64_t k = 0; k < GROUPS * 2 * WIDTH; k++)
        for (int j = 0; j < WIDTH; j++)
            room->out[k][j] = ((const REAL *)g->out)[j * GROUPS * 2 * WIDTH + k];
    if (!asked)
        room->of_code[0] = at, room->of_code[1] = at + g->codes, at += 2 * g->codes;
    room->table = (REAL *)at, at += table;
    memcpy(room->table, g->base, (size_t)(g->codes * g->inputs) * sizeof(REAL));
    REAL *row = room->table;
    for (int64_t piece = 0; piece < g->pieces; piece++) {
        const struct learned *const of = g->piece + piece;
        for (int64_t i = 0; i < of->rows * of->times; i++, row += g->inputs)
            memcpy(row + of->first, (const REAL *)of->values + i / of->times * of->width, (size_t)of->width * sizeof(REAL));
    }
    NAME(share)(g, room->part);
    for (int k = 0; k < PARTS; k++) {
        struct NAME(part) *const part = room->part + k;
        part->a = at, part->b = at + tile, part->c = at + 2 * tile, part->d = at + 3 * tile, part->asked = at + 4 * tile;
        at += 6 * tile;
        if (!asked)
            continue;
        memset(at, 0, (size_t)room->sums * sizeof(VEC));
        part->of_code[0] = at, part->of_code[1] = at + g->codes, at += 2 * g->codes;
        for (int layer = 0; layer < 2; layer++) {
            const int64_t inputs = layer ? WIDTH : g->inputs;
            part->rel[layer] = at, part->root[layer] = at + inputs, at += 2 * inputs;
        }
        part->out = at, part->bias = at + GROUPS * 2 * WIDTH, part->select = part->bias + 2;
        at = part->select + 2;
    }
    for (int k = 0; k < PARTS; k++)
        room->part[k].x = (const float **)at + k * tile;
    return 0;
}

/* Consecutive graphs from `graph` on, before `stop`, that make one tile; their nodes in `nodes`. */
INLINE int64_t NAME(tile_of)(const struct graphs *g, int64_t graph, int64_t stop, int64_t *nodes)
{
    int64_t n = g->length[graph++];
    while (graph < stop && n + g->length[graph] <= TILE)
        n += g->length[graph++];
    *nodes = n;
    return graph;
}

/* Where the fixed part of each of a tile's nodes is; a voucher has none. */
INLINE void NAME(locate)(const struct graphs *g, int64_t from, int64_t to, const float **x)
{
    static const float nothing[WIDTH];
    for (int64_t graph = from; graph < to; graph++) {
        const int32_t *const kind = g->kind + g->first[graph];
        *x++ = nothing;
        for (int64_t place = 1; place < g->length[graph]; place++)
            *x++ = g->fixed + (int64_t)kind[place] * WIDTH;
    }
}

INLINE int64_t NAME(code_of)(const struct graphs *g, int64_t graph, int64_t place)
{
    const int64_t node = g->first[graph] + place;
    if (!g->code)
        return node;
    return place ? g->code[node] : g->own_code[g->slot[graph] / GROUPS];
}

/* Asks for what graphs some way ahead start from: it lies about. */
INLINE void NAME(fetch)(const struct graphs *g, int64_t graph)
{
    if (!g->fixed)
        return;
    if (graph + 2 * AHEAD < g->graphs) {
        const int64_t first = g->first[graph + 2 * AHEAD], last = first + g->length[graph + 2 * AHEAD] - 1;
        __builtin_prefetch(g->kind + first);
        __builtin_prefetch(g->kind + last);
        __builtin_prefetch(g->code + first);
        __builtin_prefetch(g->code + last);
    }
    if (graph + AHEAD < g->graphs) {
        const int32_t *const kind = g->kind + g->first[graph + AHEAD];
        for (int64_t place = 1; place < g->length[graph + AHEAD]; place++)
            __builtin_prefetch(g->fixed + (int64_t)kind[place] * WIDTH);
    }
}

/* h = relu(sums of rel x + bias + root x) of a tile. */
INLINE void NAME(listen)(
    const struct graphs *g, int64_t from, int64_t to, const VEC *rel, const VEC *root, const VEC bias, VEC *h)
{
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t n = g->length[graph], near = n - 1 < g->nearest ? n - 1 : g->nearest;
        const int before = g->slot[graph] % GROUPS < BEFORE;
        VEC own = rel[0] + root[0] + bias, heard = bias;
        if (before)
            for (int64_t i = n - near; i < n; i++)
                own += rel[i];
        else
            heard += rel[0];
        h[0] = RELU(own);
        for (int64_t i = 1; i < n; i++) {
            if (i == near + 1)
                heard = bias;
            VEC sum = rel[i] + root[i] + heard;
            if (i > 1)
                sum += rel[i - 1];
            h[i] = RELU(sum);
        }
        rel += n, root += n, h += n;
    }
}

/* The transpose of `listen` without the bias: what each node's rel x is told by the gradients d of those that heard it. */
INLINE void NAME(tell)(const struct graphs *g, int64_t from, int64_t to, const VEC *d, VEC *rel)
{
    for (int64_t graph = from; graph < to; graph++) {
        const int64_t n = g->length[graph], near = n - 1 < g->nearest ? n - 1 : g->nearest;
        VEC told = d[0];
        for (int64_t i = 1; i < n - 1; i++)
            rel[i] = d[i] + d[i + 1];
        if (n > 1)
            rel[n - 1] = d[n - 1];
        if (g->slot[graph] % GROUPS < BEFORE)
            for (int64_t i = n - near; i < n; i++)
                rel[i] += d[0];
        else
            for (int64_t i = 1; i <= near; i++)
                told += d[i];
        rel[0] = told;
        d += n, rel += n;
    }
}

/* Which of a graph's n nodes stay, of `left` that stayed so far (null: all); how many do. Of equal gates the first go. */
INLINE int32_t NAME(thin)(
    const REAL *gate, const uint8_t *stayed, int64_t n, int32_t left, double ratio, uint8_t *stays)
{
    for (int64_t i = 0; i < n; i++)
        stays[i] = stayed ? stayed[i] : 1;
    const int32_t stay = (int32_t)ceil(ratio * (double)left - SLACK);
    for (; left > stay; left--) {
        int64_t least = -1;
        for (int64_t i = 0; i < n; i++)
            if (stays[i] && (least < 0 || gate[i] < gate[least]))
                least = i;
        stays[least] = 0;
    }
    return left;
}

/* x (n, WIDTH): g h, zeros where a node went. */
INLINE void NAME(gated)(const VEC *h, const REAL *gate, const uint8_t *stays, int64_t n, VEC *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = h[i] * (gate[i] * (REAL)stays[i]);
}

/* The maximum over those of a graph's n nodes that stay. */
INLINE void NAME(largest)(const VEC *x, const uint8_t *stays, int64_t n, int all, VEC *found)
{
    VEC most = (VEC){0} - (REAL)INFINITY;
    if (all)
        for (int64_t i = 0; i < n; i++)
            most = CHOICE(x[i] > most, x[i], most);
    else
        for (int64_t i = 0; i < n; i++)
            if (stays[i])
                most = CHOICE(x[i] > most, x[i], most);
    *found = most;
}

TARGET static void NAME(forth_part)(void *at, int k)
{
    const struct NAME(room) *const room = at;
    const struct NAME(part) *const part = room->part + k;
    const struct graphs *const g = room->given;
    const int64_t beside = g->inputs - WIDTH;
    int64_t nodes = 0, done = part->done;
    for (int64_t from = part->from, to; from < part->to; from = to, done += nodes) {
        to = NAME(tile_of)(g, from, part->to, &nodes);
        VEC *const rel = part->a, *const root = part->b, *const x = part->c;
        int64_t node = 0;
        for (int64_t graph = from; graph < to; graph++) {
            NAME(fetch)(g, graph);
            for (int64_t place = 0; place < g->length[graph]; place++, node++) {
                const int64_t code = NAME(code_of)(g, graph, place);
                rel[node] = room->of_code[0][code], root[node] = room->of_code[1][code];
            }
        }
        if (g->fixed) {
            NAME(locate)(g, from, to, part->x);
            NAME(products)(part->x, nodes, room->rel[0], room->root[0], rel, root);
            node = 0;
            for (int64_t graph = from; graph < to; node += g->length[graph++])
                for (int64_t k = 0; k < beside; k++) {
                    const REAL own = (REAL)g->own[g->slot[graph] / GROUPS * beside + k];
                    rel[node] += own * room->rel[0][WIDTH + k];
                    root[node] += own * room->root[0][WIDTH + k];
                }
        }
        for (int layer = 0; layer < 2; layer++) {
            VEC *const h = (VEC *)g->h[layer] + done;
            REAL *const gate = (REAL *)g->gate[layer] + done;
            uint8_t *const stays = g->stays[layer] + done;
            if (layer) {
                NAME(product)((const REAL *)x, nodes, WIDTH, room->rel[1], rel, 0);
                NAME(product)((const REAL *)x, nodes, WIDTH, room->root[1], root, 0);
            }
            NAME(listen)(g, from, to, rel, root, *(const VEC *)g->bias[layer], h);
            for (int64_t i = 0; i < nodes; i += WIDTH) {
                const int64_t many = nodes - i < WIDTH ? nodes - i : WIDTH;
                REAL part[WIDTH] = {0};
                for (int64_t j = 0; j < many; j++)
                    part[j] = NAME(dot)(h[i + j], room->unit[layer]);
                VEC along = *(const VEC *)part;
                NAME(tanh_of)(&along);
                memcpy(gate + i, &along, (size_t)many * sizeof(REAL));
            }
            node = 0;
            for (int64_t graph = from; graph < to; graph++) {
                const int64_t n = g->length[graph];
                const uint8_t *const stayed = layer ? g->stays[0] + done + node : 0;
                const int32_t left = layer ? g->left[0][graph] : (int32_t)n;
                const int32_t stay = NAME(thin)(gate + node, stayed, n, left, g->ratio, stays + node);
                g->left[layer][graph] = stay;
                NAME(gated)(h + node, gate + node, stays + node, n, x + node);
                VEC *const readout = (VEC *)g->readout + 2 * graph;
                VEC most, sum = {0};
                NAME(largest)(x + node, stays + node, n, stay == n, &most);
                for (int64_t i = 0; i < n; i++)
                    sum += x[node + i];
                sum /= (REAL)stay;
                if (layer)
                    most += readout[0], sum += readout[1];
                readout[0] = most, readout[1] = sum;
                node += n;
            }
        }
        for (int64_t graph = from; graph < to; graph++) {
            const int64_t member = g->slot[graph] / GROUPS, group = g->slot[graph] % GROUPS;
            const REAL *const readout = (const REAL *)g->readout + 2 * WIDTH * graph;
            const VEC *const columns = room->out + 2 * WIDTH * group;
            VEC told[4] = {{0}, {0}, {0}, {0}};
            for (int k = 0; k < 2 * WIDTH; k += 4)
                for (int o = 0; o < 4; o++)
                    told[o] += readout[k + o] * columns[k + o];
            told[0] = (told[0] + told[1]) + (told[2] + told[3]);
            ((VEC *)g->whole)[member] += told[0];
            if (g->before && group < BEFORE)
                ((VEC *)g->before)[member] += told[0];
        }
    }
}

TARGET static int NAME(forth)(const struct graphs *g)
{
    struct NAME(room) room;
    if (NAME(open)(g, 0, &room))
        return -1;
    NAME(product)(room.table, g->codes, g->inputs, room.rel[0], room.of_code[0], 0);
    NAME(product)(room.table, g->codes, g->inputs, room.root[0], room.of_code[1], 0);
    for (int64_t member = 0; member < g->members; member++) {
        ((VEC *)g->whole)[member] = *(const VEC *)g->out_bias;
        if (g->before)
            ((VEC *)g->before)[member] = *(const VEC *)g->out_bias;
    }
    in_parts(&g->threads, NAME(forth_part), &room);
    free(room.whole);
    return 0;
}

/* From the gradient dx of a layer's x (with what the next layer asks, or zeros) and of its readout to that of h before
 * the relu, in place; bias and select gain what is theirs. */
INLINE void NAME(unpool)(
    const struct graphs *g, int64_t from, int64_t to, int64_t done, int layer, const struct NAME(room) *room,
    const VEC *asked, const VEC *x, VEC *dx, VEC *bias, VEC *select)
{
    const VEC one = (VEC){0} + (REAL)1, unit = room->unit[layer];
    VEC bias_sum = *bias, select_sum = *select;
    const VEC *h = (const VEC *)g->h[layer] + done;
    const REAL *gate = (const REAL *)g->gate[layer] + done;
    const uint8_t *stays = g->stays[layer] + done;
    for (int64_t graph = from; graph < to; graph++, asked += 2) {
        const int64_t n = g->length[graph];
        const int32_t left = g->left[layer][graph];
        const int all = left == n;
        VEC most, equal = {0};
        NAME(largest)(x, stays, n, all, &most);
        for (int64_t i = 0; i < n; i++)
            if (all || stays[i])
                equal += WHERE(x[i] == most, one);
        const VEC share = asked[0] / equal, mean = asked[1] / (REAL)left;
        for (int64_t i = 0; i < n; i++) {
            if (!all && !stays[i]) {
                dx[i] = (VEC){0};
                continue;
            }
            VEC d = dx[i] + mean + WHERE(x[i] == most, share);
            const REAL steep = NAME(dot)(d, h[i]) * ((REAL)1 - gate[i] * gate[i]);
            select_sum += steep * h[i];
            d = WHERE(h[i] > 0, d * gate[i] + steep * unit);
            bias_sum += d;
            dx[i] = d;
        }
        h += n, gate += n, stays += n, x += n, dx += n;
    }
    *bias = bias_sum, *select = select_sum;
}

/* Gradients of a tile's readouts, asked (graphs, 2), from those of what came of them; out and its bias gain theirs. */
INLINE void NAME(ask)(
    const struct graphs *g, const struct gradients *out, int64_t from, int64_t to, VEC *asked, VEC *out_sum)
{
    for (int64_t graph = from; graph < to; graph++, asked += 2) {
        const int64_t member = g->slot[graph] / GROUPS, group = g->slot[graph] % GROUPS;
        VEC d = {0}, a = {0}, b = {0};
        if (out->whole)
            d += ((const VEC *)out->whole)[member];
        if (out->before && group < BEFORE)
            d += ((const VEC *)out->before)[member];
        const VEC *row = (const VEC *)g->out + 2 * group;
        for (int j = 0; j < WIDTH; j++, row += 2 * GROUPS) {
            a += d[j] * row[0];
            b += d[j] * row[1];
        }
        asked[0] = a, asked[1] = b;
        const REAL *const readout = (const REAL *)g->readout + 2 * WIDTH * graph;
        VEC *const sum = out_sum + 2 * WIDTH * group;
        for (int k = 0; k < 2 * WIDTH; k++)
            sum[k] += readout[k] * d;
    }
}

/* by rows (WIDTH, inputs) += columns (inputs, WIDTH). */
TARGET static void NAME(add_columns)(const VEC *columns, int64_t inputs, REAL *rows)
{
    for (int64_t k = 0; k < inputs; k++)
        for (int j = 0; j < WIDTH; j++)
            rows[j * inputs + k] += columns[k][j];
}

TARGET static void NAME(back_part)(void *at, int k)
{
    const struct NAME(room) *const room = at;
    const struct NAME(part) *const part = room->part + k;
    const struct graphs *const g = room->given;
    const int64_t inputs = g->inputs;
    /* The second layer's matrices by rows take gradients of what it gave back to what it was given. */
    const VEC *const rel_rows = (const VEC *)g->rel[1], *const root_rows = (const VEC *)g->root[1];
    int64_t nodes = 0, done = part->done;
    for (int64_t from = part->from, to; from < part->to; from = to, done += nodes) {
        to = NAME(tile_of)(g, from, part->to, &nodes);
        VEC *const x = part->a, *const dx = part->b, *const dh = part->c, *const drel = part->d;
        memset(dh, 0, (size_t)nodes * sizeof(VEC));
        NAME(ask)(g, room->asked, from, to, part->asked, part->out);
        for (int64_t graph = from; graph < to; graph++)
            NAME(fetch)(g, graph);
        NAME(gated)((const VEC *)g->h[1] + done, (const REAL *)g->gate[1] + done, g->stays[1] + done, nodes, x);
        NAME(unpool)(g, from, to, done, 1, room, part->asked, x, dh, part->bias + 1, part->select + 1);
        NAME(tell)(g, from, to, dh, drel);
        NAME(gated)((const VEC *)g->h[0] + done, (const REAL *)g->gate[0] + done, g->stays[0] + done, nodes, x);
        NAME(outer)((const REAL *)x, nodes, WIDTH, drel, part->rel[1]);
        NAME(outer)((const REAL *)x, nodes, WIDTH, dh, part->root[1]);
        NAME(product)((const REAL *)drel, nodes, WIDTH, rel_rows, dx, 0);
        NAME(product)((const REAL *)dh, nodes, WIDTH, root_rows, dx, 1);
        NAME(unpool)(g, from, to, done, 0, room, part->asked, x, dx, part->bias, part->select);
        NAME(tell)(g, from, to, dx, drel);
        int64_t node = 0;
        if (g->fixed) {
            NAME(locate)(g, from, to, part->x);
            NAME(outer_about)(part->x, nodes, drel, part->rel[0]);
            NAME(outer_about)(part->x, nodes, dx, part->root[0]);
            for (int64_t graph = from; graph < to; node += g->length[graph++])
                for (int64_t k = 0; k < inputs - WIDTH; k++) {
                    const REAL own = (REAL)g->own[g->slot[graph] / GROUPS * (inputs - WIDTH) + k];
                    part->rel[0][WIDTH + k] += own * drel[node];
                    part->root[0][WIDTH + k] += own * dx[node];
                }
            node = 0;
        }
        for (int64_t graph = from; graph < to; graph++)
            for (int64_t place = 0; place < g->length[graph]; place++, node++) {
                const int64_t code = NAME(code_of)(g, graph, place);
                part->of_code[0][code] += drel[node];
                part->of_code[1][code] += dx[node];
            }
    }
}

TARGET static int NAME(back)(const struct graphs *g, const struct gradients *out)
{
    struct NAME(room) room;
    if (NAME(open)(g, out, &room))
        return -1;
    const int64_t inputs = g->inputs;
    in_parts(&g->threads, NAME(back_part), &room);
    const struct NAME(part) *const sum = room.part;
    for (int k = 1; k < PARTS; k++)
        for (int64_t i = 0; i < room.sums; i++)
            sum->of_code[0][i] += room.part[k].of_code[0][i];
    NAME(outer)(room.table, g->codes, inputs, sum->of_code[0], sum->rel[0]);
    NAME(outer)(room.table, g->codes, inputs, sum->of_code[1], sum->root[0]);
    int64_t code = 0;
    for (int64_t piece = 0; piece < g->pieces; piece++) {
        const struct learned *const of = g->piece + piece;
        for (int64_t i = 0; i < of->rows * of->times; i++, code++)
            for (int64_t k = 0; k < of->width; k++)
                ((REAL *)out->learned[piece])[i / of->times * of->width + k] +=
                    NAME(dot)(room.rel[0][of->first + k], sum->of_code[0][code])
                    + NAME(dot)(room.root[0][of->first + k], sum->of_code[1][code]);
    }
    NAME(add_columns)(sum->out, GROUPS * 2 * WIDTH, out->out);
    for (int64_t member = 0; member < g->members; member++) {
        if (out->whole)
            *(VEC *)out->out_bias += ((const VEC *)out->whole)[member];
        if (out->before)
            *(VEC *)out->out_bias += ((const VEC *)out->before)[member];
    }
    for (int layer = 0; layer < 2; layer++) {
        const int64_t width = layer ? WIDTH : inputs;
        NAME(add_columns)(sum->rel[layer], width, out->rel[layer]);
        NAME(add_columns)(sum->root[layer], width, out->root[layer]);
        *(VEC *)out->bias[layer] += sum->bias[layer];
        const VEC unit = room.unit[layer];
        const REAL along = NAME(dot)(unit, sum->select[layer]);
        *(VEC *)out->select[layer] += (sum->select[layer] - along * unit) / room.norm[layer];
    }
    free(room.whole);
    return 0;
}
