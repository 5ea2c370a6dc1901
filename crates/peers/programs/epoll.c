/* What it costs to find the one of many descriptors that can be read: the peer that
 * costof's os.wait is held against.
 *
 *   epoll DESCRIPTORS BATCHES
 *
 * BATCHES times 1,000: writes to one of DESCRIPTORS eventfds, another one each time,
 * waits for any of them by epoll_wait, level-triggered, and reads the one that is
 * reported. Prints the median nanoseconds of the three calls. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "peer.h"

enum { WAKES = 1000, STEP = 7919 };

int main(int argc, char **argv)
{
    const size_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t batches = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (!count || batches < 10) {
        fprintf(stderr, "usage: epoll DESCRIPTORS BATCHES, with 10 batches or more\n");
        return 2;
    }
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    int *events = malloc(count * sizeof *events);
    if (epoll < 0 || !events)
        fail("cannot make an epoll");
    for (size_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        events[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (events[i] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, events[i], &event))
            fail("cannot wait for an eventfd");
    }
    double *times_ns = room_for(batches);
    size_t next = 0;
    for (size_t i = 0; i < batches; i++) {
        const double started = now_ns();
        for (size_t j = 0; j < WAKES; j++) {
            struct epoll_event ready[16];
            uint64_t number = 1;
            next = (next + STEP) % count;
            if (write(events[next], &number, sizeof number) != sizeof number)
                fail("cannot write to an eventfd");
            if (epoll_wait(epoll, ready, 16, -1) != 1 || ready[0].data.u64 != next)
                fail("another descriptor was ready");
            if (read(events[next], &number, sizeof number) != sizeof number)
                fail("cannot read an eventfd");
        }
        times_ns[i] = (now_ns() - started) / WAKES;
    }
    printf("%.2f ns per wake\n", median(times_ns, batches));
    return 0;
}
