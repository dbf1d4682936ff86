/* Copying one unsettled account out. */

static inline void NAME(collect)(const struct pass *p, struct collected *out, int64_t i, int planes)
{
    const int64_t slot = out->count++;
    const REAL *from[3] = {(const REAL *)p->value, (const REAL *)p->cost[0], (const REAL *)p->cost[1]};
    out->account[slot] = i;
    for (int plane = 0; plane <= planes; plane++) {
        if (plane && from[plane] == from[0]) continue;
        REAL *to = (REAL *)out->point[plane] + slot;
        for (int64_t j = 0; j < p->levels; j++) to[j * out->capacity] = from[plane][j * p->stride + i];
    }
}

static inline REAL NAME(pack)(REAL score, int32_t bits, int32_t level)
{
    INTEGER raw;
    memcpy(&raw, &score, sizeof raw);
    raw = (raw & ~(INTEGER)bits) | level;
    memcpy(&score, &raw, sizeof raw);
    return score;
}

static inline int32_t NAME(unpack)(REAL score, int32_t bits)
{
    INTEGER raw;
    memcpy(&raw, &score, sizeof raw);
    return (int32_t)(raw & bits);
}

static inline RAW NAME(raw_max)(RAW a, REAL x)
{
    RAW raw;
    memcpy(&raw, &x, sizeof raw);
    return raw > a ? raw : a;
}

static inline REAL NAME(raw_real)(RAW raw)
{
    REAL x;
    memcpy(&x, &raw, sizeof x);
    return x;
}
