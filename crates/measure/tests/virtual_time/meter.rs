//! Batches, warm-up, the doubling proof and planted costs.

use crate::clock::{READ_NS, VirtualClock};
use crate::neighbour::simulation::{info, launch_row, point};
use costof_measure::clock::Clock;
use costof_measure::estimate;
use costof_measure::gauge::{Gauge, Reading, without_clock};
use costof_measure::meter::Meter;
use costof_model::failure::Failure;
use costof_model::metric::{CoreState, Data, Measured, Selection};
use costof_model::noise::{CoreGauge, Grade, Noise, Warning};
use costof_model::protocol::Report;
use costof_model::rows::{LaunchRow, PointRow, State};
use costof_model::unit::Unit;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const TIME_NS: f64 = 30e6;

fn samples(report: &Report) -> &[(u64, f64)] {
    match &report.metrics[0].data {
        Data::Samples(samples) => samples,
        other => panic!("no samples: {other:?}"),
    }
}

/// Six launches of one metric, estimated as a run would.
pub(crate) fn point_of(launches: Vec<Report>) -> Result<PointRow, Failure> {
    point_amid(&Noise::default(), launches)
}

/// The same amid such noise.
fn point_amid(noise: &Noise, launches: Vec<Report>) -> Result<PointRow, Failure> {
    let launches = launches.into_iter();
    point_of_launches(launches.map(|report| (noise.clone(), report)).collect())
}

/// The same amid the noise of each.
fn point_of_launches(launches: Vec<(Noise, Report)>) -> Result<PointRow, Failure> {
    let launches = (0..).zip(launches);
    let rows: Vec<LaunchRow> = launches
        .map(|(launch, (noise, report))| LaunchRow { noise, ..launch_row(0, launch, report) })
        .collect();
    let rows: Vec<&LaunchRow> = rows.iter().collect();
    let (info, point) = (info(0), point(0));
    estimate::point(&info, &point, None, &rows, None, &VirtualClock::info())
}

/// Six launches of what this does with its seed, each on a clock of its own.
fn six(time_ns: f64, measure: impl Fn(u64, &VirtualClock, &mut Meter<'_>)) -> Vec<Report> {
    let launch = |seed| {
        let clock = VirtualClock::new(seed);
        clock.meter(time_ns, |meter| measure(seed, &clock, meter))
    };
    (0..6).map(launch).collect()
}

/// Six launches of an operation that takes `cost_ns`, differing by 1 % between
/// launches and by 2 % between batches.
fn launches_of(cost_ns: f64) -> Vec<Report> {
    six(TIME_NS, |seed, clock, meter| {
        let launch_ns = cost_ns * (1.0 + 0.01 * (seed as f64 - 2.5) / 2.5);
        meter.repeatable("cost", |n| clock.pass_about(launch_ns * n as f64, 0.02));
    })
}

/// One launch of an operation, where `ns` gives the time of this many repetitions.
fn launch_of(mut ns: impl FnMut(u64) -> f64) -> Report {
    let clock = VirtualClock::new(1);
    clock.meter(TIME_NS, |meter| meter.repeatable("cost", |n| clock.pass(ns(n))))
}

/// What one operation of each batch cost.
fn costs(report: &Report) -> impl Iterator<Item = f64> {
    samples(report).iter().map(|(n, ns)| ns / *n as f64)
}

fn warning<'r>(row: &'r PointRow, kind: &str) -> &'r Warning {
    let mut warnings = row.warnings.iter();
    warnings.find(|warning| warning.kind == kind).expect("it is named")
}

#[test]
fn a_planted_cost_of_5_ns_reads_5_ns() {
    let row = point_of(launches_of(5.0)).expect("a point");
    let cost = row.primary().expect("a cost");
    assert!((4.5..5.5).contains(&cost.median), "{}", cost.median);
    let (low, high) = cost.ci95.expect("six launches have an interval");
    assert!(low <= 5.0 && 5.0 <= high, "{low} to {high}");
    assert!(cost.modes.is_empty(), "one mode, not {:?}", cost.modes);
}

#[test]
fn measurements_that_take_turns_share_the_time_and_add_up() {
    let clock = VirtualClock::new(1);
    clock.meter(TIME_NS, |meter| {
        assert_eq!(meter.cost_ns("cheap"), None);
        let began = clock.start();
        for _ in 0..2 {
            for (metric, cost_ns) in [("cheap", 5.0), ("expensive", 50.0)] {
                let pass = |n| clock.pass(cost_ns * n as f64);
                meter.share(4).repeatable(metric, pass);
            }
        }
        // With warming up, which takes half of it at most.
        let took_ns = clock.ns(clock.end() - began);
        assert!((TIME_NS..1.7 * TIME_NS).contains(&took_ns), "{took_ns} ns");
        let cheap = meter.cost_ns("cheap").expect("its batches");
        let expensive = meter.cost_ns("expensive").expect("its batches");
        assert!((4.9..5.1).contains(&cheap), "{cheap} ns");
        assert!((49.0..51.0).contains(&expensive), "{expensive} ns");
    });
}

#[test]
fn what_takes_longer_than_a_point_has_time_for_is_given_more() {
    for (least_ns, rounds) in [(0.0, 1), (TIME_NS, 1), (100.0 * TIME_NS, 10)] {
        let clock = VirtualClock::new(1);
        let mut done = 0;
        clock.meter(TIME_NS, |meter| {
            let mut meter = meter.lasting(least_ns);
            let round = meter.repeat(u64::MAX, |_| {
                done += 1;
                clock.pass(10.0 * TIME_NS);
                Ok(())
            });
            round.expect("no round fails");
        });
        assert_eq!(done, rounds, "{least_ns} ns");
    }
}

#[test]
fn batches_are_long_enough_for_the_clock_whatever_an_operation_costs() {
    for cost_ns in [0.25, 5.0, 111.0, 3_000.0, 2e6, 50e6] {
        let report = launch_of(|n| cost_ns * n as f64);
        assert_eq!(report.state, State::Ok, "{cost_ns} ns");
        let samples = samples(&report);
        let long = samples.iter().all(|(_, ns)| *ns >= 1000.0 * READ_NS);
        assert!(long, "{cost_ns} ns: {samples:?}");
        for cost in costs(&report) {
            let off = (cost / cost_ns - 1.0).abs();
            assert!(off < 0.002, "{cost_ns} ns reads {cost}");
        }
        assert!(samples.len() >= 6, "{cost_ns} ns: {} batches", samples.len());
        let once = samples[0].0;
        let doubled = samples.iter().any(|(n, _)| *n == 2 * once);
        assert!(doubled, "{cost_ns} ns: never doubled");
    }
}

#[test]
fn an_interruption_while_a_batch_is_sized_does_not_shorten_batches() {
    let mut calls = 0;
    let report = launch_of(|n| {
        calls += 1;
        let interruption_ns = if calls == 3 { 4e6 } else { 0.0 };
        n as f64 + interruption_ns
    });
    for (n, ns) in samples(&report) {
        assert!(*ns >= 1000.0 * READ_NS, "a batch of {n} in {ns} ns");
    }
}

#[test]
fn the_operation_settles_before_each_timed_batch() {
    let mut calls = Vec::new();
    let report = launch_of(|n| {
        calls.push(n);
        n as f64
    });
    let (n, _) = *samples(&report).last().expect("batches");
    assert!(calls.ends_with(&[n / 64, n / 64, n / 64, n / 64, n]));
}

#[test]
fn a_point_takes_the_time_that_it_is_given() {
    let mut total = 0.0;
    let report = launch_of(|n| {
        total += 100.0 * n as f64;
        100.0 * n as f64
    });
    let measured: f64 = samples(&report).iter().map(|(_, ns)| ns).sum();
    assert!((TIME_NS..1.1 * TIME_NS).contains(&measured), "{measured}");
    let before = total - measured;
    assert!(total < 2.0 * TIME_NS, "sizing and warm-up took {before}");
}

#[test]
fn what_is_slow_at_first_is_warmed_up_before_it_is_measured() {
    let mut done = 0_u64;
    let report = launch_of(|n| {
        // Three times as expensive at first, settling within 5 ms of work.
        let cost_ns = 100.0 * (1.0 + 2.0 * (-(done as f64) / 10_000.0).exp());
        done += n;
        cost_ns * n as f64
    });
    for cost in costs(&report) {
        assert!(cost < 103.0, "{cost} ns was measured while it still warmed up");
    }
}

#[test]
fn where_others_work_too_long_a_batch_is_no_proof_against_a_cost() {
    // What takes twice as long is interrupted four times as long.
    let grows = || {
        six(TIME_NS, |_, clock, meter| {
            meter.repeatable("cost", |n| clock.pass(100.0 * (n * n) as f64));
        })
    };
    let error = point_of(grows()).unwrap_err();
    assert!(error.reason.contains("twice the work took"), "{error}");
    let busy = Noise { duration_ns: TIME_NS, others_ns: Some(0.5 * TIME_NS), ..Noise::default() };
    let row = point_amid(&busy, grows()).expect("a number, however doubtful");
    assert_eq!((row.state, row.grade), (State::Ok, Grade::D));
}

#[test]
fn a_loop_that_the_optimiser_removed_gives_no_number() {
    // However many times it is asked to, it takes the time of one call.
    let removed =
        |ns: f64| six(TIME_NS, |_, clock, meter| meter.repeatable("cost", |_| clock.pass(ns)));
    let row = point_of(removed(2.0)).expect("a point without a number");
    assert_eq!(row.state, State::BelowResolution);
    assert!(row.metrics.is_empty(), "{:?}", row.metrics);
    // Long enough to be timed, but not growing with the work.
    let error = point_of(removed(2e6)).unwrap_err();
    let named = error.reason.contains("took 1.00 times");
    assert!(named, "{error}");
}

#[test]
fn a_lap_of_which_a_part_is_cached_is_timed_as_a_whole() {
    const LAP: u64 = 1000;
    // A third of the lap costs 1 ns an element, the rest 100 ns.
    let ns_before = |at: u64| {
        let (laps, rest) = (at / LAP, at % LAP);
        let cheap = |elements: u64| elements.min(LAP / 3);
        let of = |elements: u64| (cheap(elements) + 100 * (elements - cheap(elements))) as f64;
        laps as f64 * of(LAP) + of(rest)
    };
    let lap_ns = ns_before(LAP) / LAP as f64;
    let report = six(TIME_NS, |seed, clock, meter| {
        let mut at = 17 * seed;
        meter.batches_are_multiples_of(LAP);
        meter.repeatable("cost", |n| {
            clock.pass(ns_before(at + n) - ns_before(at));
            at += n;
        });
    });
    for report in &report {
        for (count, ns) in samples(report) {
            assert!(count.is_multiple_of(LAP), "{count}");
            let each = ns / *count as f64;
            assert!((each / lap_ns - 1.0).abs() < 0.02, "{each} instead of {lap_ns}");
        }
    }
    point_of(report).expect("a number");
}

#[test]
fn a_ratio_other_than_two_is_explained_by_what_it_shows() {
    let reason = |cost: fn(f64) -> f64| {
        let launches = six(TIME_NS, |_, clock, meter| {
            meter.repeatable("cost", |n| clock.pass(cost(n as f64)));
        });
        point_of(launches).unwrap_err().reason
    };
    for (cost, says) in [
        ((|_| 2e6) as fn(f64) -> f64, "does not depend"),
        (|n| 1e6 * n.powf(0.8), "costs less"),
        (|n| 100.0 * n * n, "costs more"),
    ] {
        let reason = reason(cost);
        assert!(reason.contains(says), "{reason}");
        assert!(!reason.contains("compiler"), "{reason}");
    }
}

#[test]
fn what_is_used_up_is_prepared_untimed_and_in_time() {
    let clock = VirtualClock::new(1);
    let (ready, largest) = (Cell::new(0), Cell::new(0));
    let report = clock.meter(TIME_NS, |meter| {
        let prepare = |n| {
            clock.pass(10_000.0 * n as f64);
            ready.set(n);
            largest.set(largest.get().max(n));
            Ok(())
        };
        let measured = meter.used_up("cost", 500, prepare, |n| {
            assert_eq!(ready.replace(0), n, "used without being prepared");
            clock.pass(700.0 * n as f64);
        });
        measured.expect("prepared");
    });
    assert!(largest.get() <= 500, "{} do not fit", largest.get());
    assert!(costs(&report).all(|cost| (cost / 700.0 - 1.0).abs() < 0.01));
}

#[test]
fn two_modes_are_shown_as_two_and_one_as_one() {
    let rtt = |idle_share: f64| {
        six(TIME_NS, |seed, clock, meter| {
            let mut random = fastrand::Rng::with_seed(seed);
            meter.single("cost", || {
                let is_idle = random.f64() < idle_share;
                clock.pass_about(if is_idle { 58_000.0 } else { 14_500.0 }, 0.04);
            });
        })
    };
    let two = point_of(rtt(0.3)).expect("a point");
    let modes = &two.primary().expect("a latency").modes;
    assert_eq!(modes.len(), 2, "{modes:?}");
    assert!((modes[0].median / 14_500.0 - 1.0).abs() < 0.05, "{modes:?}");
    assert!((modes[1].median / 58_000.0 - 1.0).abs() < 0.05, "{modes:?}");
    assert!((modes[1].share - 0.3).abs() < 0.05, "{modes:?}");
    let one = point_of(rtt(0.0)).expect("a point");
    assert!(one.primary().expect("a latency").modes.is_empty());
}

#[test]
fn two_stages_are_stamped_on_the_same_operations() {
    let clock = VirtualClock::new(1);
    let begun = Cell::new(0_u64);
    let report = clock.meter(TIME_NS, |meter| {
        meter.stages(
            "call",
            "latency",
            || {
                begun.set(begun.get() + 1);
                clock.pass_about(40_000.0, 0.02);
                begun.get()
            },
            |operation| {
                assert_eq!(operation, begun.get(), "another operation was ended");
                clock.pass_about(80_000.0, 0.02);
            },
        );
    });
    let counted = |name: &str| -> Vec<(f64, u64)> {
        let metric = report.metrics.iter().find(|metric| metric.name == name);
        metric.expect("both are reported").data.counted()
    };
    let [call, latency] = &["call", "latency"].map(counted);
    let count = |buckets: &[(f64, u64)]| -> u64 { buckets.iter().map(|(_, n)| n).sum() };
    let mean = |buckets: &[(f64, u64)]| -> f64 {
        let sum: f64 = buckets.iter().map(|(ns, n)| ns * *n as f64).sum();
        sum / count(buckets) as f64
    };
    assert_eq!(count(call), count(latency));
    assert!((240..=260).contains(&count(call)), "{}", count(call));
    assert!(begun.get() > count(call), "nothing was warmed up");
    assert!((mean(call) / 40_000.0 - 1.0).abs() < 0.01, "{}", mean(call));
    let both = mean(latency);
    assert!((both / 120_000.0 - 1.0).abs() < 0.01, "{both}");
}

#[test]
fn what_is_used_up_one_by_one_is_prepared_untimed() {
    let clock = VirtualClock::new(1);
    let prepared = Cell::new(0);
    let report = clock.meter(TIME_NS, |meter| {
        let refused = meter.single_used_up("latency", || Err(Failure::error("none left")), || {});
        assert_eq!(refused.expect_err("none").reason, "none left");
        let measured = meter.single_used_up(
            "latency",
            || {
                prepared.set(prepared.get() + 1);
                clock.pass(90_000.0);
                Ok(())
            },
            || clock.pass(10_000.0),
        );
        measured.expect("prepared");
    });
    let latencies = report.metrics[0].data.counted();
    let off = |ns: f64| (ns / 10_000.0 - 1.0).abs();
    assert!(latencies.iter().all(|(ns, _)| off(*ns) < 0.02));
    let count: u64 = latencies.iter().map(|(_, n)| n).sum();
    assert_eq!(count, prepared.get());
    // Half of the time, whatever of it is spent on preparing.
    assert!((149..=151).contains(&count), "{count}");
}

#[test]
fn percentiles_need_enough_samples_and_operations_longer_than_the_clock() {
    let percents = |ns: f64| -> Vec<f64> {
        let launches = six(TIME_NS, |_, clock, meter| {
            meter.single("cost", || clock.pass_about(ns, 0.1));
        });
        let row = point_of(launches).expect("a point");
        let percentiles = &row.primary().expect("a latency").percentiles;
        percentiles.iter().map(|percentile| percentile.percent).collect()
    };
    // 30 ms of 10 µs in each of 6 launches: 18,000 samples, 10 of them above p99.9.
    assert_eq!(percents(10_000.0), [50.0, 90.0, 99.0, 99.9]);
    // About 180 samples: 18 above p90, 2 above p99.
    assert_eq!(percents(1e6), [50.0, 90.0]);
    // Less than 100 readings of the clock.
    assert_eq!(percents(500.0), [] as [f64; 0]);
}

#[test]
fn rounds_add_up() {
    let clock = VirtualClock::new(1);
    let report = clock.meter(TIME_NS, |meter: &mut Meter<'_>| {
        for _ in 0..3 {
            meter.repeatable("cost", |n| clock.pass(100.0 * n as f64));
            meter.value("resolution", 1.0);
        }
    });
    let measured: f64 = samples(&report).iter().map(|(_, ns)| ns).sum();
    assert!(measured >= 3.0 * TIME_NS);
    assert_eq!(report.metrics.len(), 2);
}

#[test]
fn a_slow_preparation_does_not_make_a_point_endless() {
    let clock = VirtualClock::new(1);
    let began = clock.start();
    let mut batches = 0;
    clock.meter(TIME_NS, |meter| {
        let prepare = |_| {
            batches += 1;
            clock.pass(TIME_NS / 10.0);
            Ok(())
        };
        let measured = meter.used_up("cost", 1, prepare, |n| clock.pass(10_000.0 * n as f64));
        measured.expect("nothing fails");
    });
    // Without a bound, a point's time would be 3000 batches.
    let times = clock.ns(clock.end() - began) / TIME_NS;
    assert!(times < 12.0, "{times} times its time");
    assert!(batches >= 6, "{batches} batches");
}

#[test]
fn one_launch_below_resolution_among_many_takes_no_number() {
    let mut launches = launches_of(5.0);
    launches[2].state = State::BelowResolution;
    let row = point_of(launches.clone()).expect("a point");
    assert_eq!((row.state, row.launches), (State::Ok, 5));
    assert_eq!(row.primary().map(|cost| cost.ci95.is_some()), Some(true));
    for launch in &mut launches[..4] {
        launch.state = State::BelowResolution;
    }
    let row = point_of(launches).expect("a point");
    assert_eq!(row.state, State::BelowResolution);
    assert!(row.metrics.is_empty());
}

#[test]
fn allocations_cost_the_point_that_made_them_its_grade() {
    let mut launches = launches_of(5.0);
    assert_eq!(point_of(launches.clone()).expect("a point").grade, Grade::A);
    launches[0].allocations = 3;
    let row = point_of(launches).expect("a point");
    assert_eq!(row.grade, Grade::C);
    assert_eq!(row.warnings[0].kind, "allocations");
}

#[test]
fn cycles_of_user_mode_are_cycles() {
    let mut launches = launches_of(5.0);
    let cycles = Measured::new("cycles_user".into(), Data::Value(20.0));
    for launch in &mut launches {
        launch.metrics.push(cycles.clone());
    }
    let row = point_of(launches).expect("a point");
    let cycles = row.estimate("cycles_user").expect("it was counted");
    assert_eq!(cycles.unit, Unit::Cycles);
}

#[test]
fn a_percentile_is_printed_from_exactly_as_many_samples_as_it_takes() {
    for (samples, greatest) in [(100_000, 99.99), (99_999, 99.9), (1000, 99.0), (999, 90.0)] {
        let histogram = Data::Histogram(vec![(1e6, samples)]);
        let report = Report {
            state: State::Ok,
            metrics: vec![Measured::new("cost".into(), histogram)],
            allocations: 0,
        };
        let row = point_of(vec![report]).expect("a point");
        let percentiles = &row.primary().expect("a cost").percentiles;
        assert_eq!(percentiles.last().map(|last| last.percent), Some(greatest));
    }
}

#[test]
fn a_latency_lies_in_its_interval_though_all_of_it_are_in_one_bucket() {
    // Just above the lower bound of a bucket, in the middle, and just below the upper one; then of a wide
    // bucket, where few and slow ones are kept as they are, and many are not.
    let narrow = [536_880.0, 537_133.0, 537_360.0].map(|ns| (ns, 100.0, 6e-4));
    let wide = [134_217_800.0, 134_283_000.0, 134_348_700.0];
    let few = wide.map(|ns| (ns, 100.0, 1e-6));
    let many = wide.map(|ns| (ns, 3000.0, 6e-4));
    for (ns, times, within) in [narrow, few, many].concat() {
        let launches = six(times * ns, |_, clock, meter| {
            meter.single("cost", || clock.pass(ns));
        });
        let row = point_of(launches).expect("a point");
        let estimate = row.primary().expect("a latency");
        let (low, high) = estimate.ci95.expect("an interval");
        // Reading the clock is part of them, and 32 bits hold seven digits.
        let (low, high) = (low * (1.0 - 1e-6), high * (1.0 + 1e-6));
        assert!(low <= ns && ns <= high, "{ns} not in {low} to {high}");
        assert!((estimate.median / ns - 1.0).abs() <= within, "{estimate:?}");
        assert!(high / low - 1.0 <= 2.0 * within + 2e-6, "{low} to {high}");
    }
}

#[test]
fn only_batches_of_the_primary_metric_are_counted() {
    let clock = VirtualClock::new(1);
    let one = |n| clock.pass(n as f64 * 10.0);
    let done = Cell::new(0);
    let counting = |n| {
        done.set(done.get() + n);
        one(n);
    };
    let alone = clock.record(TIME_NS, |meter| meter.repeatable("cost", counting));
    assert!(alone.counted_operations > 0);
    // Sizing and warming up are not counted.
    assert!(alone.counted_operations < done.get());
    let others = clock.record(TIME_NS, |meter| {
        meter.share(2).repeatable("at_half", one);
        meter.single("latency", || one(1));
    });
    assert_eq!(others.counted_operations, 0);
}

/// A core that another hardware thread shares where this is set.
fn shared_core() -> (Arc<AtomicBool>, Gauge) {
    let is_shared = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_shared);
    let read = move || {
        if seen.load(Ordering::Relaxed) { 0.45 } else { 0.292 }
    };
    (is_shared, Gauge::new(without_clock(read), 0.292))
}

#[test]
fn the_gauge_says_which_batches_had_the_core_to_themselves() {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    let mut calls = 0_u64;
    let report = clock.meter(3e6, |meter| {
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", |n| {
            // It comes and goes every few batches, and one of its visits begins within a batch.
            calls += 1;
            let shared = calls / 40 % 2 == 1;
            clock.pass(n as f64 * if shared { 150.0 } else { 100.0 });
            is_shared.store(shared, Ordering::Relaxed);
        });
    });
    let cost = &report.metrics[0];
    let median = |selection| {
        let costs = cost.selected(selection);
        assert!(costs.len() > 5, "there are some");
        costs[costs.len() / 2].0
    };
    assert!((median(Selection::Alone) / 100.0 - 1.0).abs() < 0.01);
    assert!((median(Selection::Shared) / 150.0 - 1.0).abs() < 0.01);
    let count = |state| cost.count(Some(state));
    let mixed = count(CoreState::Mixed);
    assert!(mixed > 0 && mixed < count(CoreState::Alone));
}

#[test]
fn batches_count_the_cycles_of_a_core_whose_clock_moves() {
    let clock = VirtualClock::new(1);
    let ticks_per_cycle = Arc::new(AtomicU64::new(0.5_f64.to_bits()));
    let seen = Arc::clone(&ticks_per_cycle);
    let read = move || Reading {
        cycles_per_addition: 0.292,
        ticks_per_cycle: f64::from_bits(seen.load(Ordering::Relaxed)),
    };
    let gauge = Gauge::new(Arc::new(read), 0.292);
    let mut calls = 0_u64;
    let report = clock.meter(3e6, |meter| {
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", |n| {
            // 200 cycles, at 2 or 1.6 GHz.
            calls += 1;
            let ticks = if calls / 40 % 2 == 1 { 0.625 } else { 0.5 };
            ticks_per_cycle.store(f64::to_bits(ticks), Ordering::Relaxed);
            clock.pass(n as f64 * 200.0 * ticks);
        });
    });
    let cost = &report.metrics[0];
    for selection in [Selection::Alone, Selection::All] {
        let mut costs: Vec<f64> = cost.selected(selection).iter().map(|(cost, _)| *cost).collect();
        costs.sort_by(f64::total_cmp);
        assert!(costs[0] < 101.0 && costs[costs.len() - 1] > 124.0, "both clocks are met");
        let median = costs[costs.len() / 2].midpoint(costs[(costs.len() - 1) / 2]);
        let cycles = median * cost.clock_hz(selection).unwrap() / 1e9;
        assert!((cycles / 200.0 - 1.0).abs() < 0.005, "{cycles}");
    }
    // Without a clock, cycles are not known.
    let (_, gauge) = shared_core();
    let report = clock.meter(3e6, |meter| {
        let pass = |n| clock.pass(n as f64 * 100.0);
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", pass);
    });
    assert_eq!(report.metrics[0].core_clock, None);
}

#[test]
fn single_operations_are_distinguished_in_groups() {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    let mut calls = 0_u64;
    let report = clock.meter(30e6, |meter| {
        meter.share(1).gauged(Some(&gauge)).single("latency", || {
            calls += 1;
            let shared = calls / 100 % 2 == 1;
            clock.pass(if shared { 9_000.0 } else { 6_000.0 });
            is_shared.store(shared, Ordering::Relaxed);
        });
    });
    let latency = &report.metrics[0];
    for (selection, expected) in [(Selection::Alone, 6_000.0), (Selection::Shared, 9_000.0)] {
        let selected = latency.selected(selection);
        assert!(selected.iter().map(|(_, count)| count).sum::<u64>() > 100);
        let off = |ns: f64| (ns / (expected + READ_NS) - 1.0).abs();
        let near = selected.iter().all(|(ns, _)| off(*ns) < 0.001);
        assert!(near, "{selected:?}");
    }
}

#[test]
fn a_point_ends_when_the_core_was_alone_for_long_enough() {
    let measured = |busy: bool| {
        let clock = VirtualClock::new(1);
        let (is_shared, gauge) = shared_core();
        is_shared.store(busy, Ordering::Relaxed);
        let began = clock.start();
        let record = clock.record(10e6, |meter| {
            let mut meter = meter.share(1).gauged(Some(&gauge));
            meter.repeatable("cost", |n| clock.pass(n as f64 * 100.0));
        });
        let core = record.core();
        let took_ns = clock.ns(clock.end() - began);
        (core, took_ns, record.into_report(false, Vec::new()))
    };
    let (core, _, report) = measured(false);
    let alone_ns = core.all_ns().expect("it was read");
    assert!((4.9e6..6e6).contains(&alone_ns), "{core:?}");
    assert_eq!((core.waited_ns, core.alone()), (0.0, Some(1.0)));
    let lasts = |report: &Report| samples(report)[0].1;
    assert!((39e3..80e3).contains(&lasts(&report)), "{report:?}");
    // Where the core is never alone, most of the time is spent waiting, and short batches give the
    // cost while it is shared. All takes no more than one and a half times the point's time, beside
    // sizing and warming up.
    let (core, took_ns, report) = measured(true);
    assert!((11e6..14e6).contains(&core.waited_ns), "{core:?}");
    assert!((14e6..17e6).contains(&took_ns), "{took_ns}");
    assert_eq!((core.alone(), core.shared()), (Some(0.0), Some(1.0)));
    assert!((9e3..20e3).contains(&lasts(&report)), "{report:?}");
    assert!(report.metrics[0].count(Some(CoreState::Shared)) > 50);
}

/// An operation on a core that is shared all the time: what it was asked for, and its batches.
fn shared_all_the_time(cost_ns: f64) -> (Vec<u64>, Report) {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    is_shared.store(true, Ordering::Relaxed);
    let mut calls = Vec::new();
    let report = clock.meter(3e6, |meter| {
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", |n| {
            calls.push(n);
            clock.pass(n as f64 * cost_ns);
        });
    });
    (calls, report)
}

#[test]
fn shortened_batches_settle_as_long_as_others() {
    let (calls, report) = shared_all_the_time(10.0);
    let (n, ns) = *samples(&report).last().expect("batches");
    assert!(ns <= 22e3, "{n} in {ns} ns");
    let part = calls[calls.len() - 2];
    assert!(calls.ends_with(&[part, part, part, part, n]));
    // A batch would take 40 µs.
    assert!(64.0 * 10.0 * part as f64 >= 39e3, "{part}");
}

#[test]
fn batches_that_were_shortened_in_one_round_are_long_enough_in_the_next() {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    let report = clock.meter(3e6, |meter| {
        let mut meter = meter.share(1).gauged(Some(&gauge));
        for (shared, cost_ns) in [(true, 500.0), (false, 100.0)] {
            is_shared.store(shared, Ordering::Relaxed);
            meter.repeatable("cost", |n| clock.pass(n as f64 * cost_ns));
        }
    });
    let (n, ns) = *samples(&report).last().expect("batches");
    assert!(ns >= 5e3, "{n} in {ns} ns");
}

#[test]
fn interrupted_readings_do_not_shorten_batches() {
    let clock = VirtualClock::new(1);
    let readings = AtomicU64::new(0);
    let read = move || match readings.fetch_add(1, Ordering::Relaxed) % 4 {
        2 => 9.0,
        _ => 0.292,
    };
    let gauge = Gauge::new(without_clock(read), 0.292);
    let report = clock.meter(3e6, |meter| {
        let pass = |n| clock.pass(n as f64 * 100.0);
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", pass);
    });
    for (n, ns) in samples(&report) {
        assert!(*ns >= 39e3, "a batch of {n} in {ns} ns");
    }
}

#[test]
fn batches_of_what_is_used_up_are_not_shortened() {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    is_shared.store(true, Ordering::Relaxed);
    let report = clock.meter(3e6, |meter| {
        let pass = |n| clock.pass(n as f64 * 100.0);
        let mut meter = meter.share(1).gauged(Some(&gauge));
        meter.used_up("cost", 1 << 20, |_| Ok(()), pass).expect("nothing fails");
    });
    for (n, ns) in samples(&report) {
        assert!(*ns >= 39e3, "a batch of {n} in {ns} ns");
    }
}

#[test]
fn batches_that_may_hide_a_visit_are_not_time_alone() {
    let clock = VirtualClock::new(1);
    let (is_shared, gauge) = shared_core();
    let (mut is_batch, mut batches) = (false, 0_u64);
    let record = clock.record(3e6, |meter| {
        meter.share(1).gauged(Some(&gauge)).repeatable("cost", |n| {
            clock.pass(n as f64 * 100.0);
            // Before each batch comes one that is not timed. Somebody comes during each, and is
            // seen after nearly all.
            let is_long = n >= 90;
            is_batch ^= is_long;
            batches += u64::from(is_long && is_batch);
            let is_seen = is_long && is_batch && !batches.is_multiple_of(40);
            is_shared.store(is_seen, Ordering::Relaxed);
        });
    });
    let core = record.core();
    assert!(core.alone_ns == 0.0 && core.mixed_ns > 1e6, "{core:?}");
    let report = record.into_report(false, Vec::new());
    assert_eq!(report.metrics[0].count(Some(CoreState::Alone)), 0);
}

#[test]
fn launches_whose_other_end_shared_its_core_are_left_out() {
    let launch = |cost_ns: f64, alone_ns: f64| {
        let noise = Noise {
            other_core: Some(CoreGauge {
                floor: 0.29,
                alone_ns,
                shared_ns: 1e6 - alone_ns,
                ..CoreGauge::default()
            }),
            ..Noise::default()
        };
        (noise, launches_of(cost_ns).remove(0))
    };
    let shared = |row: &PointRow, grade: Grade, what: &str| {
        let warning = warning(row, "core_shared");
        assert_eq!(warning.grade, grade);
        assert!(warning.what.contains(what), "{}", warning.what);
    };
    let mut launches: Vec<_> = [1e6, 0.9e6, 0.5e6].map(|ns| launch(100.0, ns)).into();
    launches.extend([launch(150.0, 0.0), launch(150.0, 0.4e6)]);
    let row = point_of_launches(launches).expect("three were alone");
    assert_eq!(row.launches, 3);
    assert!((row.primary().expect("it has a number").median / 100.0 - 1.0).abs() < 0.05);
    shared(&row, Grade::B, "2 of 5 launches");
    // Where too few are left, all stay, and the grade says so.
    let launches = [1e6, 1e6, 0.0, 0.0].map(|alone_ns| launch(100.0, alone_ns));
    let row = point_of_launches(launches.into()).expect("all stay");
    assert_eq!(row.launches, 4);
    shared(&row, Grade::C, "2 of 4 launches");
    // Launches that are left out later, for their distance, were looked at too.
    let mut launches = [0.0; 4].map(|alone_ns| launch(100.0, alone_ns));
    for (index, (noise, _)) in launches.iter_mut().enumerate() {
        let ns = if index == 3 { 350.0 } else { 80.0 };
        noise.distance_ns = Some((ns, ns));
    }
    let row = point_of_launches(launches.into()).expect("three are at one distance");
    assert_eq!(row.launches, 3);
    shared(&row, Grade::C, "4 of 4 launches");
}

#[test]
fn launches_whose_cpus_lay_elsewhere_are_left_out() {
    let launch = |cost_ns: f64, distance_ns: (f64, f64)| {
        let noise = Noise { distance_ns: Some(distance_ns), ..Noise::default() };
        (noise, launches_of(cost_ns).remove(0))
    };
    let near = || launch(100.0, (80.0, 82.0));
    let mut launches = vec![near(), near(), near(), near()];
    launches.extend([
        launch(300.0, (350.0, 360.0)),
        launch(300.0, (340.0, 345.0)),
        launch(200.0, (82.0, 350.0)),
        launch(50.0, (55.0, 55.0)),
    ]);
    let row = point_of_launches(launches).expect("four are at one distance");
    assert_eq!(row.launches, 4);
    assert!((row.primary().expect("it has a number").median / 100.0 - 1.0).abs() < 0.05);
    let what = &warning(&row, "distance").what;
    assert!(what.contains("4 of 8 launches"), "{what}");
    // No distance has three of them.
    let all = [(80.0, 80.0), (80.0, 80.0), (350.0, 350.0), (350.0, 350.0)];
    let launches = all.map(|distance| launch(100.0, distance));
    let row = point_of_launches(launches.into()).expect("all stay");
    assert_eq!((row.launches, row.grade), (4, Grade::C));
}
