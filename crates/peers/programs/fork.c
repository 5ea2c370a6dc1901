/* What starting a process costs: the peer that costof's os.process is held
 * against, written without looking at how it measures.
 *
 *   fork HOW COUNT
 *
 * COUNT times, one after the other: stamps, starts a child by HOW (fork or vfork)
 * that calls _exit(0) and nothing else, stamps again when the call has returned in
 * the parent, waits for the child by waitpid, and stamps a third time. The first
 * tenth is not counted. Prints the median nanoseconds of the call, and from the
 * first stamp to the third: until the child has ended and was waited for.
 *
 * It has one thread. All runs on one processor where it was pinned to one. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

static pid_t by_fork(void)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child;
}

static pid_t by_vfork(void)
{
    const pid_t child = vfork();
    if (child == 0)
        _exit(0);
    return child;
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "fork") && strcmp(argv[1], "vfork"))) {
        fprintf(stderr, "usage: fork fork|vfork COUNT\n");
        return 2;
    }
    pid_t (*const start)(void) = strcmp(argv[1], "fork") ? by_vfork : by_fork;
    const size_t count = strtoull(argv[2], NULL, 10);
    if (count < 10) {
        fprintf(stderr, "fork: needs 10 children or more\n");
        return 2;
    }
    double *calls_ns = room_for(count);
    double *ends_ns = room_for(count);
    for (size_t i = 0; i < count; i++) {
        const double started = now_ns();
        const pid_t child = start();
        const double called = now_ns();
        if (child < 0)
            fail("fork: cannot start a child");
        int status;
        if (waitpid(child, &status, 0) != child)
            fail("fork: cannot wait for the child");
        ends_ns[i] = now_ns() - started;
        calls_ns[i] = called - started;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fprintf(stderr, "fork: a child did not end as it should\n");
            return 1;
        }
    }
    const size_t first = count / 10;
    printf("%.1f ns call\n%.1f ns until it ended\n", median(calls_ns + first, count - first),
           median(ends_ns + first, count - first));
    return 0;
}
