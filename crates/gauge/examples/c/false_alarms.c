/* How often is a function called different from itself, and how often is a planted change found?
 *
 *     cc -std=c99 -O2 -I ../../include false_alarms.c -o false_alarms -lm
 *     taskset -c 0 ./false_alarms hash 0 [FLOOR]  a function (hash, getppid, sort), per cent more work in B,
 *                                                 and this machine's floor, if you know it
 *
 * Each of 100 comparisons measures A, then B, as most frameworks do: 30 samples of 60 batches of some 50
 * microseconds. A sample is the median of its batches. The same batches are judged three times: all of them,
 * those during which the core was alone, and those in core cycles instead of time if the clock before and
 * after was the same within 1 %. A comparison without 10 samples on each side tells nothing.
 */
#define _GNU_SOURCE
#include "costof_gauge.h"
#include <math.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COMPARISONS 100
#define SAMPLES 30
#define SAMPLES_MIN 10
#define BATCHES 60
#define BATCH_NS 50e3

typedef struct {
    double ticks, before, after, cycle_before, cycle_after;
} batch;

/* Which batches count, and as what. */
enum { ALL, ALONE, ALONE_CYCLES };

static batch measured[COMPARISONS][2][SAMPLES][BATCHES];

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void hash(long n) {
    volatile uint64_t result;
    uint64_t hash = 14695981039346656037u;
    for (; n > 0; --n) {
        hash = (hash ^ (uint64_t)n) * 1099511628211u;
    }
    result = hash;
    (void)result;
}

static void getppids(long n) {
    for (; n > 0; --n) {
        syscall(SYS_getppid);
    }
}

static void sort(long n) {
    double numbers[32];
    for (; n > 0; --n) {
        int i;
        for (i = 0; i < 32; ++i) {
            numbers[i] = (i * 19 + (int)n) % 32;
        }
        qsort(numbers, 32, sizeof *numbers, costof_gauge_order);
    }
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, costof_gauge_order);
    return values[count / 2];
}

static int counts(const costof_gauge *gauge, const batch *it, int rule) {
    double clocks = it->cycle_after / it->cycle_before;
    if (rule != ALL && costof_gauge_state(gauge, it->before, it->after) != COSTOF_ALONE) {
        return 0;
    }
    return rule != ALONE_CYCLES || (clocks > 0.99 && clocks < 1.01);
}

/* Fills in the samples of one side; returns how many there are. */
static size_t samples_of(const costof_gauge *gauge, batch side[SAMPLES][BATCHES], int rule, double *samples) {
    size_t count = 0;
    int i, j;
    for (i = 0; i < SAMPLES; ++i) {
        double values[BATCHES];
        size_t batches = 0;
        for (j = 0; j < BATCHES; ++j) {
            const batch *it = &side[i][j];
            if (counts(gauge, it, rule)) {
                values[batches++] = rule == ALONE_CYCLES ? it->ticks * 2.0 / (it->cycle_before + it->cycle_after)
                                                         : it->ticks;
            }
        }
        if (batches > 0) {
            samples[count++] = median(values, batches);
        }
    }
    return count;
}

/* The two-sided test of Mann and Whitney at 5 %, by its normal approximation: 1 if B is slower, -1 if it is
 * faster, 0 if that cannot be said. */
static int significant(const double *a, size_t as, const double *b, size_t bs) {
    double u = 0.0, mean = (double)(as * bs) / 2.0, deviation = sqrt((double)(as * bs * (as + bs + 1)) / 12.0);
    size_t i, j;
    for (i = 0; i < as; ++i) {
        for (j = 0; j < bs; ++j) {
            u += a[i] < b[j] ? 1.0 : a[i] == b[j] ? 0.5 : 0.0;
        }
    }
    return fabs(u - mean) <= 1.96 * deviation ? 0 : u > mean ? 1 : -1;
}

static void judge(const costof_gauge *gauge, int rule) {
    const char *names[] = {"all", "alone", "alone, cycles"};
    int decided = 0, slower = 0, faster = 0, beyond = 0, i;
    double differences[COMPARISONS];
    for (i = 0; i < COMPARISONS; ++i) {
        double a[SAMPLES], b[SAMPLES], ratio;
        size_t as = samples_of(gauge, measured[i][0], rule, a);
        size_t bs = samples_of(gauge, measured[i][1], rule, b);
        int found;
        if (as < SAMPLES_MIN || bs < SAMPLES_MIN) {
            continue;
        }
        found = significant(a, as, b, bs);
        slower += found > 0;
        faster += found < 0;
        ratio = median(b, bs) / median(a, as) - 1.0;
        beyond += fabs(ratio) > 0.02;
        differences[decided++] = fabs(ratio) * 100.0;
    }
    printf("%-13s: %d comparisons decided, p < 0.05: B slower %d, faster %d; medians 2 %% apart: %d",
           names[rule], decided, slower, faster, beyond);
    if (decided > 0) {
        double middle = median(differences, (size_t)decided);
        printf("; |difference| median %.2f %%, largest %.2f %%", middle, differences[decided - 1]);
    }
    puts("");
}

int main(int count, char **arguments) {
    const char *names[] = {"hash", "getppid", "sort"};
    void (*functions[])(long) = {hash, getppids, sort};
    void (*function)(long) = NULL;
    size_t total = COMPARISONS * 2 * SAMPLES * BATCHES, by_state[3] = {0, 0, 0}, i;
    batch *batches = &measured[0][0][0][0];
    double planted = count > 2 ? atof(arguments[2]) : 0.0, *readings = malloc(total * sizeof *readings), best = 1e18;
    costof_gauge gauge;
    long n = 1;
    for (i = 0; count > 1 && i < 3; ++i) {
        function = strcmp(arguments[1], names[i]) == 0 ? functions[i] : function;
    }
    if (function == NULL || readings == NULL) {
        fprintf(stderr, "usage: %s hash|getppid|sort [PERCENT [FLOOR]]\n", arguments[0]);
        return 2;
    }
    costof_gauge_calibrate(&gauge);
    if (count > 3) {
        gauge.floor = atof(arguments[3]);
    }
    for (i = 0; i < 100; ++i) {
        double start = now_ns(), took;
        function(100);
        took = now_ns() - start;
        best = took < best ? took : best;
    }
    n = (long)(BATCH_NS / best * 100.0) + 1;
    for (i = 0; i < total; ++i) {
        int is_b = (int)(i / (SAMPLES * BATCHES) % 2);
        long work = is_b ? (long)((double)n * (1.0 + planted / 100.0) + 0.5) : n;
        uint64_t start;
        batches[i].before = costof_gauge_read_with_clock(&gauge, &batches[i].cycle_before);
        start = costof_gauge_start_ticks();
        function(work);
        batches[i].ticks = (double)(costof_gauge_end_ticks() - start);
        batches[i].after = readings[i] = costof_gauge_read_with_clock(&gauge, &batches[i].cycle_after);
    }
    /* The readings of all batches find the floor, if the core was ever alone. */
    costof_gauge_lower_floor(&gauge, readings, total);
    if (gauge.floor <= 0.0) {
        fputs("this core has no floor: readings are scattered, and its design is not in the table\n", stderr);
        return 1;
    }
    for (i = 0; i < total; ++i) {
        ++by_state[costof_gauge_state(&gauge, batches[i].before, batches[i].after)];
    }
    printf("%s, B does %g %% more; floor %.3f; batches alone %.0f %%, shared %.0f %%, mixed %.0f %%\n", arguments[1],
           planted, gauge.floor, 100.0 * (double)by_state[0] / (double)total,
           100.0 * (double)by_state[1] / (double)total, 100.0 * (double)by_state[2] / (double)total);
    judge(&gauge, ALL);
    judge(&gauge, ALONE);
    judge(&gauge, ALONE_CYCLES);
    free(readings);
    return 0;
}
