/* The pass of place.c for one number type: the including file defines REAL, INTEGER and NAME(x). */

CLONES int64_t NAME(place)(const struct bracket *p, struct unsettled *out, int64_t start, int64_t stop)
{
    const int64_t levels = p->levels, stride = p->stride;
    const REAL *value = (const REAL *)p->value, *low = (const REAL *)p->low, *high = (const REAL *)p->high;
    const REAL share = (REAL)p->share, reach = (REAL)p->reach;
    REAL *open_value = (REAL *)out->value;
    double total[8] = {0};

    for (int64_t i = start; i < stop; i += WIDTH) {
        const int64_t width = stop - i < WIDTH ? stop - i : WIDTH;
        REAL best[WIDTH], worth[WIDTH], top[WIDTH], next[WIDTH], masked[WIDTH];
        INTEGER who[WIDTH], settled[WIDTH];
        if (out->capacity - out->count < width) {
            for (int l = 0; l < 8; l++) *out->worth += total[l];
            return i;
        }
        for (int64_t k = 0; k < width; k++) {
            best[k] = top[k] = next[k] = -INFINITY;
            worth[k] = 0;
            who[k] = 0;
        }
        for (int64_t j = 0; j < levels; j++) {
            const REAL *v = value + j * stride + i, dear = high[j], cheap = low[j];
            if (p->allowed) {
                const uint8_t *may = p->allowed + j * p->allowed_stride + i;
                for (int64_t k = 0; k < width; k++) masked[k] = may[k] ? v[k] : -INFINITY;
                v = masked;
            }
            /* The processor follows only a few streams by itself. */
            for (int64_t k = 0; k < WIDTH; k += 64 / (int64_t)sizeof(REAL))
                __builtin_prefetch(value + j * stride + i + AHEAD + k);
            for (int64_t k = 0; k < width; k++) {
                const REAL a = v[k] - dear, b = v[k] - cheap;
                const REAL lesser = top[k] < b ? top[k] : b;
                worth[k] = a > best[k] ? v[k] : worth[k];
                who[k] = a > best[k] ? (INTEGER)j : who[k];
                best[k] = a > best[k] ? a : best[k];
                next[k] = next[k] > lesser ? next[k] : lesser;
                top[k] = top[k] > b ? top[k] : b;
            }
        }
        /* The winner's own score at its lowest price is never below `best`: a second best of those scores that is
           below `best` is therefore the best rival's. */
        for (int64_t k = 0; k < width; k++) {
            const REAL size = worth[k] < 0 ? -worth[k] : worth[k];
            settled[k] = best[k] > next[k] + share * (size + reach) ? 1 : 0;
        }
        int64_t k = 0;
        for (; k + 8 <= width; k += 8)
            for (int l = 0; l < 8; l++) total[l] += settled[k + l] ? (double)worth[k + l] : 0.0;
        for (; k < width; k++) total[0] += settled[k] ? (double)worth[k] : 0.0;
        int64_t closed = 0;
        for (int64_t j = 0; j < levels; j++) {
            INTEGER own = 0;
            for (k = 0; k < width; k++) own += settled[k] & (who[k] == (INTEGER)j);
            out->sizes[j] += own;
            closed += own;
        }
        if (p->narrow)
            for (k = 0; k < width; k++) p->narrow[i + k] = (int8_t)who[k];
        else
            for (k = 0; k < width; k++) p->wide[i + k] = (int16_t)who[k];
        if (closed == width) continue;
        int64_t open[WIDTH], count = 0;
        for (k = 0; k < width; k++) {
            open[count] = k;
            count += !settled[k];
        }
        for (k = 0; k < count; k++) out->account[out->count + k] = i + open[k];
        for (int64_t j = 0; j < levels; j++) {
            const REAL *v = value + j * stride + i;
            REAL *to = open_value + j * out->capacity + out->count;
            for (k = 0; k < count; k++) to[k] = v[open[k]];
            if (p->allowed) {
                const uint8_t *may = p->allowed + j * p->allowed_stride + i;
                for (k = 0; k < count; k++) to[k] = may[open[k]] ? to[k] : -INFINITY;
            }
        }
        out->count += count;
    }
    for (int l = 0; l < 8; l++) *out->worth += total[l];
    return stop;
}
