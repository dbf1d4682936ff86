/* One account at a time: any processor, and the rest of a block that does not fill a vector. */
#define TARGET
#define LANES 1
#define UNROLL 1
#define V_ALL 1u
#define VF REAL
#define VI int32_t
#define VM int
#define VR RAW
#define VSMALL const REAL *
#define VSUM double
#define V_SET(x) (x)
#define V_ISET(x) (x)
#define V_LOAD(at) (*(at))
#define V_FETCH(at) ((void)(at))
#define V_ISTORE(to, x) (*(to) = (x))
#define V_NSTORE(to, x) (*(to) = (int8_t)(x))
#define V_STORE(to, x) (*(to) = (x))
#define V_LOOKUP(table, pattern) ((table)[*(pattern)])
#define V_OPEN(at) (*(at) != 0)
#define V_FMA(a, b, c) ((a) * (b) + (c))
#define V_FNMA(a, b, c) ((c) - (a) * (b))
#define V_SUB(a, b) ((a) - (b))
#define V_MAX(a, b) ((a) > (b) ? (a) : (b))
#define V_ABS(a) ((a) < 0 ? -(a) : (a))
#define V_NOT_LESS(a, b) ((a) >= (b))
#define V_AND(a, b) ((a) & (b))
#define V_BITS(m) ((uint32_t)(m))
#define V_PICK(m, a, b) ((m) ? (a) : (b))
#define V_PACK(a, bits, j) NAME(pack)(a, bits, j)
#define V_UNPACK(a, bits) NAME(unpack)(a, bits)
#define V_IADD(a, b) ((a) + (b))
#define V_MUL(a, b) ((a) * (b))
#define V_ADD(a, b) ((a) + (b))
#define V_FMS(a, b, c) ((a) * (b) - (c))
#define V_HOLD(x) ((void)0)
#define V_OTHER(a, b) ((a) != (b))
#define V_UNLESS(other, a, b) ((other) ? (a) : (b))
#define V_MAX_OTHER(other, a, b) ((other) && (b) > (a) ? (b) : (a))
#define V_RAW_ZERO() 0
#define V_RAW_MAX(a, x) NAME(raw_max)(a, x)
#define V_RAW_REAL(a) NAME(raw_real)(a)
#define V_RAW_SOUND(a) ((a) < NOT_FINITE)
#define V_SMALL(table, size) (table)
#define V_FIND(table, at) ((table)[at])
#define VTABLE const double *
#define V_TABLE(table, size) (table)
#define V_SUM_ZERO() 0.0
#define V_SUM_ADD(sum, m, x) (*(sum) += (m) ? (double)(x) : 0.0)
#define V_SUM_TABLE(sum, m, at, table) (*(sum) += (m) ? (table)[at] : 0.0)
#define V_SUM_SCALED(sum, m, at, table, x) (*(sum) += (m) ? (table)[at] * (double)(x) : 0.0)
#define V_SUM_TOTAL(sum) (*(sum))
