#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *message;
/* The compiler must not know that nobody reads it. */
volatile uint64_t fnv_result;

void fnv_setup(uint64_t size) {
    message = malloc(size);
    if (!message)
        abort();
    memset(message, 'a', size);
}

void fnv(uint64_t n, uint64_t size) {
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = 0xcbf29ce484222325;
        for (uint64_t at = 0; at < size; at++)
            hash = (hash ^ message[at]) * 0x100000001b3;
        fnv_result = hash;
    }
}

void fnv_teardown(uint64_t size) {
    (void)size;
    free(message);
}
