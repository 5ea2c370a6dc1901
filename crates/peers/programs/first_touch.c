/* What fresh memory costs: the peer that costof's memory.first_touch is held against.
 *
 *   first_touch touch|populate BATCHES
 *
 * BATCHES times: maps 32 areas of 2 MiB less a page, without huge pages; then writes one
 * byte to each of their pages, or brings all in by MADV_POPULATE_WRITE, one call an area;
 * and unmaps them. Prints the median nanoseconds of 4 KiB in the last one or two areas, in
 * turns, whose pages were given back long enough ago to have left the caches; mapping and
 * unmapping is not counted. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "peer.h"

enum { AREAS = 32, PAGE = 4 << 10, BYTES = (2 << 20) - PAGE };

int main(int argc, char **argv)
{
    const size_t batches = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (batches < 10 || (strcmp(argv[1], "touch") && strcmp(argv[1], "populate"))) {
        fprintf(stderr, "usage: first_touch touch|populate BATCHES, with 10 batches or more\n");
        return 2;
    }
    const int touches = !strcmp(argv[1], "touch");
    double *times_ns = room_for(batches);
    for (size_t i = 0; i < batches; i++) {
        char *areas[AREAS];
        const size_t count = 1 + i % 2;
        for (size_t j = 0; j < AREAS; j++) {
            areas[j] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (areas[j] == MAP_FAILED)
                fail("cannot map memory");
            /* A kernel without huge pages answers EINVAL, and has none. */
            madvise(areas[j], BYTES, MADV_NOHUGEPAGE);
        }
        double started = now_ns();
        for (size_t j = 0; j < AREAS; j++) {
            if (j == AREAS - count)
                started = now_ns();
            if (!touches && madvise(areas[j], BYTES, MADV_POPULATE_WRITE))
                fail("cannot populate memory");
            for (size_t at = 0; touches && at < BYTES; at += PAGE)
                ((volatile char *)areas[j])[at] = 1;
        }
        times_ns[i] = (now_ns() - started) / (double)(count * (BYTES / PAGE));
        for (size_t j = 0; j < AREAS; j++)
            munmap(areas[j], BYTES);
    }
    printf("%.1f ns per 4 KiB\n", median(times_ns, batches));
    return 0;
}
