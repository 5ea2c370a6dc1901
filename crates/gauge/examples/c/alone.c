/* Times a function, and stamps each sample alone, shared or mixed:
 *
 *     cc -std=c99 -O2 -I ../../include alone.c -o alone && taskset -c 0 ./alone
 */
#define _POSIX_C_SOURCE 200809L
#include "costof_gauge.h"
#include <stdio.h>
#include <time.h>

#define SAMPLES 4000
#define CALLS 100 /* in a sample, which should take 10 to 200 microseconds */

static uint64_t hash(const unsigned char *bytes, size_t length) {
    uint64_t hash = 14695981039346656037u;
    size_t i;
    for (i = 0; i < length; ++i) {
        hash = (hash ^ bytes[i]) * 1099511628211u;
    }
    return hash;
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void print_median(const char *what, double *values, size_t count, const char *unit) {
    if (count == 0) {
        printf("%s: no sample\n", what);
        return;
    }
    qsort(values, count, sizeof *values, costof_gauge_order);
    printf("%s: %.2f %s a call, %zu samples\n", what, values[count / 2], unit, count);
}

int main(void) {
    static double ns[SAMPLES], cycles[SAMPLES], alone[SAMPLES], readings[SAMPLES + 1], sorted[SAMPLES + 1];
    static unsigned char text[256];
    volatile uint64_t result = 0;
    size_t by_state[3] = {0, 0, 0}, i, call;
    double clock; /* ticks a core cycle */
    costof_gauge gauge;
    if (!costof_gauge_calibrate(&gauge)) {
        puts("this core has no floor: readings are scattered, and its design is not in the table");
        return 1;
    }
    readings[0] = costof_gauge_read_with_clock(&gauge, &clock);
    for (i = 0; i < SAMPLES; ++i) {
        double start = now_ns();
        uint64_t start_ticks = costof_gauge_start_ticks();
        for (call = 0; call < CALLS; ++call) {
            result += hash(text, sizeof text);
        }
        cycles[i] = (double)(costof_gauge_end_ticks() - start_ticks) / clock / CALLS;
        ns[i] = (now_ns() - start) / CALLS;
        /* The reading after one sample is the reading before the next. */
        readings[i + 1] = costof_gauge_read_with_clock(&gauge, &clock);
    }
    memcpy(sorted, readings, sizeof sorted);
    costof_gauge_lower_floor(&gauge, sorted, SAMPLES + 1);
    for (i = 0; i < SAMPLES; ++i) {
        costof_state state = costof_gauge_state(&gauge, readings[i], readings[i + 1]);
        if (state == COSTOF_ALONE) {
            alone[by_state[COSTOF_ALONE]] = ns[i];
            cycles[by_state[COSTOF_ALONE]] = cycles[i]; /* at or before its own place */
        }
        ++by_state[state];
    }
    printf("floor %.3f core cycles an addition; samples alone %zu, shared %zu, mixed %zu\n", gauge.floor,
           by_state[COSTOF_ALONE], by_state[COSTOF_SHARED], by_state[COSTOF_MIXED]);
    print_median("as it ran", ns, SAMPLES, "ns");
    print_median("with the core alone", alone, by_state[COSTOF_ALONE], "ns");
    print_median("whatever the core's clock was", cycles, by_state[COSTOF_ALONE], "core cycles");
    return 0;
}
