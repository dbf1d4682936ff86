/* Blocks of neighboring accounts copied side by side: how samples are drawn. */

#include <stdint.h>
#include <string.h>

/* from: (levels, stride) of `size` bytes each; to: (levels, count * width); block b starts at account starts[b]. */
void gather_blocks(int64_t levels, int64_t stride, int64_t size, const char *from, const int64_t *starts,
                   int64_t count, int64_t width, char *to)
{
    const int64_t bytes = width * size;
    for (int64_t j = 0; j < levels; j++)
        for (int64_t b = 0; b < count; b++, to += bytes) memcpy(to, from + (j * stride + starts[b]) * size, (size_t)bytes);
}
