// Programs of known composition for tools/bill-truths: PROGRAM KIND SEED FOLDER. FOLDER has files of 16 MiB: `file`, and `code`,
// written 4 KiB at a time, as programs are installed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES = 16 << 20, BLOCK = 64 << 10, SMALL = 64, PAGE = 4096, PAGES = 16384 };

static char buffer[BLOCK];
static int file, code, zero, null;

static void expect(long done, long wanted) {
    if (done != wanted) err(1, "%ld and not %ld", done, wanted);
}

static void parents(long count) {
    while (count--) syscall(SYS_getppid);
}

static void small_device(long count) {
    while (count--) {
        expect(read(zero, buffer, SMALL), SMALL);
        expect(write(null, buffer, SMALL), SMALL);
    }
}

static void small_file(long count) {
    while (count--) {
        ssize_t done = read(file, buffer, SMALL);
        if (done == 0) lseek(file, 0, SEEK_SET);
        else expect(done, SMALL);
    }
}

static void large_read(long count) {
    while (count--) expect(pread(file, buffer, BLOCK, count * BLOCK % FILE_BYTES), BLOCK);
}

static void large_write(long count) {
    while (count--) expect(pwrite(file, buffer, BLOCK, count * BLOCK % FILE_BYTES), BLOCK);
}

static void forks(long count) {
    while (count--) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        expect(waitpid(child, NULL, 0), child);
    }
}

// Maps 64 MiB, touches each page and unmaps it.
static void pages(long count) {
    while (count--) {
        char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) err(1, "mmap");
        madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
        for (long page = 0; page < PAGES; page++) at[page * PAGE] = 1;
        munmap(at, PAGES * PAGE);
    }
}

// Maps a file, touches something in every 64 KiB and unmaps it, as programs do with their code.
static void touch_code(long count) {
    volatile char sum = 0;
    while (count--) {
        char *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, code, 0);
        if (at == MAP_FAILED) err(1, "mmap");
        for (long byte = 0; byte < FILE_BYTES; byte += BLOCK) sum += at[byte];
        munmap(at, FILE_BYTES);
    }
}

static void ping_pong(long count) {
    int there[2], back[2];
    char byte = 0;
    if (pipe(there) || pipe(back)) err(1, "pipe");
    if (fork() == 0) {
        close(there[1]);
        while (read(there[0], &byte, 1) == 1) expect(write(back[1], &byte, 1), 1);
        _exit(0);
    }
    while (count--) {
        expect(write(there[1], &byte, 1), 1);
        expect(read(back[0], &byte, 1), 1);
    }
    close(there[1]);
    wait(NULL);
    close(there[0]), close(back[0]), close(back[1]);
}

static void echo(long count) {
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    if (bind(listener, (void *)&at, length) || listen(listener, 1) || getsockname(listener, (void *)&at, &length)) err(1, "listen");
    if (fork() == 0) {
        close(client);
        int server = accept(listener, NULL, NULL);
        setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (recv(server, buffer, SMALL, MSG_WAITALL) == SMALL) expect(send(server, buffer, SMALL, 0), SMALL);
        _exit(0);
    }
    if (connect(client, (void *)&at, length)) err(1, "connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    while (count--) {
        expect(send(client, buffer, SMALL, 0), SMALL);
        expect(recv(client, buffer, SMALL, MSG_WAITALL), SMALL);
    }
    close(client), close(listener);
    wait(NULL);
}

static void syncs(long count) {
    while (count--) {
        expect(pwrite(file, buffer, PAGE, count * PAGE % FILE_BYTES), PAGE);
        expect(fdatasync(file), 0);
    }
}

static const struct {
    const char *name;
    void (*run)(long);
    long count;
} KINDS[] = {
    {"getppid", parents, 2000000}, {"device", small_device, 1000000}, {"file", small_file, 1000000},
    {"read", large_read, 60000},   {"write", large_write, 40000},     {"fork", forks, 3000},
    {"pages", pages, 8},           {"pipe", ping_pong, 60000},        {"echo", echo, 20000},
    {"sync", syncs, 3000},         {"code", touch_code, 1000},
};

int main(int argc, char **argv) {
    if (argc != 4 || chdir(argv[3])) errx(2, "usage: KIND SEED FOLDER");
    srand(atoi(argv[2]));
    file = open("file", O_RDWR), code = open("code", O_RDONLY), zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_WRONLY);
    for (int kind = 0; kind < (int)(sizeof KINDS / sizeof *KINDS); kind++) {
        if (strcmp(argv[1], KINDS[kind].name) == 0) KINDS[kind].run(KINDS[kind].count);
        if (strcmp(argv[1], "mixed") == 0) KINDS[kind].run(KINDS[kind].count * (rand() % 100) / 400);
    }
}
