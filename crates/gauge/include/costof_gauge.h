/* costof_gauge.h: was the core shared while I measured?
 *
 * What runs on a core's other hardware thread, in another process or in another virtual machine of
 * the same host, takes a third and more of the core's speed, and no counter of the guest shows it.
 * A reading of this gauge does, in two microseconds, without privilege. Read it before and after
 * what you time, and decide by the two readings alone whether the sample counts:
 *
 *     costof_gauge gauge;
 *     if (!costof_gauge_calibrate(&gauge)) { ... measure without stamps ... }
 *     double before = costof_gauge_read(&gauge);
 *     ... time 10 to 200 microseconds of work ...
 *     if (costof_gauge_state(&gauge, before, costof_gauge_read(&gauge)) == COSTOF_ALONE) ...
 *
 * Header only; C99 or C++ by GCC or Clang, for x86-64 and aarch64. It is the crate costof-gauge with
 * the same loops, constants and decisions; the crate's documentation has the method, its limits and
 * its sources. No reading makes a system call or touches memory beyond its stack frame; calibrate,
 * plateau and lower_floor sort by qsort, which may allocate. All readings and floors are core cycles per addition.
 */
#ifndef COSTOF_GAUGE_H
#define COSTOF_GAUGE_H

#if !defined(__GNUC__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "costof_gauge.h needs GCC or Clang, on x86-64 or aarch64"
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* The core was alone if both readings are at most this many times the floor. */
#define COSTOF_GAUGE_ALONE 1.05
/* It was shared if both are at least this many times the floor. */
#define COSTOF_GAUGE_SHARED 1.3
/* A reading below this many times the floor was interrupted, and says nothing. */
#define COSTOF_GAUGE_BROKEN 0.9
/* How many readings a calibration takes: some 4 milliseconds. */
#define COSTOF_GAUGE_CALIBRATION 2000

/* Whether something else used the core between two readings. */
typedef enum {
    COSTOF_ALONE,  /* Nothing did, before or after. */
    COSTOF_SHARED, /* Something did, before and after. */
    COSTOF_MIXED   /* Something started, stopped, or used little of it; or a reading was interrupted. */
} costof_state;

/* A gauge with a known floor. */
typedef struct {
    uint64_t multiplications; /* in a reading's first loop */
    double floor;             /* a reading while the core is alone */
} costof_gauge;

static inline uint64_t costof_gauge_start_ticks(void) {
#ifdef __x86_64__
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#else
    uint64_t ticks;
    __asm__ __volatile__("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#endif
}

static inline uint64_t costof_gauge_end_ticks(void) {
#ifdef __x86_64__
    uint32_t low, high;
    __asm__ __volatile__("rdtscp\n\tlfence" : "=a"(low), "=d"(high) : : "rcx", "memory");
    return (uint64_t)high << 32 | low;
#else
    uint64_t ticks;
    __asm__ __volatile__("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
#endif
}

/* Multiplies n times, each result feeding the next, 32 times a pass. Returns the last product. */
static inline uint64_t costof_gauge_multiply(uint64_t n) {
    uint32_t product = 0x9e3779b9u;
    const uint32_t factor = 0x2c9277b5u;
    uint64_t passes = n / 32, rest = n % 32;
    if (passes > 0) {
        __asm__ __volatile__(
            ".p2align 6\n"
            "2:\n\t"
#ifdef __x86_64__
            ".rept 32\n\timull %[factor], %[product]\n\t.endr\n\t"
            "subq $1, %[passes]\n\tjnz 2b"
#else
            ".rept 32\n\tmul %w[product], %w[product], %w[factor]\n\t.endr\n\t"
            "subs %[passes], %[passes], #1\n\tb.ne 2b"
#endif
            : [product] "+r"(product), [passes] "+r"(passes)
            : [factor] "r"(factor)
            : "cc");
    }
    while (rest-- > 0) {
        product *= factor;
    }
    return product;
}

/* Adds one to each of six registers in turn: n additions, rounded up to a multiple of six. Returns
 * their sum. */
static inline uint64_t costof_gauge_add(uint64_t n) {
    uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
    uint64_t passes = n / 6 + (n % 6 > 0 || n == 0);
    __asm__ __volatile__(
        ".p2align 6\n"
        "2:\n\t"
#ifdef __x86_64__
        "addq $1, %[a]\n\taddq $1, %[b]\n\taddq $1, %[c]\n\t"
        "addq $1, %[d]\n\taddq $1, %[e]\n\taddq $1, %[f]\n\t"
        "decq %[passes]\n\tjnz 2b"
#else
        "add %[a], %[a], #1\n\tadd %[b], %[b], #1\n\tadd %[c], %[c], #1\n\t"
        "add %[d], %[d], #1\n\tadd %[e], %[e], #1\n\tadd %[f], %[f], #1\n\t"
        "subs %[passes], %[passes], #1\n\tb.ne 2b"
#endif
        : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [e] "+r"(e), [f] "+r"(f),
          [passes] "+r"(passes)
        :
        : "cc");
    return a + b + c + d + e + f;
}

static inline double costof_gauge_ticks_of(uint64_t (*loop)(uint64_t), uint64_t n) {
    uint64_t start = costof_gauge_start_ticks();
    volatile uint64_t result = loop(n);
    uint64_t end = costof_gauge_end_ticks();
    (void)result;
    return end > start ? (double)(end - start) : 0.0;
}

/* Core cycles per addition now, and the core's clock: how many ticks a core cycle took. It takes about
 * two microseconds, in registers. What was timed in ticks has that many times fewer core cycles. On
 * aarch64 a multiplication is taken to last 2 cycles; on Cortex-A72 and Apple cores it lasts 3, and
 * cycles are then 1.5 times too many. Ratios hold. */
static inline double costof_gauge_read_with_clock(const costof_gauge *gauge, double *ticks_per_cycle) {
#ifdef __x86_64__
    const double multiply_cycles = 3.0;
#else
    const double multiply_cycles = 2.0;
#endif
    uint64_t multiplications = gauge->multiplications, additions = multiplications * 10;
    /* Right after the kernel ran, a reading would be a few per cent too high. */
    costof_gauge_multiply(multiplications / 8);
    costof_gauge_add(additions / 8);
    *ticks_per_cycle = costof_gauge_ticks_of(costof_gauge_multiply, multiplications) /
                       (double)multiplications / multiply_cycles;
    return costof_gauge_ticks_of(costof_gauge_add, additions) / (double)additions / *ticks_per_cycle;
}

/* Core cycles per addition now. */
static inline double costof_gauge_read(const costof_gauge *gauge) {
    double ticks_per_cycle;
    return costof_gauge_read_with_clock(gauge, &ticks_per_cycle);
}

static inline int costof_gauge_order(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The lowest value on which many readings agree (one in 50, at least 8, within 2 %); 0 if they are
 * scattered. Sorts the readings, which must be numbers. */
static inline double costof_gauge_plateau(double *readings, size_t count) {
    size_t first = 0, wanted;
    if (count > 0) {
        qsort(readings, count, sizeof *readings, costof_gauge_order);
    }
    while (first < count && readings[first] <= 0.0) {
        ++first;
    }
    wanted = (size_t)((double)(count - first) * 0.02);
    wanted = wanted < 8 ? 8 : wanted;
    for (; first + wanted <= count; ++first) {
        if (readings[first + wanted - 1] <= readings[first] * 1.02) {
            return readings[first + wanted / 2];
        }
    }
    return 0.0;
}

/* A reading on a core of this design while it is alone, by the vendor, family and model of CPUID and
 * whether it has AMX; 0 for a design that is not in the table. The crate's design_floor has the sources. */
static inline double costof_gauge_design_floor(const char *vendor, unsigned family, unsigned model, int has_amx) {
    const double operations = 7.0 / 6.0, sapphire_rapids = 0.205;
    if (strcmp(vendor, "AuthenticAMD") == 0) {
        return family == 0x17 || family == 0x19 ? operations / 4.0 : family == 0x1a ? operations / 6.0 : 0.0;
    }
    if (strcmp(vendor, "GenuineIntel") == 0 && family == 6) {
        switch (model) {
        case 0x8f: case 0xcf:
            return sapphire_rapids;
        case 0x3f: case 0x4f: case 0x55: case 0x6a: case 0x6c: case 0x3c: case 0x45: case 0x46: case 0x3d:
        case 0x47: case 0x4e: case 0x5e: case 0x8e: case 0x9e: case 0xa5: case 0xa6: case 0x7d: case 0x7e:
        case 0x8c: case 0x8d: case 0xa7:
            return has_amx ? sapphire_rapids : operations / 4.0;
        default:
            return 0.0;
        }
    }
    return 0.0;
}

static inline double costof_gauge_this_design(void) {
#ifdef __x86_64__
    unsigned a, b, c, d, base, signature;
    char vendor[13] = {0};
    if (!__get_cpuid(0, &a, &b, &c, &d)) {
        return 0.0;
    }
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    if (!__get_cpuid(1, &signature, &b, &c, &d)) {
        return 0.0;
    }
    base = signature >> 8 & 0xf;
    return costof_gauge_design_floor(vendor, base == 0xf ? base + (signature >> 20 & 0xff) : base,
                                     (signature >> 12 & 0xf0) | (signature >> 4 & 0xf),
                                     __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1));
#else
    return 0.0;
#endif
}

/* A gauge with a floor that is known: of an earlier calibration, another process, or a file. */
static inline costof_gauge costof_gauge_with_floor(double floor) {
    costof_gauge gauge;
    double step = 0.0, each;
    int i;
    for (i = 0; i < 1000; ++i) {
        uint64_t first = costof_gauge_end_ticks();
        double ticks = (double)(costof_gauge_end_ticks() - first);
        if (ticks > 0.0 && (step == 0.0 || ticks < step)) {
            step = ticks;
        }
    }
    /* The shortest of five: others may be interrupted. */
    each = costof_gauge_ticks_of(costof_gauge_multiply, 10000);
    for (i = 0; i < 4; ++i) {
        double again = costof_gauge_ticks_of(costof_gauge_multiply, 10000);
        each = again < each ? again : each;
    }
    each = (each < 1.0 ? 1.0 : each) / 10000.0;
    /* Fifty steps of the counter, and no remainder of a pass, which would be slow. */
    gauge.multiplications = (uint64_t)(50.0 * (step > 0.0 ? step : 1.0) / each);
    gauge.multiplications = gauge.multiplications < 250 ? 250 : gauge.multiplications;
    gauge.multiplications = (gauge.multiplications + 31) / 32 * 32;
    gauge.floor = floor;
    return gauge;
}

/* The floor, from the plateau that was seen and the value of the design; 0 if there is neither. */
static inline double costof_gauge_choose(double seen, double design) {
    int agrees = design == 0.0 || (seen >= design / COSTOF_GAUGE_ALONE && seen <= design * COSTOF_GAUGE_ALONE);
    return seen > 0.0 && agrees ? seen : design;
}

/* Finds the floor of the core that the calling thread is on: the plateau of 2,000 readings; 16 KiB of
 * stack. If the floor of the core's design is known and contradicts it, the core was never alone, and
 * the design's floor counts. Returns 0 if there is neither. */
static inline int costof_gauge_calibrate(costof_gauge *gauge) {
    double readings[COSTOF_GAUGE_CALIBRATION];
    size_t i;
    *gauge = costof_gauge_with_floor(0.0);
    for (i = 0; i < COSTOF_GAUGE_CALIBRATION; ++i) {
        readings[i] = costof_gauge_read(gauge);
    }
    gauge->floor = costof_gauge_choose(costof_gauge_plateau(readings, COSTOF_GAUGE_CALIBRATION),
                                       costof_gauge_this_design());
    return gauge->floor > 0.0;
}

/* Lowers the floor to what these readings agree on, if that is lower: then the core was never alone
 * while the gauge was calibrated. Keep the readings of your samples, call this, and decide then which
 * samples were alone. Sorts the readings. */
static inline void costof_gauge_lower_floor(costof_gauge *gauge, double *readings, size_t count) {
    double floor = costof_gauge_choose(costof_gauge_plateau(readings, count), costof_gauge_this_design());
    if (floor > 0.0 && (floor < gauge->floor || gauge->floor == 0.0)) {
        gauge->floor = floor;
    }
}

/* The state of the core between two readings; mixed if the floor is not known. For several cores, a reading is the highest of theirs. */
static inline costof_state costof_gauge_state(const costof_gauge *gauge, double before, double after) {
    double first = before / gauge->floor, last = after / gauge->floor;
    if (!(gauge->floor > 0.0)) {
        return COSTOF_MIXED;
    }
    if (first >= COSTOF_GAUGE_BROKEN && first <= COSTOF_GAUGE_ALONE && last >= COSTOF_GAUGE_BROKEN &&
        last <= COSTOF_GAUGE_ALONE) {
        return COSTOF_ALONE;
    }
    return first >= COSTOF_GAUGE_SHARED && last >= COSTOF_GAUGE_SHARED ? COSTOF_SHARED : COSTOF_MIXED;
}

/* "alone", "shared" or "mixed". */
static inline const char *costof_state_name(costof_state state) {
    return state == COSTOF_ALONE ? "alone" : state == COSTOF_SHARED ? "shared" : "mixed";
}

#endif
