/* What a proxy adds: the peer that costof's copy.forward is held against.
 *
 *   forward BYTES COUNT CPU
 *
 * A thread on processor CPU receives up to 64 KiB at once from one TCP connection over
 * loopback, and sends them on another one. COUNT times, one after the other: sends a
 * message of BYTES bytes on the first connection, with up to 64 KiB of it on its way,
 * and receives it on the second one. The first tenth is not counted. Prints the median
 * nanoseconds from before a message is sent until all of it has arrived. */
#define _GNU_SOURCE
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/wait.h>

#include "peer.h"

enum { WINDOW = 64 << 10 };

/* Both ends of a connection, which send small messages at once. */
static void connected(int ends[2])
{
    struct sockaddr_in address;
    const int listener = listening(&address, 1);
    const int on = 1;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&address, sizeof address))
        fail("connect");
    ends[1] = accept(listener, NULL, NULL);
    if (ends[1] < 0)
        fail("accept");
    close(listener);
    for (int i = 0; i < 2; i++)
        if (setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
            fail("TCP_NODELAY");
}

static void pass_on(int from, int to)
{
    static char buffer[WINDOW];
    ssize_t received;
    while ((received = recv(from, buffer, sizeof buffer, 0)) > 0)
        for (ssize_t sent = 0; sent < received;) {
            const ssize_t more = send(to, buffer + sent, (size_t)(received - sent), MSG_NOSIGNAL);
            if (more < 0)
                fail("send");
            sent += more;
        }
}

/* A thread of this process, as costof's proxy is. */
struct proxy {
    int from, to, cpu;
};

static void *proxy(void *argument)
{
    const struct proxy *const is = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(is->cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("cannot run on the proxy's processor");
    pass_on(is->from, is->to);
    return argument;
}

int main(int argc, char **argv)
{
    const size_t bytes = argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t count = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    const int cpu = argc == 4 ? atoi(argv[3]) : -1;
    if (!bytes || count < 10 || cpu < 0 || cpu >= CPU_SETSIZE) {
        fprintf(stderr, "usage: forward BYTES COUNT CPU, with 10 messages or more\n");
        return 2;
    }
    int into[2], out[2];
    connected(into);
    connected(out);
    struct proxy between = {.from = into[1], .to = out[0], .cpu = cpu};
    pthread_t thread;
    if (pthread_create(&thread, NULL, proxy, &between)) {
        fprintf(stderr, "forward: cannot start a thread\n");
        return 1;
    }
    char *message = calloc(2, bytes);
    if (!message)
        fail("cannot allocate a message");
    char *const arrived = message + bytes;
    double *times_ns = room_for(count);
    for (size_t i = 0; i < count; i++) {
        const double started = now_ns();
        size_t sent = 0, received = 0;
        while (received < bytes) {
            while (sent < bytes && sent - received < WINDOW) {
                const size_t until = bytes < received + WINDOW ? bytes : received + WINDOW;
                const ssize_t more = send(into[0], message + sent, until - sent, MSG_NOSIGNAL);
                if (more < 0)
                    fail("send");
                sent += (size_t)more;
            }
            const ssize_t more = recv(out[1], arrived + received, bytes - received, 0);
            if (more <= 0)
                fail("recv");
            received += (size_t)more;
        }
        times_ns[i] = now_ns() - started;
    }
    shutdown(into[0], SHUT_WR);
    pthread_join(thread, NULL);
    const size_t first = count / 10;
    printf("%.1f ns to pass a message on\n", median(times_ns + first, count - first));
    return 0;
}
