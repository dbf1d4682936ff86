/* The two-price pass over one block of accounts; fused.c says what it computes.
 *
 * This text is compiled once per instruction set and number type. The including file defines
 *   REAL, NAME(x), TARGET, NEVER, TINY    number type, name decoration, target attribute, extreme numbers
 *   VF VI VM LANES                        vectors of LANES REALs, of int32, and a mask
 *   and the operations V_..., each one instruction where there is one.
 */

TARGET static inline __attribute__((always_inline)) int64_t NAME(block)(
    const struct pass *p, struct collected *out, int64_t start, int64_t stop, const int planes, const int patterned,
    const int masked)
{
    const int64_t levels = p->levels, stride = p->stride;
    const REAL *value = (const REAL *)p->value;
    const REAL *cost0 = (const REAL *)p->cost[0], *cost1 = (const REAL *)p->cost[1];
    const REAL *offset = (const REAL *)p->offset;
    const REAL *weight0 = (const REAL *)p->weight[0], *weight1 = (const REAL *)p->weight[1];
    const REAL *low_of = (const REAL *)p->low, *high_of = (const REAL *)p->high;
    const VF reach = V_SET((REAL)p->reach[0]), reach0 = V_SET((REAL)p->reach[1]), reach1 = V_SET((REAL)p->reach[2]);
    const VF share = V_SET((REAL)p->margin), tiny = V_SET((REAL)TINY), never = V_SET((REAL)-NEVER);
    const VTABLE of_offset = V_TABLE(p->table_offset, levels);
    const VTABLE of_weight0 = V_TABLE(p->table_weight[0], planes > 0 ? levels : 0);
    const VTABLE of_weight1 = V_TABLE(p->table_weight[1], planes > 1 ? levels : 0);
    const VI bits = V_ISET(p->packing - 1);
    VSUM sum_value = V_SUM_ZERO(), sum_cost = V_SUM_ZERO(), sum_measure = V_SUM_ZERO();
    int64_t count = 0, i = start;

    for (; i + LANES <= stop; i += LANES) {
        const VF low = patterned ? V_LOOKUP(low_of, p->pattern + i) : V_SET(low_of[0]);
        const VF high = patterned ? V_LOOKUP(high_of, p->pattern + i) : V_SET(high_of[0]);
        VF best_low = never, next_low = never, best_high = never, next_high = never;
        VF chosen = V_SET(0), chosen0 = V_SET(0), chosen1 = V_SET(0);
        VF top = V_SET(0), top0 = V_SET(0), top1 = V_SET(0);
        for (int64_t j = 0; j < levels; j++) {
            const int64_t at = j * stride + i;
            const VI level = V_ISET((int32_t)j);
            V_FETCH(value + at + AHEAD);
            const VF v = V_LOAD(value + at);
            VF g = V_SET(offset[j]), c0 = g, c1 = g;
            if (planes > 0) {
                V_FETCH(cost0 + at + AHEAD);
                c0 = V_LOAD(cost0 + at);
                g = V_FMA(V_SET(weight0[j]), c0, g);
            }
            if (planes > 1) {
                V_FETCH(cost1 + at + AHEAD);
                c1 = V_LOAD(cost1 + at);
                g = V_FMA(V_SET(weight1[j]), c1, g);
            }
            VF a = V_FNMA(low, g, v), b = V_FNMA(high, g, v);
            if (masked) {
                const VM open = V_OPEN(p->allowed + j * p->allowed_stride + i);
                a = V_PICK(open, a, never);
                b = V_PICK(open, b, never);
            }
            /* The level rides in the lowest bits of its score: one maximum then finds both. */
            a = V_PACK(a, bits, level);
            b = V_PACK(b, bits, level);
            const VM better = V_GREATER(a, best_low);
            next_low = V_MAX(next_low, V_MIN(best_low, a));
            best_low = V_MAX(best_low, a);
            next_high = V_MAX(next_high, V_MIN(best_high, b));
            best_high = V_MAX(best_high, b);
            chosen = V_PICK(better, v, chosen);
            if (planes > 0) {
                chosen0 = V_PICK(better, c0, chosen0);
                top = V_MAX(top, V_ABS(v));
                top0 = V_MAX(top0, V_ABS(c0));
            }
            if (planes > 1) {
                chosen1 = V_PICK(better, c1, chosen1);
                top1 = V_MAX(top1, V_ABS(c1));
            }
        }
        /* A lead of a few units in the last place must not settle an account. With a cost per level the terms of a
           contender are bounded by its score and the dearest charge, so no further maximum is kept. */
        VF scale = reach;
        if (planes > 0) scale = V_FMA(reach0, top0, scale);
        if (planes > 1) scale = V_FMA(reach1, top1, scale);
        const VF terms = planes > 0 ? top : V_MAX(V_ABS(best_low), V_ABS(best_high));
        const VF margin = V_FMA(share, V_FMA(V_MAX(V_ABS(low), V_ABS(high)), scale, terms), tiny);
        const VI level = V_UNPACK(best_low, bits);
        VM settled = V_IEQUAL(level, V_UNPACK(best_high, bits));
        settled = V_AND(settled, V_NOT_LESS(V_SUB(best_low, next_low), margin));
        settled = V_AND(settled, V_NOT_LESS(V_SUB(best_high, next_high), margin));
        if (p->level) V_ISTORE(p->level + i, level);
        if (patterned) {
            int32_t here[LANES];
            V_ISTORE(here, level);
            for (uint32_t lanes = V_BITS(settled); lanes; lanes &= lanes - 1) {
                const int lane = __builtin_ctz(lanes);
                NAME(add)(p, out, i + lane, here[lane], planes);
            }
        } else {
            count += __builtin_popcount(V_BITS(settled));
            V_SUM_ADD(&sum_value, settled, chosen);
            V_SUM_TABLE(&sum_cost, settled, level, of_offset);
            if (planes > 0) V_SUM_SCALED(&sum_cost, settled, level, of_weight0, chosen0);
            if (planes > 1) V_SUM_SCALED(&sum_cost, settled, level, of_weight1, chosen1);
            if (p->measured == 1) V_SUM_ADD(&sum_measure, settled, chosen0);
            if (p->measured == 2) V_SUM_ADD(&sum_measure, settled, chosen1);
        }
        for (uint32_t open = V_ALL & ~V_BITS(settled); open; open &= open - 1)
            NAME(collect)(p, out, i + __builtin_ctz(open), planes);
    }
    if (!patterned) {
        out->sums[0] += V_SUM_TOTAL(&sum_value);
        out->sums[1] += V_SUM_TOTAL(&sum_cost);
        out->sums[2] += V_SUM_TOTAL(&sum_measure);
        out->sums[3] += (double)count;
    }
    return i;
}
