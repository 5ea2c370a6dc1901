"""A fixture of pytest-benchmark whose rounds are stamped alone, shared or mixed."""

import statistics

import pytest

from gauge import STATES, Gauge


@pytest.fixture(scope="session")
def gauge(tmp_path_factory):
    return Gauge(tmp_path_factory.mktemp("gauge"))


@pytest.fixture
def stamped(benchmark, gauge):
    """Runs a function of 10 to 200 microseconds in rounds. What the gauge saw is in `extra_info`, beside the
    statistics of all rounds in --benchmark-json: the number of rounds in each state, and the median of those alone.
    """

    def run(function, rounds=2000):
        readings = []

        def read():  # Before each round, untimed; the reading after a round is the one before the next.
            readings.append(gauge.read())

        result = benchmark.pedantic(function, setup=read, rounds=rounds, iterations=1)
        if benchmark.stats is None:  # --benchmark-disable
            return result
        read()
        gauge.lower_floor(readings)
        times = benchmark.stats.stats.data
        states = [gauge.state(*around) for around in zip(readings[-len(times) - 1:], readings[-len(times):])]
        alone = [time for time, state in zip(times, states) if state == "alone"]
        benchmark.extra_info.update({state: states.count(state) for state in STATES})
        benchmark.extra_info["median_alone"] = statistics.median(alone) if alone else None
        return result

    return run
