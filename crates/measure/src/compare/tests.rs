use super::*;
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::metric::{Data, Measured};
use costof_model::noise::{CoreGauge, Grade, MEASURED, Noise, Placement};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, ClockSource, CounterInfo};
use costof_model::rows::{AttemptRow, LaunchRow};
use costof_model::testing::{planned, probe_info};
use costof_model::unit::Unit;

fn metric(name: &'static str, better: Better) -> MetricInfo {
    MetricInfo {
        name: name.into(),
        unit: Unit::Nanoseconds,
        better,
        about: "what it says".into(),
    }
}

fn info(probe: &str) -> ProbeInfo {
    ProbeInfo {
        metrics: vec![
            metric("cost", Better::Lower),
            metric("rate", Better::Higher),
            metric("count", Better::Neither),
        ]
        .into(),
        ..probe_info(probe.to_owned())
    }
}

fn point(probe: &str) -> Point {
    Point {
        probe: probe.to_owned().into(),
        axes: Axes::default(),
        link: "none".into(),
    }
}

/// A run with these probes, each with the cost of each launch; the rate is its inverse.
fn run(probes: &[(&str, &[f64])]) -> Run {
    let points: Vec<Point> = probes.iter().map(|(probe, _)| point(probe)).collect();
    let mut run = planned(points.iter().map(|point| vec![point.clone()]));
    for (block, (probe, costs)) in probes.iter().enumerate() {
        run.probes.push(info(probe));
        for (launch, cost) in costs.iter().enumerate() {
            let value = |name: &'static str, value| Measured::new(name.into(), Data::Value(value));
            run.launches.push(LaunchRow {
                block,
                launch: launch as u32,
                of: costs.len() as u32,
                wall_ns: 1.0,
                points: vec![LaunchPoint {
                    point: points[block].clone(),
                    state: State::Ok,
                    metrics: vec![
                        value("cost", *cost),
                        value("rate", 1.0 / cost),
                        value("count", *cost),
                    ],
                    allocations: 0,
                }],
                noise: Noise::default(),
                placement: Placement::default(),
                link: None,
            });
        }
        run.points.push(PointRow {
            point: points[block].clone(),
            method: 1,
            primary: "cost".into(),
            headline: false,
            label: None,
            launches: costs.len() as u32,
            state: State::Ok,
            metrics: Vec::new(),
            prediction: None,
            grade: Grade::A,
            warnings: Vec::new(),
            placement: Placement::default(),
        });
    }
    run
}

const QUIET: &[f64] = &[100.0, 101.0, 99.0, 100.5, 99.5];

fn scaled(by: f64) -> Vec<f64> {
    QUIET.iter().map(|cost| cost * by).collect()
}

#[test]
fn what_grew_is_worse_for_a_cost_and_better_for_nothing() {
    let (more, less) = (scaled(1.1), scaled(0.9));
    let before = run(&[("a", QUIET), ("b", QUIET), ("c", QUIET)]);
    let after = run(&[("a", &more), ("b", &less), ("c", QUIET)]);
    let found = compare(&before, &after, Metrics::All);
    let verdicts: Vec<_> = found.rows.iter().map(|row| row.verdict).collect();
    use Verdict::{Better, Differs, NoDifference, Worse};
    assert_eq!(
        verdicts,
        [
            Worse,
            Worse,
            Differs,
            Better,
            Better,
            Differs,
            NoDifference,
            NoDifference,
            NoDifference
        ]
    );
    let row = &found.rows[0];
    assert!((row.ratio - 1.1).abs() < 1e-9, "{row:?}");
    assert!(
        row.ci95.0 < 1.1 && 1.1 < row.ci95.1 && row.ci95.0 > 1.08,
        "{row:?}"
    );
    assert_eq!((row.before.1, row.after.1), (5, 5));
    let primary = compare(&before, &after, Metrics::Primary);
    assert_eq!(primary.rows.len(), 3);
}

#[test]
fn a_difference_that_one_row_alone_would_show_is_none_among_many() {
    let before = [100.0, 102.0, 98.0, 101.0, 99.0];
    let after: Vec<f64> = before.iter().map(|cost| cost * 1.04).collect();
    let alone = compare(
        &run(&[("a", &before)]),
        &run(&[("a", &after)]),
        Metrics::Primary,
    );
    assert!(
        alone.rows[0].p > 0.01 && alone.rows[0].p < 0.05,
        "{alone:?}"
    );
    assert_eq!(alone.rows[0].verdict, Verdict::Worse);
    let names: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    let mut old: Vec<(&str, &[f64])> = names
        .iter()
        .map(|name| (name.as_str(), &before[..]))
        .collect();
    let before = run(&old);
    old[0].1 = &after;
    let among = compare(&before, &run(&old), Metrics::Primary);
    assert_eq!(among.rows[0].verdict, Verdict::NoDifference);
    assert!(among.rows[0].visible > alone.rows[0].visible);
}

#[test]
fn a_change_that_is_too_small_to_matter_is_none_however_sure_it_is() {
    let (little, enough) = (vec![100.5; 5], vec![103.0; 5]);
    let before = run(&[("a", &[100.0; 5]), ("b", &[100.0; 5])]);
    let found = compare(
        &before,
        &run(&[("a", &little), ("b", &enough)]),
        Metrics::Primary,
    );
    let verdicts: Vec<_> = found.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::NoDifference, Verdict::Worse]);
    assert!(
        (found.rows[0].visible - 0.01).abs() < 1e-9,
        "{:?}",
        found.rows[0]
    );
}

#[test]
fn other_methods_and_too_few_launches_are_refused_row_by_row() {
    let before = run(&[
        ("a", QUIET),
        ("b", QUIET),
        ("c", QUIET),
        ("d", QUIET),
        ("e", QUIET),
    ]);
    let mut after = run(&[
        ("a", QUIET),
        ("b", &QUIET[..2]),
        ("c", QUIET),
        ("d", &[1.0, 0.0, 1.0]),
        ("f", QUIET),
    ]);
    after.points[0].method = 2;
    after.launches.retain(|launch| launch.block != 2);
    let found = compare(&before, &after, Metrics::Primary);
    assert!(found.rows.is_empty());
    let reasons: Vec<&str> = found
        .refused
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    for (reason, part) in
        reasons
            .iter()
            .zip(["method 1", "has 2 of the 3", "an export", "above zero"])
    {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(reasons.len(), 4);
    assert_eq!(
        (found.only_before, found.only_after),
        (vec![point("e")], vec![point("f")])
    );
}

/// Twenty rows of the same, a thousand times: at most one in twenty has a false alarm.
#[test]
fn false_alarms_are_as_rare_as_is_said() {
    let mut random = 1_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut alarms = 0;
    for _ in 0..1000 {
        let rows = (0..20).filter_map(|_| {
            // The sum of twelve is nearly normal.
            let mut costs = || {
                (0..5)
                    .map(|_| 100.0 + 10.0 * (0..12).map(|_| next()).sum::<f64>())
                    .collect::<Vec<_>>()
            };
            let (before, after) = (costs(), costs());
            let (old, new) = (run(&[("a", &before)]), run(&[("a", &after)]));
            let medians = [before, after];
            compared(
                [&old.points[0], &new.points[0]],
                &metric("cost", Better::Lower),
                &Given {
                    launches: medians.each_ref().map(Vec::len),
                    medians,
                    in_pairs: false,
                    selection: Selection::All,
                    core_shared: false,
                },
                0.0,
            )
            .unwrap()
        });
        let judged = judged(rows.collect(), false);
        alarms += u32::from(
            judged
                .iter()
                .any(|row| row.verdict != Verdict::NoDifference),
        );
    }
    assert!(alarms <= 50, "{alarms} of 1000");
}

/// A run on a machine with this kernel, these mitigations and this load.
fn on(kernel: &str, mitigation: &str, load: f64) -> Run {
    let mut facts = Facts::default();
    facts.kernel.release = Some(kernel.to_owned());
    facts
        .cpu
        .vulnerabilities
        .insert("spectre_v2".to_owned(), mitigation.to_owned());
    let control = "net.ipv4.tcp_congestion_control".to_owned();
    facts.kernel.sysctls.insert(control, "bbr".to_owned());
    facts.activity.load_1min = Some(load);
    let mut run = run(&[("a", QUIET)]);
    run.attempts.push(AttemptRow {
        costof: "0.1.0".to_owned(),
        build: "1".to_owned(),
        boot: None,
        hosts: [(MEASURED.into(), facts)].into(),
        clock: ClockInfo {
            source: ClockSource::Counter,
            because: String::new(),
            hz: 1e9,
            spread_ppm: 0.0,
            resolution_ns: 1.0,
            read_ns: 1.0,
            core_floor: None,
        },
        counters: CounterInfo::default(),
        peer: None,
    });
    run
}

#[test]
fn what_differs_between_the_machines_is_told_and_what_always_changes_is_not() {
    let before = on("6.1", "Mitigation", 0.1);
    assert!(
        compare(&before, &on("6.1", "Mitigation", 9.0), Metrics::Primary)
            .facts
            .is_empty()
    );
    let mut after = on("6.2", "Vulnerable", 9.0);
    let attempt = &mut after.attempts[0];
    attempt.build = "2".to_owned();
    attempt
        .hosts
        .values_mut()
        .for_each(|facts| facts.kernel.sysctls.clear());
    let facts = compare(&before, &after, Metrics::Primary).facts;
    let told: Vec<_> = facts
        .iter()
        .map(|one| (one.what.as_str(), one.after.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("kernel", Some("6.2")),
            ("mitigations", Some("spectre_v2: Vulnerable")),
            ("costof's build", Some("2")),
            ("net.ipv4.tcp_congestion_control", None),
        ]
    );
}

#[test]
fn what_a_run_that_never_had_the_core_calls_alone_is_not_compared() {
    let with = |floors: &[f64], model: u32| {
        let mut run = on("6.1", "", 0.0);
        for facts in run.attempts[0].hosts.values_mut() {
            facts.cpu.vendor = Some("GenuineIntel".to_owned());
            facts.cpu.family = Some(6);
            facts.cpu.model = Some(model);
        }
        for (launch, floor) in run.launches.iter_mut().zip(floors) {
            launch.noise.core = Some(CoreGauge {
                floor: *floor,
                ..CoreGauge::default()
            });
        }
        run
    };
    let alone = with(&[0.21; 5], 1);
    let never = with(&[0.3; 5], 1);
    let found = compare(&never, &alone, Metrics::Primary);
    assert!(found.rows.is_empty());
    let reason = &found.refused[0].reason;
    assert!(
        reason.contains("the run before never had the core to itself"),
        "{reason}"
    );
    let found = compare(&alone, &never, Metrics::Primary);
    assert!(found.refused[0].reason.contains("the run after never"));
    // Cores of two designs have two floors.
    let other = with(&[0.3; 5], 2);
    assert_eq!(compare(&alone, &other, Metrics::Primary).rows.len(), 1);
    // A launch that met nothing but neighbours is left out.
    let once = with(&[0.21, 0.3, 0.21, 0.21, 0.21], 1);
    assert_eq!(compare(&alone, &once, Metrics::Primary).rows[0].after.1, 4);
}

/// The same run where each launch counted single operations of this length.
fn counted(mut run: Run, ns: f64) -> Run {
    let metrics = run
        .launches
        .iter_mut()
        .flat_map(|launch| &mut launch.points);
    for metric in metrics.flat_map(|point| &mut point.metrics) {
        metric.data = Data::Histogram(vec![(ns as f32, 100)]);
    }
    run
}

#[test]
fn launches_that_agree_by_the_clock_s_step_show_no_difference_of_one() {
    let on_clock = |ns: f64, step_ns: f64| {
        let mut run = counted(on("6.1", "", 0.0), ns);
        run.attempts[0].clock.resolution_ns = step_ns;
        run
    };
    let verdict = |step_ns: f64| {
        let (before, after) = (on_clock(1040.0, step_ns), on_clock(1080.0, step_ns));
        compare(&before, &after, Metrics::Primary).rows[0].verdict
    };
    assert_eq!(verdict(40.0), Verdict::NoDifference);
    assert_eq!(verdict(1.0), Verdict::Worse);
}

/// Two runs whose launches took turns.
fn beside(before: &[(&str, &[f64])], after: &[(&str, &[f64])]) -> (Run, Run) {
    let (mut old, mut new) = (run(before), run(after));
    new.run.id = "2".to_owned();
    old.run.beside = Some("2".to_owned());
    new.run.beside = Some("1".to_owned());
    (old, new)
}

#[test]
fn runs_that_took_turns_are_compared_by_their_neighbours() {
    let drifting = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0];
    let slower: Vec<f64> = drifting
        .iter()
        .zip([1.05, 1.051, 1.049, 1.05, 1.052, 1.048])
        .map(|(cost, times)| cost * times)
        .collect();
    let (old, new) = beside(&[("a", &drifting)], &[("a", &slower)]);
    let paired = compare(&old, &new, Metrics::Primary);
    assert!(paired.in_turns);
    assert_eq!(paired.rows[0].verdict, Verdict::Worse, "{paired:?}");
    let (low, high) = paired.rows[0].ci95;
    assert!(low > 1.045 && high < 1.055, "{low} to {high}");
    // Either way round.
    let back = compare(&new, &old, Metrics::Primary);
    assert_eq!(
        (back.in_turns, back.rows[0].verdict),
        (true, Verdict::Better)
    );
    // The same numbers of runs that know nothing of each other, or of one that went on by itself.
    let mut apart = new.clone();
    apart.run.beside = None;
    let found = compare(&old, &apart, Metrics::Primary);
    assert_eq!(
        (found.in_turns, found.rows[0].verdict),
        (false, Verdict::NoDifference)
    );
    let mut resumed = new.clone();
    let attempts = on("6.1", "", 0.0).attempts;
    resumed.attempts = [attempts.clone(), attempts].concat();
    assert!(!compare(&old, &resumed, Metrics::Primary).in_turns);
}

#[test]
fn a_launch_without_a_neighbour_is_in_no_pair() {
    let costs = [100.0, 101.0, 102.0, 103.0, 104.0];
    let (mut old, mut new) = beside(&[("a", &costs)], &[("a", &costs)]);
    old.launches[0].points[0].state = State::Failed;
    new.launches.remove(3);
    let row = &compare(&old, &new, Metrics::Primary).rows[0];
    assert_eq!((row.before.1, row.after.1), (3, 3));
    assert_eq!((row.ratio, row.ci95), (1.0, (1.0, 1.0)), "{row:?}");
    new.launches.remove(2);
    // Two pairs have no interval; what either side has, three and four launches, has one.
    let row = &compare(&old, &new, Metrics::Primary).rows[0];
    assert_eq!((row.before.1, row.after.1), (4, 3));
    new.launches.clear();
    let refused = &compare(&old, &new, Metrics::Primary).refused;
    assert!(
        refused[0].reason.contains("the run after holds no launch"),
        "{refused:?}"
    );
}

#[test]
fn a_metric_that_one_side_lacks_is_named_in_turns_too() {
    let costs = [100.0, 101.0, 102.0, 103.0, 104.0];
    let (old, mut new) = beside(&[("a", &costs)], &[("a", &costs)]);
    for launch in &mut new.launches {
        let metrics = &mut launch.points[0].metrics;
        metrics.retain(|metric| metric.name != "rate");
    }
    let found = compare(&old, &new, Metrics::All);
    let refused: Vec<_> = found.refused.iter().collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].metric, "rate");
    assert!(refused[0].reason.contains("the run after"), "{refused:?}");
    let mut neither = old.clone();
    for launch in &mut neither.launches {
        let metrics = &mut launch.points[0].metrics;
        metrics.retain(|metric| metric.name != "rate");
    }
    assert!(compare(&neither, &new, Metrics::All).refused.is_empty());
}

/// A machine for two sides that take turns: launches differ by `launch`, whoever comes second in a
/// pair pays `second` of his cost more, and the core clock drifts by `drift` from one launch to the
/// next, in steps that add up and steadily.
struct Shared {
    launch: f64,
    second: f64,
    drift: f64,
}

impl Shared {
    /// Five rows of so many launches of each side, of which the second takes so many times as long.
    fn measure(&self, random: &mut fastrand::Rng, launches: u32, times: f64) -> Comparison {
        let names = ["a", "b", "c", "d", "e"];
        // The sum of twelve is nearly normal.
        let normal = |random: &mut fastrand::Rng| (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut costs = [(); 2].map(|()| [(); 5].map(|()| Vec::new()));
        let seed = random.u64(..);
        let mut clock = 0.0;
        for (row, _) in names.iter().enumerate() {
            for launch in 0..launches {
                for (place, side) in crate::schedule::turns(seed, row, launch)
                    .into_iter()
                    .enumerate()
                {
                    clock += self.drift * (normal(random) + 0.5);
                    let second = if place == 1 { self.second } else { 0.0 };
                    let log = clock + second + self.launch * normal(random);
                    let own = if side == 1 { times } else { 1.0 };
                    costs[side][row].push(1000.0 * own * log.exp());
                }
            }
        }
        let rows = costs.each_ref().map(|side| {
            let rows = names.into_iter().zip(side);
            rows.map(|(name, costs)| (name, &costs[..]))
                .collect::<Vec<_>>()
        });
        let (old, new) = beside(&rows[0], &rows[1]);
        compare(&old, &new, Metrics::Primary)
    }

    /// In how many of `tries` comparisons of what is the same, but for `times`, any row, and all rows,
    /// were found worse or better.
    fn found(&self, launches: u32, times: f64, tries: u32) -> (u32, u32) {
        let mut random = fastrand::Rng::with_seed(9);
        let (mut any, mut all) = (0, 0);
        for _ in 0..tries {
            let rows = self.measure(&mut random, launches, times).rows;
            let told = rows
                .iter()
                .filter(|row| row.verdict != Verdict::NoDifference);
            let told = told.count();
            any += u32::from(told > 0);
            all += u32::from(told == rows.len());
        }
        (any, all)
    }
}

#[test]
fn what_took_turns_raises_no_more_false_alarms_than_is_said_on_whatever_machine() {
    for (launch, second, drift) in [
        (0.02, 0.0, 0.0),
        (0.01, 0.03, 0.0),
        (0.01, 0.0, 0.02),
        (0.002, 0.02, 0.01),
    ] {
        let machine = Shared {
            launch,
            second,
            drift,
        };
        for launches in [4, 6, 10, 16] {
            let (any, _) = machine.found(launches, 1.0, 400);
            assert!(
                any <= 20,
                "{any} of 400: {launches} launches, {launch} {second} {drift}"
            );
        }
    }
}

#[test]
fn five_percent_are_found_on_a_machine_that_drifts() {
    let machine = Shared {
        launch: 0.01,
        second: 0.005,
        drift: 0.005,
    };
    let (any, all) = machine.found(10, 1.05, 200);
    assert!(
        any >= 199 && all >= 180,
        "any in {any}, all in {all} of 200"
    );
    let (_, few) = machine.found(4, 1.05, 200);
    assert!(few < all, "{few} of 200 by four launches");
}
