/* A pass in parts, which threads take one after another. What a part is does not depend on how many threads there are:
 * neither do the results, as sums over parts are formed in order. */

#include <stdatomic.h>

#define PARTS 2

/* GOMP_parallel of the runtime whose threads compute, as libgomp documents it; null for none. The others of LLVM and
 * Intel have it too. */
typedef void (*team)(void (*of)(void *), void *given, unsigned threads, unsigned flags);

struct threads {
    team team;
    int64_t count;
};

struct work {
    void (*of)(void *given, int part);
    void *given;
    atomic_int next;
};

static void take_parts(void *at)
{
    struct work *const work = at;
    for (int part; (part = atomic_fetch_add(&work->next, 1)) < PARTS;)
        work->of(work->given, part);
}

static inline void in_parts(const struct threads *threads, void (*of)(void *, int), void *given)
{
    struct work work = {of, given, 0};
    if (threads->team && threads->count > 1)
        threads->team(take_parts, &work, (unsigned)threads->count, 0); /* as many as torch has: a team is not made anew */
    else
        take_parts(&work);
}
