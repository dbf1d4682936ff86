/* The two-price pass over one block of accounts; fused.c says what it computes.
 *
 * This text is compiled once per instruction set and number type. The including file defines
 *   REAL, NAME(x), TARGET, NEVER, TINY    number type, name decoration, target attribute, extreme numbers
 *   VF VI VR VM LANES                     vectors of LANES REALs, of int32, of a REAL's raw bits, and a mask
 *   UNROLL                                so many vectors are worked on at a time
 *   and the operations V_..., each one instruction where there is one.
 */

/* The score of a level at one end of the interval. Where all accounts see one price it is folded into a factor and a
 * term of the level, and a cost made of the value itself takes one multiplication. */
#define SCORED(price, factor, term)                     \
    (!folded ? V_FNMA(price, g, v)                      \
     : same  ? V_FMS(v, factor, term)                   \
             : V_SUB(v, term))

TARGET static inline __attribute__((always_inline)) int64_t NAME(block)(
    const struct pass *p, struct collected *out, int64_t start, int64_t stop, const int planes, const int same,
    const int patterned, const int masked)
{
    const int folded = !patterned && (planes == 0 || (planes == 1 && same));
    const int64_t levels = p->levels, stride = p->stride, allowed_stride = p->allowed_stride;
    const REAL *const value = (const REAL *)p->value;
    const REAL *const cost0 = (const REAL *)p->cost[0], *const cost1 = (const REAL *)p->cost[1];
    const REAL *const offset = (const REAL *)p->small, *const weight0 = offset + levels;
    const REAL *const weight1 = weight0 + levels;
    const REAL *const low_factor = weight1 + levels, *const low_term = low_factor + levels;
    const REAL *const high_factor = low_term + levels, *const high_term = high_factor + levels;
    const REAL *const low_of = high_term + levels, *const high_of = low_of + p->patterns;
    const uint16_t *const pattern = p->pattern;
    const uint8_t *const allowed = p->allowed;
    int32_t *const to_level = p->level;
    int8_t *const to_narrow = p->narrow;
    const double *const exact_offset = p->table[0], *const exact0 = p->table[1], *const exact1 = p->table[2];
    double *const sums = out->sums;
    const int64_t measured = p->measured;
    const VF reach = V_SET((REAL)p->reach[0]), reach0 = V_SET((REAL)p->reach[1]), reach1 = V_SET((REAL)p->reach[2]);
    const VF share = V_SET((REAL)p->margin), tiny = V_SET((REAL)TINY), never = V_SET((REAL)-NEVER);
    const VTABLE of_offset = V_TABLE(p->table[0], levels);
    const VTABLE of_weight0 = V_TABLE(p->table[1], planes > 0 ? levels : 0);
    const VTABLE of_weight1 = V_TABLE(p->table[2], planes > 1 ? levels : 0);
    const VSMALL offsets = V_SMALL(offset, levels);
    const VSMALL weights0 = V_SMALL(weight0, levels);
    const VSMALL weights1 = V_SMALL(weight1, levels);
    const VI bits = V_ISET(p->packing - 1), one = V_ISET(1);
    const int free_of_offset = same && p->reach[0] == 0.0;
    VSUM sum_value = V_SUM_ZERO(), sum_cost = V_SUM_ZERO(), sum_measure = V_SUM_ZERO();
    VF trace = V_SET(0);
    uint32_t sound = V_ALL;
    int64_t count = 0, i = start;

    /* Several vectors at a time: what belongs to a level is then fetched once for all of them. */
    for (; i + UNROLL * LANES <= stop; i += UNROLL * LANES) {
        VF low[UNROLL], high[UNROLL], best[UNROLL], next_low[UNROLL], next_high[UNROLL];
        VF chosen[UNROLL], chosen0[UNROLL], chosen1[UNROLL];
        VR raw0[UNROLL], raw1[UNROLL];
        VI level[UNROLL], here = V_ISET(0);
        EACH {
            low[u] = patterned ? V_LOOKUP(low_of, pattern + i + u * LANES) : V_SET(low_of[0]);
            high[u] = patterned ? V_LOOKUP(high_of, pattern + i + u * LANES) : V_SET(high_of[0]);
            best[u] = next_low[u] = next_high[u] = never;
            chosen[u] = chosen0[u] = chosen1[u] = V_SET(0);
            raw0[u] = raw1[u] = V_RAW_ZERO();
        }
        /* First pass: the best level at the low price. The lowest bits of a score hold its level: one maximum
           finds both. */
        for (int64_t j = 0; j < levels; j++) {
            const int64_t at = j * stride + i;
            const VF off = V_SET(offset[j]), w0 = V_SET(weight0[j]), w1 = V_SET(weight1[j]);
            const VF factor = V_SET(low_factor[j]), term = V_SET(low_term[j]);
            EACH {
                V_FETCH(value + at + u * LANES + AHEAD);
                VF v = V_LOAD(value + at + u * LANES);
                V_HOLD(v);
                VF g = off;
                if (planes > 0) {
                    if (!same) V_FETCH(cost0 + at + u * LANES + AHEAD);
                    const VF c0 = same ? v : V_LOAD(cost0 + at + u * LANES);
                    if (!folded) g = V_FMA(w0, c0, g);
                    raw0[u] = V_RAW_MAX(raw0[u], c0);
                }
                if (planes > 1) {
                    V_FETCH(cost1 + at + u * LANES + AHEAD);
                    const VF c1 = V_LOAD(cost1 + at + u * LANES);
                    g = V_FMA(w1, c1, g);
                    raw1[u] = V_RAW_MAX(raw1[u], c1);
                }
                /* A NaN or an infinity never leaves the trace again. */
                if (!same) trace = V_ADD(trace, v);
                VF a = SCORED(low[u], factor, term);
                if (masked) a = V_PICK(V_OPEN(allowed + j * allowed_stride + i + u * LANES), a, never);
                best[u] = V_MAX(best[u], V_PACK(a, bits, here));
            }
            here = V_IADD(here, one);
        }
        EACH level[u] = V_UNPACK(best[u], bits);
        here = V_ISET(0);
        /* Second pass, while the points are near: how close any other level comes at either price. */
        for (int64_t j = 0; j < levels; j++) {
            const int64_t at = j * stride + i;
            const VF off = V_SET(offset[j]), w0 = V_SET(weight0[j]), w1 = V_SET(weight1[j]);
            const VF factor_low = V_SET(low_factor[j]), term_low = V_SET(low_term[j]);
            const VF factor_high = V_SET(high_factor[j]), term_high = V_SET(high_term[j]);
            EACH {
                const VM other = V_OTHER(level[u], here);
                VF v = V_LOAD(value + at + u * LANES);
                V_HOLD(v);
                VF g = off;
                if (planes > 0 && !folded) {
                    const VF c0 = same ? v : V_LOAD(cost0 + at + u * LANES);
                    g = V_FMA(w0, c0, g);
                    if (!same) chosen0[u] = V_UNLESS(other, chosen0[u], c0);
                }
                if (planes > 1) {
                    const VF c1 = V_LOAD(cost1 + at + u * LANES);
                    g = V_FMA(w1, c1, g);
                    chosen1[u] = V_UNLESS(other, chosen1[u], c1);
                }
                VF a = SCORED(low[u], factor_low, term_low), b = SCORED(high[u], factor_high, term_high);
                if (masked) {
                    const VM open = V_OPEN(allowed + j * allowed_stride + i + u * LANES);
                    a = V_PICK(open, a, never);
                    b = V_PICK(open, b, never);
                }
                next_low[u] = V_MAX_OTHER(other, next_low[u], a);
                next_high[u] = V_MAX_OTHER(other, next_high[u], b);
                chosen[u] = V_UNLESS(other, chosen[u], v);
            }
            here = V_IADD(here, one);
        }
        EACH {
            const int64_t first = i + u * LANES;
            const VF own0 = same ? chosen[u] : chosen0[u];
            VF charge = V_FIND(offsets, level[u]), scale = reach;
            if (planes > 0) {
                charge = V_FMA(V_FIND(weights0, level[u]), own0, charge);
                scale = V_FMA(reach0, V_RAW_REAL(raw0[u]), scale);
            }
            if (planes > 1) {
                charge = V_FMA(V_FIND(weights1, level[u]), chosen1[u], charge);
                scale = V_FMA(reach1, V_RAW_REAL(raw1[u]), scale);
            }
            const VF best_low = V_FNMA(low[u], charge, chosen[u]), best_high = V_FNMA(high[u], charge, chosen[u]);
            /* A lead of a few units in the last place must not settle an account. What a contender is made of is
               bounded by its score, which is about the best one, and by the dearest charge. */
            const VF dearest = V_MUL(V_MAX(V_ABS(low[u]), V_ABS(high[u])), scale);
            const VF terms = V_ADD(dearest, V_MAX(V_ABS(best_low), V_ABS(best_high)));
            const VF margin = V_FMA(share, terms, tiny);
            VM settled = V_NOT_LESS(V_SUB(best_low, next_low[u]), margin);
            settled = V_AND(settled, V_NOT_LESS(V_SUB(best_high, next_high[u]), margin));
            /* Planes are finite and not negative: else the bound above is none, and the caller is told. */
            if (planes > 0) {
                VM good = V_RAW_SOUND(raw0[u]);
                if (planes > 1) good = V_AND(good, V_RAW_SOUND(raw1[u]));
                settled = V_AND(settled, good);
                sound &= V_BITS(good);
            }
            if (to_level) V_ISTORE(to_level + first, level[u]);
            if (to_narrow) V_NSTORE(to_narrow + first, level[u]);
            if (patterned) {
                int32_t level_of[LANES];
                REAL value_of[LANES], plane0_of[LANES], plane1_of[LANES];
                V_ISTORE(level_of, level[u]);
                V_STORE(value_of, chosen[u]);
                if (planes > 0) V_STORE(plane0_of, own0);
                if (planes > 1) V_STORE(plane1_of, chosen1[u]);
                for (uint32_t lanes = V_BITS(settled); lanes; lanes &= lanes - 1) {
                    const int lane = __builtin_ctz(lanes);
                    const int32_t own = level_of[lane];
                    double cost = exact_offset[own], measure = 0.0;
                    if (planes > 0) cost += exact0[own] * (double)plane0_of[lane];
                    if (planes > 1) cost += exact1[own] * (double)plane1_of[lane];
                    if (planes > 0 && measured == 1) measure = (double)plane0_of[lane];
                    if (planes > 1 && measured == 2) measure = (double)plane1_of[lane];
                    QUAD_ADD(sums + 4 * pattern[first + lane], (double)value_of[lane], cost, measure);
                }
            } else {
                count += __builtin_popcount(V_BITS(settled));
                V_SUM_ADD(&sum_value, settled, chosen[u]);
                if (!free_of_offset) V_SUM_TABLE(&sum_cost, settled, level[u], of_offset);
                if (planes > 0) V_SUM_SCALED(&sum_cost, settled, level[u], of_weight0, own0);
                if (planes > 1) V_SUM_SCALED(&sum_cost, settled, level[u], of_weight1, chosen1[u]);
                if (measured == 1) V_SUM_ADD(&sum_measure, settled, own0);
                if (measured == 2) V_SUM_ADD(&sum_measure, settled, chosen1[u]);
            }
            for (uint32_t open = V_ALL & ~V_BITS(settled); open; open &= open - 1)
                NAME(collect)(p, out, first + __builtin_ctz(open), planes);
        }
    }
    if (!patterned) {
        out->sums[0] += V_SUM_TOTAL(&sum_value);
        out->sums[1] += V_SUM_TOTAL(&sum_cost);
        out->sums[2] += V_SUM_TOTAL(&sum_measure);
        out->sums[3] += (double)count;
    }
    if (sound != V_ALL || V_BITS(V_NOT_LESS(V_SUB(trace, trace), V_SET(0))) != V_ALL) out->suspect = 1;
    return i;
}
#undef SCORED
