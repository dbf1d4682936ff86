/* Eight accounts at a time; masks are vectors of all ones or all zeros. */
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define UNROLL 2
#define V_ALL 0xFFu
#define VF __m256
#define VI __m256i
#define VM __m256
#define VR __m256i
#define VSMALL const float *
#define VSUM struct pair_sum
#define V_SET(x) _mm256_set1_ps(x)
#define V_ISET(x) _mm256_set1_epi32(x)
#define V_LOAD(at) _mm256_loadu_ps(at)
#define V_FETCH(at) _mm_prefetch((const char *)(at), _MM_HINT_T0)
#define V_ISTORE(to, x) _mm256_storeu_si256((__m256i *)(to), x)
#define V_NSTORE(to, x) _mm_storel_epi64((__m128i *)(to), pair_narrow(x))
#define V_STORE(to, x) _mm256_storeu_ps(to, x)
#define V_LOOKUP(table, pattern) \
    _mm256_i32gather_ps(table, _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(pattern))), 4)
#define V_OPEN(at) \
    _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(at))), V_ISET(0)))
#define V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define V_SUB(a, b) _mm256_sub_ps(a, b)
#define V_MAX(a, b) _mm256_max_ps(a, b)
#define V_ABS(a) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a)
#define V_NOT_LESS(a, b) _mm256_cmp_ps(a, b, _CMP_GE_OQ)
#define V_AND(a, b) _mm256_and_ps(a, b)
#define V_BITS(m) ((uint32_t)_mm256_movemask_ps(m))
#define V_PICK(m, a, b) _mm256_blendv_ps(b, a, m)
#define V_PACK(a, bits, j) \
    _mm256_or_ps(_mm256_andnot_ps(_mm256_castsi256_ps(bits), a), _mm256_castsi256_ps(j))
#define V_UNPACK(a, bits) _mm256_and_si256(_mm256_castps_si256(a), bits)
#define V_IADD(a, b) _mm256_add_epi32(a, b)
#define V_MUL(a, b) _mm256_mul_ps(a, b)
#define V_ADD(a, b) _mm256_add_ps(a, b)
#define V_FMS(a, b, c) _mm256_fmsub_ps(a, b, c)
/* The mask of the others is kept the other way round. */
#define V_HOLD(x) __asm__("" : "+x"(x))
#define V_OTHER(a, b) _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))
#define V_UNLESS(other, a, b) _mm256_blendv_ps(a, b, other)
#define V_MAX_OTHER(other, a, b) _mm256_blendv_ps(_mm256_max_ps(a, b), a, other)
#define V_RAW_ZERO() _mm256_setzero_si256()
#define V_RAW_MAX(a, x) _mm256_max_epu32(a, _mm256_castps_si256(x))
#define V_RAW_REAL(a) _mm256_castsi256_ps(a)
#define V_RAW_SOUND(a) \
    _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(a, V_ISET(NOT_FINITE - 1)), a))
#define V_SMALL(table, size) (table)
#define V_FIND(table, at) _mm256_i32gather_ps(table, at, 4)
#define VTABLE const double *
#define V_TABLE(table, size) (table)
#define V_SUM_ZERO() ((struct pair_sum){_mm256_setzero_pd(), _mm256_setzero_pd()})
#define V_SUM_ADD(sum, m, x) pair_add(sum, m, pair_from(x))
#define V_SUM_TABLE(sum, m, at, table) pair_add(sum, m, pair_table(at, table))
#define V_SUM_SCALED(sum, m, at, table, x) pair_add(sum, m, pair_product(pair_table(at, table), pair_from(x)))
#define V_SUM_TOTAL(sum) pair_total(sum)

#define INLINE TARGET static inline __attribute__((always_inline))

struct pair_sum {
    __m256d low, high;
};

INLINE __m128i pair_narrow(__m256i x)
{
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return _mm_packs_epi16(half, half);
}

INLINE struct pair_sum pair_from(__m256 x)
{
    return (struct pair_sum){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

INLINE struct pair_sum pair_table(__m256i at, const double *table)
{
    return (struct pair_sum){_mm256_i32gather_pd(table, _mm256_castsi256_si128(at), 8),
                             _mm256_i32gather_pd(table, _mm256_extracti128_si256(at, 1), 8)};
}

INLINE struct pair_sum pair_product(struct pair_sum a, struct pair_sum b)
{
    return (struct pair_sum){_mm256_mul_pd(a.low, b.low), _mm256_mul_pd(a.high, b.high)};
}

INLINE void pair_add(struct pair_sum *sum, __m256 m, struct pair_sum x)
{
    const __m256i keep = _mm256_castps_si256(m);
    const __m256d first = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(keep)));
    const __m256d last = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(keep, 1)));
    sum->low = _mm256_add_pd(sum->low, _mm256_and_pd(first, x.low));
    sum->high = _mm256_add_pd(sum->high, _mm256_and_pd(last, x.high));
}

INLINE double pair_total(const struct pair_sum *sum)
{
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(sum->low, sum->high));
    return (part[0] + part[1]) + (part[2] + part[3]);
}
#undef INLINE
