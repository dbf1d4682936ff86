/* Sixteen accounts at a time. */
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))
#define LANES 16
#define UNROLL 2
#define V_ALL 0xFFFFu
#define VF __m512
#define VI __m512i
#define VM __mmask16
#define VR __m512i
#define VSMALL struct wide_small
#define VSUM struct wide_sum
#define V_SET(x) _mm512_set1_ps(x)
#define V_ISET(x) _mm512_set1_epi32(x)
#define V_LOAD(at) _mm512_loadu_ps(at)
#define V_FETCH(at) _mm_prefetch((const char *)(at), _MM_HINT_T0)
#define V_ISTORE(to, x) _mm512_storeu_si512(to, x)
#define V_NSTORE(to, x) _mm_storeu_si128((__m128i *)(to), _mm512_cvtepi32_epi8(x))
#define V_STORE(to, x) _mm512_storeu_ps(to, x)
#define V_LOOKUP(table, pattern) \
    _mm512_i32gather_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(pattern))), table, 4)
#define V_OPEN(at) _mm512_test_epi32_mask(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(at))), V_ISET(255))
#define V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define V_FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define V_SUB(a, b) _mm512_sub_ps(a, b)
#define V_MAX(a, b) _mm512_max_ps(a, b)
#define V_ABS(a) _mm512_abs_ps(a)
#define V_NOT_LESS(a, b) _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define V_AND(a, b) ((__mmask16)((a) & (b)))
#define V_BITS(m) ((uint32_t)(m))
#define V_PICK(m, a, b) _mm512_mask_mov_ps(b, m, a)
/* (a & ~bits) | j; j has no other bits */
#define V_PACK(a, bits, j) _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(a), bits, j, 0xBA))
#define V_UNPACK(a, bits) _mm512_and_si512(_mm512_castps_si512(a), bits)
#define V_IADD(a, b) _mm512_add_epi32(a, b)
#define V_MUL(a, b) _mm512_mul_ps(a, b)
#define V_ADD(a, b) _mm512_add_ps(a, b)
#define V_FMS(a, b, c) _mm512_fmsub_ps(a, b, c)
#define V_HOLD(x) __asm__("" : "+v"(x))
#define V_OTHER(a, b) _mm512_cmpneq_epi32_mask(a, b)
#define V_UNLESS(other, a, b) _mm512_mask_mov_ps(b, other, a)
#define V_MAX_OTHER(other, a, b) _mm512_mask_max_ps(a, other, a, b)
#define V_RAW_ZERO() _mm512_setzero_si512()
#define V_RAW_MAX(a, x) _mm512_max_epu32(a, _mm512_castps_si512(x))
#define V_RAW_REAL(a) _mm512_castsi512_ps(a)
#define V_RAW_SOUND(a) _mm512_cmplt_epu32_mask(a, V_ISET(NOT_FINITE))
#define V_SMALL(table, size) wide_small(table, size)
#define V_FIND(table, at) wide_find(table, at)
#define VTABLE struct wide_table
#define V_TABLE(table, size) wide_table(table, size)
#define V_SUM_ZERO() ((struct wide_sum){_mm512_setzero_pd(), _mm512_setzero_pd()})
#define V_SUM_ADD(sum, m, x) wide_add(sum, m, wide_from(x))
#define V_SUM_TABLE(sum, m, at, table) wide_add(sum, m, wide_look(table, at))
#define V_SUM_SCALED(sum, m, at, table, x) wide_add(sum, m, wide_product(wide_look(table, at), wide_from(x)))
#define V_SUM_TOTAL(sum) _mm512_reduce_add_pd(_mm512_add_pd((sum)->low, (sum)->high))

#define INLINE TARGET static inline __attribute__((always_inline))

struct wide_sum {
    __m512d low, high; /* the first and the last eight accounts */
};

INLINE struct wide_sum wide_from(__m512 x)
{
    return (struct wide_sum){_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}

/* Up to sixteen levels fit two registers: a permutation there is far cheaper than a gather. */
struct wide_table {
    __m512d head, tail;
    const double *all; /* null when head and tail hold everything */
};

INLINE struct wide_table wide_table(const double *table, int64_t size)
{
    const int64_t head = size < 8 ? size : 8, tail = size < 8 ? 0 : size < 16 ? size - 8 : 8;
    return (struct wide_table){_mm512_maskz_loadu_pd((__mmask8)((1 << head) - 1), table),
                               _mm512_maskz_loadu_pd((__mmask8)((1 << tail) - 1), table + 8), size > 16 ? table : NULL};
}

struct wide_small {
    __m512 head;
    const float *all; /* null when head holds everything */
};

INLINE struct wide_small wide_small(const float *table, int64_t size)
{
    const __mmask16 held = (__mmask16)(size < 16 ? (1 << size) - 1 : 0xFFFF);
    return (struct wide_small){_mm512_maskz_loadu_ps(held, table), size > 16 ? table : NULL};
}

INLINE __m512 wide_find(struct wide_small t, __m512i at)
{
    return t.all ? _mm512_i32gather_ps(at, t.all, 4) : _mm512_permutexvar_ps(at, t.head);
}

INLINE struct wide_sum wide_look(struct wide_table t, __m512i at)
{
    const __m256i first = _mm512_castsi512_si256(at), last = _mm512_extracti32x8_epi32(at, 1);
    if (t.all) return (struct wide_sum){_mm512_i32gather_pd(first, t.all, 8), _mm512_i32gather_pd(last, t.all, 8)};
    return (struct wide_sum){_mm512_permutex2var_pd(t.head, _mm512_cvtepi32_epi64(first), t.tail),
                             _mm512_permutex2var_pd(t.head, _mm512_cvtepi32_epi64(last), t.tail)};
}

INLINE struct wide_sum wide_product(struct wide_sum a, struct wide_sum b)
{
    return (struct wide_sum){_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
}

INLINE void wide_add(struct wide_sum *sum, __mmask16 m, struct wide_sum x)
{
    sum->low = _mm512_mask_add_pd(sum->low, (__mmask8)m, sum->low, x.low);
    sum->high = _mm512_mask_add_pd(sum->high, (__mmask8)(m >> 8), sum->high, x.high);
}
#undef INLINE
