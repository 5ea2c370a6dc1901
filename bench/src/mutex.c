/* What a lock costs that nobody else wants: the peer that costof's sync.mutex is
 * held against, written without looking at how it measures.
 *
 *   mutex BATCHES
 *
 * locks a pthread mutex with default attributes, adds one to a counter in memory
 * and unlocks it again, in batches of 10,000 after 100 that are not counted.
 * Prints the nanoseconds of one lock, count and unlock in the median batch.
 *
 * A second thread is there and sleeps, since the C library leaves out the atomic
 * instruction in a process that has one thread, which is no use of a lock. */
#include <pthread.h>

#include "peer.h"

enum { BATCH = 10000, SETTLING = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Volatile, so that each addition is made under its own lock. */
static volatile unsigned long counter;

static double batch_ns(void)
{
    const double started = now_ns();
    for (int i = 0; i < BATCH; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return now_ns() - started;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: mutex BATCHES\n");
        return 2;
    }
    const size_t batches = strtoull(argv[1], NULL, 10);
    if (batches < 1) {
        fprintf(stderr, "mutex: needs a batch or more\n");
        return 2;
    }
    start_sleeper();
    double *times_ns = room_for(batches);
    for (int i = 0; i < SETTLING; i++)
        batch_ns();
    for (size_t i = 0; i < batches; i++)
        times_ns[i] = batch_ns();
    if (counter != (batches + SETTLING) * BATCH) {
        fprintf(stderr, "mutex: counted %lu\n", counter);
        return 1;
    }
    printf("%.4f ns per lock\n", median(times_ns, batches) / BATCH);
    return 0;
}
