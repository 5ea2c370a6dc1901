/* What it costs the sender to send messages of several fields over TCP on loopback:
 * the peer that costof's copy.send is held against, where it copies twice.
 *
 *   stream BYTES FIELDS MILLISECONDS CPU
 *
 * A child on processor CPU reads up to 128 KiB at once. For MILLISECONDS, the parent
 * copies the FIELDS of a message of BYTES bytes, each at a place of its own, one
 * after the other into a buffer, and sends that; the message is the same each time.
 * The first third of the time is not counted. Prints the CPU time of the sending
 * thread for 1,024 bytes. */
#define _GNU_SOURCE
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "peer.h"

enum { READ_BYTES = 128 << 10, LINE_BYTES = 64 };

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static char *touched(size_t bytes)
{
    char *memory = malloc(bytes);
    if (!memory)
        fail("cannot allocate memory");
    memset(memory, 1, bytes);
    return memory;
}

static void receive_all(int listener, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("cannot run on the receiver's processor");
    const int connection = accept(listener, NULL, NULL);
    if (connection < 0)
        fail("accept");
    char *buffer = touched(READ_BYTES);
    while (recv(connection, buffer, READ_BYTES, 0) > 0)
        ;
}

static void send_all(int connection, const char *bytes, size_t count)
{
    for (size_t sent = 0; sent < count;) {
        const ssize_t more = send(connection, bytes + sent, count - sent, MSG_NOSIGNAL);
        if (more < 0)
            fail("send");
        sent += (size_t)more;
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: stream BYTES FIELDS MILLISECONDS CPU\n");
        return 2;
    }
    const size_t bytes = strtoull(argv[1], NULL, 10), fields = strtoull(argv[2], NULL, 10);
    const double lasts_ns = 1e6 * atof(argv[3]);
    const int cpu = atoi(argv[4]);
    if (!fields || !bytes || bytes % fields || cpu < 0 || cpu >= CPU_SETSIZE) {
        fprintf(stderr, "stream: needs a message of equal fields, and a processor\n");
        return 2;
    }
    struct sockaddr_in address;
    const int listener = listening(&address, 1);
    const pid_t receiver = served(receive_all, listener, cpu);
    const int connection = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (connection < 0 || setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        connect(connection, (struct sockaddr *)&address, sizeof address))
        fail("cannot connect");
    const size_t each = bytes / fields, apart = each + LINE_BYTES;
    char *message = touched(fields * apart), *buffer = touched(bytes);
    const double started_ns = now_ns();
    double sent = 0, from_ns = 0, now;
    do {
        for (size_t i = 0; i < fields; i++)
            memcpy(buffer + i * each, message + i * apart, each);
        send_all(connection, buffer, bytes);
        now = now_ns();
        if (from_ns > 0)
            sent += (double)bytes;
        else if (now >= started_ns + lasts_ns / 3)
            from_ns = cpu_ns();
    } while (now < started_ns + lasts_ns || sent == 0);
    const double used_ns = cpu_ns() - from_ns;
    close(connection);
    waitpid(receiver, NULL, 0);
    printf("%.2f ns of the sender per KiB\n", 1024 * used_ns / sent);
    return 0;
}
