/* What it costs to allocate and free a block: the peer that costof's memory.malloc is
 * held against.
 *
 *   malloc BYTES BURST BATCHES
 *
 * BATCHES times: allocates BURST blocks of BYTES bytes, writes the first byte of each,
 * and frees them in the same order, until 10,000 blocks or more came and went. A second
 * thread sleeps, since glibc leaves out its locks where there is one. Prints the median
 * nanoseconds of a block. */
#define _GNU_SOURCE
#include "peer.h"

enum { BLOCKS = 10000 };

int main(int argc, char **argv)
{
    const size_t bytes = argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t burst = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    const size_t batches = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
    if (!bytes || !burst || batches < 10) {
        fprintf(stderr, "usage: malloc BYTES BURST BATCHES, with 10 batches or more\n");
        return 2;
    }
    start_sleeper();
    char **blocks = malloc(burst * sizeof *blocks);
    if (!blocks)
        fail("cannot allocate the list of blocks");
    double *times_ns = room_for(batches);
    for (size_t i = 0; i < batches; i++) {
        const double started = now_ns();
        size_t done = 0;
        for (; done < BLOCKS; done += burst) {
            for (size_t j = 0; j < burst; j++) {
                blocks[j] = malloc(bytes);
                if (!blocks[j])
                    fail("cannot allocate a block");
                *(volatile char *)blocks[j] = 1;
            }
            for (size_t j = 0; j < burst; j++)
                free(blocks[j]);
        }
        times_ns[i] = (now_ns() - started) / (double)done;
    }
    printf("%.3f ns per block\n", median(times_ns, batches));
    return 0;
}
