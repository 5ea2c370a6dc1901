/* What the C programs of `costof verify` and of the bench have in common: the
 * clock, the median, their other ends, and how they fail. */
#ifndef PEER_H
#define PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
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

/* A listener on loopback, and its address. */
static inline int listening(struct sockaddr_in *address, int backlog)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof *address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)address, length) ||
        listen(listener, backlog) ||
        getsockname(listener, (struct sockaddr *)address, &length))
        fail("cannot listen");
    return listener;
}

/* A process that serves there on a processor, and ends with this one. */
static inline pid_t served(void (*serve)(int, int), int listener, int cpu)
{
    const pid_t parent = getpid();
    const pid_t server = fork();
    if (server < 0)
        fail("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            serve(listener, cpu);
        exit(0);
    }
    return server;
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
