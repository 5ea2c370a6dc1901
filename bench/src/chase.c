/* A pointer chase, written without looking at costof's: the peer that its
 * memory.latency is held against.
 *
 *   chase BYTES STRIDE SEED LAPS
 *
 * maps BYTES on base pages, touches them in ascending order, links one word
 * every STRIDE bytes into a single random cycle, walks one lap untimed and
 * checks that it visits every word once, then walks LAPS more in stretches of
 * 1,024 loads and prints the nanoseconds of one load in the median stretch, so
 * that a stretch in which another program ran does not count for more than one. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "peer.h"

/* Loads between two looks at the clock: some 100 us. */
enum { STRETCH = 1024 };

static uint64_t state;

/* splitmix64 (Steele, Lea, Flood, 2014) */
static uint64_t next_random(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to bound - 1; the bias is bound / 2^64 */
static uint64_t below(uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)next_random() * bound) >> 64);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: chase BYTES STRIDE SEED LAPS\n");
        return 2;
    }
    const uint64_t bytes = strtoull(argv[1], NULL, 10);
    const uint64_t stride = strtoull(argv[2], NULL, 10);
    state = strtoull(argv[3], NULL, 10);
    const uint64_t laps = strtoull(argv[4], NULL, 10);
    if (stride < sizeof(void *) || stride % sizeof(void *) || bytes / stride < 2 || laps < 1 ||
        bytes / stride % STRETCH) {
        fprintf(stderr, "chase: needs whole stretches of %d words, and a lap or more\n", STRETCH);
        return 2;
    }
    const uint64_t words = bytes / stride;

    char *arena = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        fail("chase: cannot map memory");
    /* A kernel without huge pages answers EINVAL, and has none. */
    madvise(arena, bytes, MADV_NOHUGEPAGE);
    memset(arena, 1, bytes);

    /* Sattolo: swap each position with an earlier one, and the permutation is one cycle. */
    uint32_t *to = malloc(words * sizeof *to);
    if (!to)
        fail("chase: cannot allocate the permutation");
    for (uint64_t i = 0; i < words; i++)
        to[i] = (uint32_t)i;
    for (uint64_t i = words - 1; i > 0; i--) {
        const uint64_t j = below(i);
        const uint32_t swapped = to[i];
        to[i] = to[j];
        to[j] = swapped;
    }
    for (uint64_t i = 0; i < words; i++)
        *(void **)(arena + i * stride) = arena + (uint64_t)to[i] * stride;
    free(to);

    void **at = (void **)arena;
    uint64_t visited = 0;
    do {
        at = *at;
        visited++;
    } while (at != (void **)arena && visited <= words);
    if (visited != words) {
        fprintf(stderr, "chase: a lap visits %" PRIu64 " of %" PRIu64 " words\n", visited, words);
        return 1;
    }

    const uint64_t stretches = laps * words / STRETCH;
    double *times_ns = room_for(stretches);
    for (uint64_t s = 0; s < stretches; s++) {
        const double start = now_ns();
        for (int i = 0; i < STRETCH; i++)
            at = *at;
        /* The compiler keeps the loads before the clock, whose own fence waits for them. */
        __asm__ volatile("" : "+r"(at) : : "memory");
        times_ns[s] = now_ns() - start;
    }
    /* Whole laps end where they began. */
    if (at != (void **)arena) {
        fprintf(stderr, "chase: whole laps did not end where they began\n");
        return 1;
    }
    printf("%.4f ns per load\n", median(times_ns, stretches) / STRETCH);
    return 0;
}
