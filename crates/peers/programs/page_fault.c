/* What the first touch of a page costs: the peer that costof's os.page_fault is
 * held against.
 *
 *   page_fault KIND FOLDER BATCHES
 *
 * BATCHES times: maps 1,024 pages, touches one byte of each of the first 512, reads
 * the clock, touches the other 512, reads the clock again, and unmaps. KIND is
 *
 *   minor_anonymous  writes to anonymous memory
 *   minor_file       reads a shared mapping of a file of FOLDER that is in the page
 *                    cache; its pages lie 64 KiB apart, with holes between them
 *   copy_on_write    writes to a private mapping of such a file, whose pages were
 *                    read before
 *
 * Prints the median nanoseconds of a touch. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "peer.h"

enum { PAGES = 1024, TIMED = 512, FILE_STRIDE = 64 << 10 };

static void write_pages(volatile char *memory, size_t stride, size_t from, size_t to)
{
    for (size_t page = from; page < to; page++)
        memory[page * stride] = 1;
}

static unsigned read_pages(const volatile char *memory, size_t stride, size_t from, size_t to)
{
    unsigned sum = 0;
    for (size_t page = from; page < to; page++)
        sum += memory[page * stride];
    return sum;
}

static int file_with_holes(const char *folder, size_t page_bytes)
{
    const int file = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (file < 0)
        fail("cannot make a file");
    char *page = malloc(page_bytes);
    if (!page)
        fail("cannot allocate a page");
    memset(page, 7, page_bytes);
    for (off_t i = 0; i < PAGES; i++)
        if (pwrite(file, page, page_bytes, i * FILE_STRIDE) != (ssize_t)page_bytes)
            fail("cannot write the file");
    free(page);
    if (fsync(file))
        fail("cannot write the file to its device");
    return file;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: page_fault KIND FOLDER BATCHES\n");
        return 2;
    }
    const int of_file = !strcmp(argv[1], "minor_file");
    const int copies = !strcmp(argv[1], "copy_on_write");
    const size_t batches = strtoull(argv[3], NULL, 10);
    if (batches < 10 || !(of_file || copies || !strcmp(argv[1], "minor_anonymous"))) {
        fprintf(stderr, "page_fault: needs a kind that it knows, and 10 batches or more\n");
        return 2;
    }
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t stride = of_file || copies ? FILE_STRIDE : page_bytes;
    const size_t bytes = (PAGES - 1) * stride + page_bytes;
    const int file = of_file || copies ? file_with_holes(argv[2], page_bytes) : -1;
    const int flags = of_file ? MAP_SHARED : copies ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
    const int access = of_file ? PROT_READ : PROT_READ | PROT_WRITE;
    double *times_ns = room_for(batches);
    for (size_t i = 0; i < batches; i++) {
        char *memory = mmap(NULL, bytes, access, flags, file, 0);
        if (memory == MAP_FAILED)
            fail("cannot map memory");
        /* A kernel without huge pages answers EINVAL, and has none. */
        madvise(memory, bytes, file < 0 ? MADV_NOHUGEPAGE : MADV_RANDOM);
        if (copies)
            read_pages(memory, stride, 0, PAGES);
        double started;
        if (of_file) {
            read_pages(memory, stride, 0, PAGES - TIMED);
            started = now_ns();
            read_pages(memory, stride, PAGES - TIMED, PAGES);
        } else {
            write_pages(memory, stride, 0, PAGES - TIMED);
            started = now_ns();
            write_pages(memory, stride, PAGES - TIMED, PAGES);
        }
        times_ns[i] = (now_ns() - started) / TIMED;
        munmap(memory, bytes);
    }
    printf("%.1f ns per fault\n", median(times_ns, batches));
    return 0;
}
