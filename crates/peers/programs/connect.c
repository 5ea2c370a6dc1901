/* What setting up a TCP connection on loopback costs: the peer that costof's
 * net.connect is held against.
 *
 *   connect COUNT CPU
 *
 * A child on processor CPU listens on a port of its own at 127.0.0.1, and for each
 * connection: accepts, reads until the other end is done, and closes. COUNT times,
 * one after the other: makes a socket, stamps, calls connect(), stamps again; then
 * says that it is done, reads until the child is done too, and closes. No byte is
 * sent. The first tenth is not counted. Prints the median nanoseconds of connect().
 *
 * Runs on one processor where it was pinned to one; the child ends with it. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>

#include "peer.h"

static void read_until_done(int connection)
{
    char byte;
    if (read(connection, &byte, 1) != 0)
        fail("the other end did not close");
}

static void serve(int listener, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("cannot run on the server's processor");
    for (;;) {
        const int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            fail("accept");
        read_until_done(connection);
        close(connection);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: connect COUNT CPU\n");
        return 2;
    }
    const size_t count = strtoull(argv[1], NULL, 10);
    const int cpu = atoi(argv[2]);
    if (count < 10 || cpu < 0 || cpu >= CPU_SETSIZE) {
        fprintf(stderr, "connect: needs 10 connections or more, and a processor\n");
        return 2;
    }
    struct sockaddr_in address;
    const int listener = listening(&address, 128);
    const pid_t server = served(serve, listener, cpu);
    double *times_ns = room_for(count);
    for (size_t i = 0; i < count; i++) {
        const int connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connection < 0)
            fail("socket");
        const double started = now_ns();
        if (connect(connection, (struct sockaddr *)&address, sizeof address))
            fail("connect");
        times_ns[i] = now_ns() - started;
        shutdown(connection, SHUT_WR);
        read_until_done(connection);
        close(connection);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    const size_t first = count / 10;
    printf("%.1f ns to connect\n", median(times_ns + first, count - first));
    return 0;
}
