/* What the C programs of this bench have in common: the clock, the median, and
 * how they fail. */
#ifndef PEER_H
#define PEER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static inline void fail(const char *what)
{
    perror(what);
    exit(1);
}

static inline int ascending(const void *left, const void *right)
{
    const double l = *(const double *)left, r = *(const double *)right;
    return (l > r) - (l < r);
}

/* Room for `count` times, touched so that noting one causes no page fault. */
static inline double *room_for(size_t count)
{
    double *times_ns = malloc(count * sizeof *times_ns);
    if (!times_ns)
        fail("cannot allocate the times");
    for (size_t i = 0; i < count; i++)
        ((volatile double *)times_ns)[i] = 0.0;
    return times_ns;
}

/* Sorts them. */
static inline double median(double *times_ns, size_t count)
{
    qsort(times_ns, count, sizeof *times_ns, ascending);
    return times_ns[count / 2];
}

static inline void *sleeps(void *argument)
{
    for (;;)
        pause();
    return argument;
}

/* Starts a second thread, which only sleeps. */
static inline void start_sleeper(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleeps, NULL)) {
        fprintf(stderr, "cannot start a thread\n");
        exit(1);
    }
}

#endif
