/* What starting a thread costs: the peer that costof's os.thread is held against,
 * written without looking at how it measures.
 *
 *   thread COUNT
 *
 * COUNT times, one after the other: stamps, calls pthread_create with default
 * attributes for a thread that only returns, stamps again when the call has
 * returned, joins it by pthread_join, and stamps a third time. The first tenth is
 * not counted, so that the C library has a stack at hand and maps none. Prints the
 * median nanoseconds of the call, and from the first stamp to the third.
 *
 * All runs on one processor where it was pinned to one. */
#include <pthread.h>

#include "peer.h"

static void *nothing(void *argument)
{
    return argument;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: thread COUNT\n");
        return 2;
    }
    const size_t count = strtoull(argv[1], NULL, 10);
    if (count < 10) {
        fprintf(stderr, "thread: needs 10 threads or more\n");
        return 2;
    }
    double *calls_ns = room_for(count);
    double *ends_ns = room_for(count);
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        void *returned = NULL;
        const double started = now_ns();
        const int failed = pthread_create(&thread, NULL, nothing, calls_ns);
        const double called = now_ns();
        if (failed || pthread_join(thread, &returned)) {
            fprintf(stderr, "thread: cannot start or join a thread\n");
            return 1;
        }
        ends_ns[i] = now_ns() - started;
        calls_ns[i] = called - started;
        if (returned != calls_ns) {
            fprintf(stderr, "thread: a thread did not run\n");
            return 1;
        }
    }
    const size_t first = count / 10;
    printf("%.1f ns call\n%.1f ns until it was joined\n", median(calls_ns + first, count - first),
           median(ends_ns + first, count - first));
    return 0;
}
