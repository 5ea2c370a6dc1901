/* What a request that does nothing costs by io_uring: the peer that costof's os.io_uring
 * is held against, by liburing.
 *
 *   nop REQUESTS BATCHES
 *
 * BATCHES times 1,000: puts REQUESTS NOPs into a ring, submits them, waits for all of
 * them, and takes their completions. The ring has IORING_SETUP_SINGLE_ISSUER and
 * IORING_SETUP_DEFER_TASKRUN where the kernel knows them (Linux 6.1). Prints the median
 * nanoseconds of a request. */
#define _GNU_SOURCE
#include <liburing.h>

#include "peer.h"

enum { SUBMISSIONS = 1000 };

int main(int argc, char **argv)
{
    const unsigned requests = argc == 3 ? (unsigned)atoi(argv[1]) : 0;
    const size_t batches = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (!requests || batches < 10) {
        fprintf(stderr, "usage: nop REQUESTS BATCHES, with 10 batches or more\n");
        return 2;
    }
    struct io_uring ring;
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    if (io_uring_queue_init(requests, &ring, flags) && io_uring_queue_init(requests, &ring, 0)) {
        fprintf(stderr, "nop: cannot make a ring\n");
        return 1;
    }
    double *times_ns = room_for(batches);
    for (size_t i = 0; i < batches; i++) {
        const double started = now_ns();
        for (size_t j = 0; j < SUBMISSIONS; j++) {
            for (unsigned k = 0; k < requests; k++)
                io_uring_prep_nop(io_uring_get_sqe(&ring));
            if (io_uring_submit_and_wait(&ring, requests) != (int)requests) {
                fprintf(stderr, "nop: not all were submitted\n");
                return 1;
            }
            unsigned head, done = 0;
            struct io_uring_cqe *completion;
            io_uring_for_each_cqe(&ring, head, completion)
                done += completion->res == 0;
            io_uring_cq_advance(&ring, requests);
            if (done != requests) {
                fprintf(stderr, "nop: not all are complete\n");
                return 1;
            }
        }
        times_ns[i] = (now_ns() - started) / SUBMISSIONS / requests;
    }
    printf("%.2f ns per request\n", median(times_ns, batches));
    return 0;
}
