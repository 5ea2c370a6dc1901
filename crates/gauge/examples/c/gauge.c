/* The gauge as a shared library, for languages that can call one:
 *
 *     cc -O2 -shared -fPIC -I ../../include gauge.c -o libgauge.so
 */
#include "costof_gauge.h"

#ifdef __cplusplus
#define EXPORT extern "C"
#else
#define EXPORT extern
#endif

static costof_gauge gauge;

EXPORT double gauge_calibrate(void);
EXPORT void gauge_set_floor(double floor);
EXPORT double gauge_read(void);
EXPORT double gauge_read_with_clock(double *ticks_per_cycle);
EXPORT double gauge_this_design(void);
EXPORT int gauge_state(double before, double after);
EXPORT double gauge_plateau(double *readings, size_t count);
EXPORT double gauge_lower_floor(double *readings, size_t count);
EXPORT double gauge_design_floor(const char *vendor, unsigned family, unsigned model, int has_amx);

/* The floor, or 0 if there is none. Call it, or gauge_set_floor, before the others. */
double gauge_calibrate(void) {
    costof_gauge_calibrate(&gauge);
    return gauge.floor;
}

void gauge_set_floor(double floor) {
    gauge = costof_gauge_with_floor(floor);
}

double gauge_read(void) {
    return costof_gauge_read(&gauge);
}

double gauge_read_with_clock(double *ticks_per_cycle) {
    return costof_gauge_read_with_clock(&gauge, ticks_per_cycle);
}

/* The floor of this core's design, or 0. */
double gauge_this_design(void) {
    return costof_gauge_this_design();
}

/* 0 alone, 1 shared, 2 mixed. */
int gauge_state(double before, double after) {
    return costof_gauge_state(&gauge, before, after);
}

double gauge_plateau(double *readings, size_t count) {
    return costof_gauge_plateau(readings, count);
}

/* The floor after that. */
double gauge_lower_floor(double *readings, size_t count) {
    costof_gauge_lower_floor(&gauge, readings, count);
    return gauge.floor;
}

double gauge_design_floor(const char *vendor, unsigned family, unsigned model, int has_amx) {
    return costof_gauge_design_floor(vendor, family, model, has_amx);
}
