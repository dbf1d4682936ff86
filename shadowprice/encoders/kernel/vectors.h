/* TEXT for one number type and instruction set, with vectors of WIDTH numbers; targets.h says what it sees beside them. */

#define INLINE TARGET static inline __attribute__((always_inline))

typedef REAL NAME(vec) __attribute__((vector_size(WIDTH * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef BITS NAME(bits) __attribute__((vector_size(WIDTH * sizeof(REAL))));
#define VEC NAME(vec)
#define RAW NAME(bits)

/* Vectors are worked on whole: one that was written in parts is slow to read. */
#define WHERE(mask, v) ((VEC)((RAW)(v) & (mask)))
#define CHOICE(mask, v, other) ((VEC)(((RAW)(v) & (mask)) | ((RAW)(other) & ~(mask))))
#define RELU(v) WHERE((v) > 0, v)

#define LANES(by)                                                                                                     \
    0 ^ by, 1 ^ by, 2 ^ by, 3 ^ by, 4 ^ by, 5 ^ by, 6 ^ by, 7 ^ by, 8 ^ by, 9 ^ by, 10 ^ by, 11 ^ by, 12 ^ by, 13 ^ by, \
        14 ^ by, 15 ^ by
#define TURN(v, by) __builtin_shuffle(v, (RAW){LANES(by)})

INLINE REAL NAME(total)(const VEC v)
{
    VEC sum = v;
    sum += TURN(sum, 8);
    sum += TURN(sum, 4);
    sum += TURN(sum, 2);
    sum += TURN(sum, 1);
    return sum[0];
}

#include TEXT

#undef INLINE
#undef VEC
#undef RAW
#undef WHERE
#undef CHOICE
#undef RELU
#undef LANES
#undef TURN
#undef NAME
#undef TARGET
