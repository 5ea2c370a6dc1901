// Google Benchmark with the gauge: each iteration is a batch of some 50 microseconds that is repeated until
// the core was alone before and after it. The gauge decides before the time is looked at.
//
//     c++ -std=c++14 -O2 -I ../../include alone.cc -lbenchmark -lpthread -o alone && taskset -c 0 ./alone
//
// The counters say what came of it: `alone` and `shared` are shares of all batches, `not_alone` is in how many
// reported iterations the core was not alone.
#include "costof_gauge.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace {

// The lowest floor of a third of a second: a neighbour is rarely there all the time.
costof_gauge calibrated() {
    costof_gauge gauge = costof_gauge_with_floor(0.0);
    for (int i = 0; i < 80; ++i) {
        costof_gauge now;
        if (costof_gauge_calibrate(&now) && (gauge.floor == 0.0 || now.floor < gauge.floor)) {
            gauge = now;
        }
    }
    return gauge;
}

// Calls `operation` `calls` times in each iteration. The benchmark needs `UseManualTime()`.
template <class Operation>
void alone(benchmark::State &state, int calls, Operation operation) {
    static const costof_gauge gauge = calibrated();
    if (gauge.floor == 0.0) {
        state.SkipWithError("this core has no floor");
        return;
    }
    double by_state[3] = {0, 0, 0}, not_alone = 0;
    for (auto _ : state) {
        std::chrono::duration<double> took{};
        costof_state stamp = COSTOF_MIXED;
        for (int tries = 0; stamp != COSTOF_ALONE && tries < 100; ++tries) {
            double before = costof_gauge_read(&gauge);
            auto start = std::chrono::steady_clock::now();
            for (int call = 0; call < calls; ++call) {
                operation();
            }
            took = std::chrono::steady_clock::now() - start;
            stamp = costof_gauge_state(&gauge, before, costof_gauge_read(&gauge));
            ++by_state[stamp];
        }
        not_alone += stamp != COSTOF_ALONE;
        state.SetIterationTime(took.count() / calls);
    }
    double all = by_state[COSTOF_ALONE] + by_state[COSTOF_SHARED] + by_state[COSTOF_MIXED];
    state.counters["alone"] = by_state[COSTOF_ALONE] / all;
    state.counters["shared"] = by_state[COSTOF_SHARED] / all;
    state.counters["not_alone"] = not_alone;
}

void sort_numbers(benchmark::State &state) {
    std::vector<int> numbers(256);
    alone(state, 10, [&] {
        for (int i = 0; i < 256; ++i) {
            numbers[i] = i * 19 % 256;
        }
        std::sort(numbers.begin(), numbers.end());
        benchmark::DoNotOptimize(numbers.data());
        benchmark::ClobberMemory();
    });
}
// Manual time is that of one call, so a number of iterations is better than a least time.
BENCHMARK(sort_numbers)->UseManualTime()->Iterations(2000);

} // namespace

BENCHMARK_MAIN();
