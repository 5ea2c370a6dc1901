"""taskset -c 0 python3 -m pytest -s test_sum.py"""


def test_sum(stamped, benchmark):
    assert stamped(lambda: sum(range(3000))) == 4498500
    info = benchmark.extra_info
    print("\nrounds alone {alone}, shared {shared}, mixed {mixed}".format(**info))
    all_rounds = benchmark.stats.stats.median
    print(f"as it ran: {all_rounds * 1e6:.1f} us; with the core alone: "
          + ("no round" if info["median_alone"] is None else f"{info['median_alone'] * 1e6:.1f} us"))
