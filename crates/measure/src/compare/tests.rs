use super::*;
use crate::schedule::turns;
use costof_model::metric::BatchClock;
use costof_model::noise::{CoreGauge, MEASURED};
use costof_model::testing::{estimate, launch, planned, probe_info, row};
use costof_model::{Axes, Better, Data, Estimate, ProbeInfo, Unit};

fn metric(name: &'static str, better: Better) -> MetricInfo {
    MetricInfo { name: name.into(), unit: Unit::Nanoseconds, better, about: "what it says".into() }
}

fn info(probe: &str) -> ProbeInfo {
    let metrics = [("cost", Better::Lower), ("rate", Better::Higher), ("count", Better::Neither)];
    ProbeInfo {
        metrics: metrics.map(|(name, better)| metric(name, better)).to_vec().into(),
        ..probe_info(probe.to_owned())
    }
}

/// A point without a number of its own: what counts are its launches.
fn point_row(probe: &str) -> PointRow {
    let mut row = row(probe.to_owned(), Axes::default(), 0.0);
    row.metrics.clear();
    row
}

fn point(probe: &str) -> Point {
    point_row(probe).point
}

/// A run with these probes, each with the cost of each launch; the rate is its inverse.
fn run(probes: &[(&str, &[f64])]) -> Run {
    let mut run = planned(probes.iter().map(|(probe, _)| vec![point(probe)]));
    for (block, (probe, costs)) in probes.iter().enumerate() {
        run.probes.push(info(probe));
        let row = point_row(probe);
        for (number, cost) in (0..).zip(*costs) {
            let metrics = [("cost", *cost), ("rate", 1.0 / cost), ("count", *cost)];
            launch(&mut run, &[(&row, &metrics)]);
            let launch = run.launches.last_mut().unwrap();
            (launch.block, launch.launch) = (block, number);
        }
        run.points.push(row);
    }
    run
}

/// What the second says of the first.
fn primary(before: &Run, after: &Run) -> Comparison {
    compare(before, after, Metrics::Primary, MATTERS)
}

fn verdicts(found: &Comparison) -> Vec<Verdict> {
    found.rows.iter().map(|row| row.verdict).collect()
}

const QUIET: &[f64] = &[100.0, 101.0, 99.0, 100.5, 99.5];

fn scaled(by: f64) -> Vec<f64> {
    QUIET.iter().map(|cost| cost * by).collect()
}

#[test]
fn a_run_at_another_core_clock_is_compared_in_core_cycles() {
    let at = |times: f64| {
        let mut run = run(&[("a", &scaled(times))]);
        let measured = run.launches.iter_mut().flat_map(|launch| &mut launch.points[0].metrics);
        for cost in measured.filter(|metric| metric.name == "cost") {
            cost.core_clock = Some(BatchClock { all_hz: 3e9 / times, alone_hz: None });
        }
        run
    };
    let found = primary(&at(1.0), &at(1.1));
    assert_eq!(verdicts(&found), [Verdict::NoDifference]);
    let row = &found.rows[0];
    assert!((row.ratio - 1.0).abs() < 1e-9, "{row:?}");
    let (before, after) = row.clocks.unwrap();
    assert!((before / after - 1.1).abs() < 1e-9);
    // Times, in nanoseconds.
    assert!((row.before.0 - 100.0).abs() < 1.0 && (row.after.0 - 110.0).abs() < 1.0, "{row:?}");
    // Cycles that changed because the clock did, while times stood still, are no change of the program.
    let mut slower = run(&[("a", QUIET)]);
    for launch in &mut slower.launches {
        launch.points[0].metrics[0].core_clock = Some(BatchClock { all_hz: 2.5e9, alone_hz: None });
    }
    for (before, after) in [(&at(1.0), &slower), (&slower, &at(1.0))] {
        assert_eq!(verdicts(&primary(before, after)), [Verdict::CannotTell]);
    }
    // The clock of one run alone says nothing.
    let found = primary(&run(&[("a", QUIET)]), &at(1.1));
    assert_eq!((verdicts(&found), found.rows[0].clocks), (vec![Verdict::Worse], None));
}

#[test]
fn what_grew_is_worse_for_a_cost_and_better_for_nothing() {
    let (more, less) = (scaled(1.1), scaled(0.9));
    let before = run(&[("a", QUIET), ("b", QUIET), ("c", QUIET)]);
    let after = run(&[("a", &more), ("b", &less), ("c", QUIET)]);
    let found = compare(&before, &after, Metrics::All, MATTERS);
    use Verdict::{Better, Differs, NoDifference, Worse};
    let grew = [Worse, Worse, Differs, Better, Better, Differs];
    assert_eq!(verdicts(&found), [&grew[..], &[NoDifference; 3]].concat());
    let row = &found.rows[0];
    assert!((row.ratio - 1.1).abs() < 1e-9, "{row:?}");
    let (low, high) = row.ci95;
    assert!(1.08 < low && low < 1.1 && 1.1 < high, "{row:?}");
    assert_eq!((row.before.1, row.after.1), (5, 5));
    assert_eq!(primary(&before, &after).rows.len(), 3);
}

/// As of a cost with two modes: the middle launch is not where the others have moved to.
#[test]
fn the_shown_medians_are_the_rows_and_contradict_no_change() {
    let of = |costs: &[f64], median: f64| {
        let mut run = run(&[("a", costs)]);
        run.points[0].metrics = vec![estimate("cost", median)];
        run
    };
    let verdict = |times, median| {
        let found = primary(&of(QUIET, 100.0), &of(&scaled(times), median));
        assert_eq!([found.rows[0].before.0, found.rows[0].after.0], [100.0, median]);
        found.rows[0].verdict
    };
    assert_eq!(verdict(1.1, 101.0), Verdict::Worse);
    assert_eq!(verdict(1.1, 100.0), Verdict::CannotTell);
    assert_eq!(verdict(1.1, 90.0), Verdict::CannotTell);
    assert_eq!(verdict(1.0, 101.0), Verdict::NoDifference);
    assert_eq!(verdict(1.0, 120.0), Verdict::CannotTell);
}

#[test]
fn a_difference_that_one_row_alone_would_show_is_none_among_many() {
    let before = [100.0, 102.0, 98.0, 101.0, 99.0];
    let after: Vec<f64> = before.iter().map(|cost| cost * 1.04).collect();
    let alone = primary(&run(&[("a", &before)]), &run(&[("a", &after)]));
    assert!((0.01..0.05).contains(&alone.rows[0].p), "{alone:?}");
    assert_eq!(alone.rows[0].verdict, Verdict::Worse);
    let names: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    let mut old: Vec<(&str, &[f64])> =
        names.iter().map(|name| (name.as_str(), &before[..])).collect();
    let before = run(&old);
    old[0].1 = &after;
    let among = primary(&before, &run(&old));
    assert_eq!(among.rows[0].verdict, Verdict::CannotTell);
    assert!(among.rows[0].visible > alone.rows[0].visible);
}

#[test]
fn a_change_that_is_too_small_to_matter_is_none_however_sure_it_is() {
    let (little, enough) = (vec![100.5; 5], vec![103.0; 5]);
    let before = run(&[("a", &[100.0; 5]), ("b", &[100.0; 5])]);
    let found = primary(&before, &run(&[("a", &little), ("b", &enough)]));
    assert_eq!(verdicts(&found), [Verdict::NoDifference, Verdict::Worse]);
    let row = &found.rows[0];
    assert!((row.visible - 0.01).abs() < 1e-9, "{row:?}");
}

#[test]
fn a_row_that_could_not_have_seen_what_matters_says_how_many_launches_would() {
    let noisy: Vec<f64> = (0..20).map(|at| 100.0 + 40.0 * f64::from(at % 2)).collect();
    let of = |costs: &[f64], matters| {
        let run = run(&[("a", costs)]);
        let row = compare(&run, &run, Metrics::Primary, matters).rows.remove(0);
        (row.verdict, row.needed)
    };
    assert_eq!(of(QUIET, 0.05), (Verdict::NoDifference, None));
    assert_eq!(of(&[100.0; 3], 0.01), (Verdict::NoDifference, None));
    let (verdict, few) = of(&QUIET[..3], 0.03);
    assert_eq!(verdict, Verdict::CannotTell);
    assert!(few.is_some_and(|few| (4..16).contains(&few)), "{few:?}");
    // With as many as it says, it is decided, and with one fewer it is not.
    let (verdict, many) = of(&noisy, 0.05);
    assert_eq!(verdict, Verdict::CannotTell);
    let many = many.unwrap() as usize;
    let decided = |count: usize| {
        let costs: Vec<f64> = noisy.iter().copied().cycle().take(count).collect();
        of(&costs, 0.05).0 == Verdict::NoDifference
    };
    assert!(decided(many + many / 10) && !decided(many * 9 / 10), "{many}");
    assert_eq!(of(&noisy, 0.011), (Verdict::CannotTell, None));
    // What was seen to change did.
    let after = run(&[("a", &scaled(1.02))]);
    let found = compare(&run(&[("a", QUIET)]), &after, Metrics::Primary, 0.5);
    assert!(found.rows[0].needed.is_none(), "{found:?}");
}

#[test]
fn what_has_no_number_any_more_is_missing_with_its_reason() {
    let names = ["a", "b", "c", "d"];
    let before = run(&names.map(|probe| (probe, QUIET)));
    let mut after = before.clone();
    // One below resolution, one whose launches disagree, one without a row.
    after.points[0].state = State::BelowResolution;
    let wide = estimate("cost", 1.0);
    after.points[1].primary = "cost".into();
    after.points[1].metrics = vec![Estimate { ci95: Some((1.0, 11.0)), ..wide }];
    after.points.remove(2);
    let missing = primary(&before, &after).missing;
    let found = missing.iter().map(|missing| (&*missing.point.probe, missing.is_noise));
    assert_eq!(found.collect::<Vec<_>>(), [("a", false), ("b", true), ("c", false)]);
    assert!(missing[2].reason.contains("no row"), "{missing:?}");
    // What never had one, or was not asked for again, is not.
    assert!(primary(&after, &before).missing.is_empty());
    after.run.plan.blocks.truncate(1);
    assert_eq!(primary(&before, &after).missing.len(), 1);
}

#[test]
fn other_methods_and_too_few_launches_are_refused_row_by_row() {
    let before = run(&["a", "b", "c", "d", "e"].map(|probe| (probe, QUIET)));
    let mut after = run(&[
        ("a", QUIET),
        ("b", &QUIET[..2]),
        ("c", QUIET),
        ("d", &[1.0, 0.0, 1.0]),
        ("f", QUIET),
    ]);
    after.points[0].method = 2;
    after.launches.retain(|launch| launch.block != 2);
    let found = primary(&before, &after);
    assert!(found.rows.is_empty());
    let parts = ["method 1", "has 2 of the 3", "after has no launches of it", "above zero"];
    assert_eq!(found.refused.len(), parts.len());
    for (refused, part) in found.refused.iter().zip(parts) {
        assert!(refused.reason.contains(part), "{refused:?}");
    }
    assert_eq!(found.only_before, [point("e")]);
    assert_eq!(found.only_after, [point("f")]);
}

/// The sum of twelve is nearly normal.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// Twenty rows of the same, a thousand times: at most one in twenty has a false alarm.
#[test]
fn false_alarms_are_as_rare_as_is_said() {
    let mut random = fastrand::Rng::with_seed(1);
    let row = point_row("a");
    let mut alarms = 0;
    for _ in 0..1000 {
        let rows = (0..20).filter_map(|_| {
            let mut costs = || (0..5).map(|_| 160.0 + 10.0 * normal(&mut random)).collect();
            let given = Given {
                launches: [5, 5],
                medians: [costs(), costs()],
                in_pairs: false,
                selection: Selection::All,
                core_shared: false,
                clocks: None,
            };
            let cost = metric("cost", Better::Lower);
            compared([&row, &row], &cost, &given, 0.0).unwrap()
        });
        let found = Found { rows: rows.collect(), layers: Vec::new() };
        let (judged, _) = judged(found, false, MATTERS);
        let is_alarm = |row: &Compared| row.verdict.is_change();
        alarms += u32::from(judged.iter().any(is_alarm));
    }
    assert!(alarms <= 50, "{alarms} of 1000");
}

/// A run on a machine with this kernel, these mitigations and this load.
fn on(kernel: &str, mitigation: &str, load: f64) -> Run {
    let mut run = run(&[("a", QUIET)]);
    run.attempts = costof_model::testing::run(&[]).attempts;
    let facts = run.attempts[0].hosts.get_mut(MEASURED).unwrap();
    facts.kernel.release = Some(kernel.to_owned());
    facts.activity.load_1min = Some(load);
    let vulnerability = ("spectre_v2".to_owned(), mitigation.to_owned());
    facts.cpu.vulnerabilities.extend([vulnerability]);
    let control = "net.ipv4.tcp_congestion_control".to_owned();
    facts.kernel.sysctls.insert(control, "bbr".to_owned());
    run
}

#[test]
fn what_differs_between_the_machines_is_named_and_what_always_changes_is_not() {
    let before = on("6.1", "Mitigation", 0.1);
    let busy = on("6.1", "Mitigation", 9.0);
    assert!(primary(&before, &busy).facts.is_empty());
    let mut after = on("6.2", "Vulnerable", 9.0);
    let attempt = &mut after.attempts[0];
    attempt.build = "2".to_owned();
    let facts = attempt.hosts.get_mut(MEASURED).unwrap();
    facts.kernel.sysctls.clear();
    after.run.plan.precision = "full".into();
    after.points[0].launches += 1;
    let facts = primary(&before, &after).facts;
    let differences = facts.iter().map(|one| (one.what.as_str(), one.after.as_deref()));
    assert_eq!(
        differences.collect::<Vec<_>>(),
        [
            ("precision", Some("full")),
            ("launches of a point", Some("7")),
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
            launch.noise.core = Some(CoreGauge { floor: *floor, ..CoreGauge::default() });
        }
        run
    };
    let alone = with(&[0.21; 5], 1);
    let never = with(&[0.3; 5], 1);
    let found = primary(&never, &alone);
    assert!(found.rows.is_empty());
    let reason = &found.refused[0].reason;
    assert!(reason.contains("the run before never"), "{reason}");
    let found = primary(&alone, &never);
    assert!(found.refused[0].reason.contains("the run after never"));
    // Cores of two designs have two floors.
    let other = with(&[0.3; 5], 2);
    assert_eq!(primary(&alone, &other).rows.len(), 1);
    // A launch that met nothing but neighbours is left out.
    let once = with(&[0.21, 0.3, 0.21, 0.21, 0.21], 1);
    assert_eq!(primary(&alone, &once).rows[0].after.1, 4);
}

/// The same run where each launch counted single operations of this length.
fn counted(mut run: Run, ns: f64) -> Run {
    let points = run.launches.iter_mut().flat_map(|launch| &mut launch.points);
    for metric in points.flat_map(|point| &mut point.metrics) {
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
        primary(&before, &after).rows[0].verdict
    };
    assert_eq!(verdict(40.0), Verdict::CannotTell);
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
    let times = [1.05, 1.051, 1.049, 1.05, 1.052, 1.048];
    let slower: Vec<f64> = (drifting.iter().zip(times)).map(|(cost, times)| cost * times).collect();
    let (old, new) = beside(&[("a", &drifting)], &[("a", &slower)]);
    let paired = primary(&old, &new);
    assert!(paired.in_turns);
    assert_eq!(paired.rows[0].verdict, Verdict::Worse, "{paired:?}");
    let (low, high) = paired.rows[0].ci95;
    assert!(low > 1.045 && high < 1.055, "{low} to {high}");
    // Either way round.
    let back = primary(&new, &old);
    assert!(back.in_turns);
    assert_eq!(verdicts(&back), [Verdict::Better]);
    // The same numbers of runs that know nothing of each other, or of one that went on by itself.
    let mut apart = new.clone();
    apart.run.beside = None;
    let found = primary(&old, &apart);
    assert!(!found.in_turns);
    assert_eq!(verdicts(&found), [Verdict::CannotTell]);
    let mut resumed = new.clone();
    let attempts = on("6.1", "", 0.0).attempts;
    resumed.attempts = [attempts.clone(), attempts].concat();
    assert!(!primary(&old, &resumed).in_turns);
}

#[test]
fn where_the_cpus_moved_the_advice_is_what_was_not_done_yet() {
    let at = |mut run: Run, ns: f64| {
        run.attempts = costof_model::testing::run(&[]).attempts;
        run.attempts[0].boot = Some("since then".to_owned());
        for launch in &mut run.launches {
            launch.noise.distance_ns = Some((ns, ns));
        }
        run
    };
    let probes: &[(&str, &[f64])] = &[("cheap", &[100.0; 6])];
    let refused = |before, after| {
        let found = primary(&at(before, 100.0), &at(after, 200.0));
        found.refused[0].reason.clone()
    };
    let apart = refused(run(probes), run(probes));
    assert!(apart.contains("--interleave"), "{apart}");
    let (before, after) = beside(probes, probes);
    let in_turns = refused(before, after);
    assert!(in_turns.contains("--launches"), "{in_turns}");
}

#[test]
fn a_launch_without_a_neighbour_is_in_no_pair() {
    let costs = [100.0, 101.0, 102.0, 103.0, 104.0];
    let (mut old, mut new) = beside(&[("a", &costs)], &[("a", &costs)]);
    old.launches[0].points[0].state = State::Failed;
    new.launches.remove(3);
    let row = &primary(&old, &new).rows[0];
    assert_eq!((row.before.1, row.after.1), (3, 3));
    assert_eq!((row.ratio, row.ci95), (1.0, (1.0, 1.0)), "{row:?}");
    new.launches.remove(2);
    // Two pairs have no interval; what either side has, three and four launches, has one.
    let row = &primary(&old, &new).rows[0];
    assert_eq!((row.before.1, row.after.1), (4, 3));
    // As an export, it has a median and its interval.
    new.launches.clear();
    let none = primary(&old, &new);
    assert!(none.is_exported && none.refused[0].reason.contains("with an interval"), "{none:?}");
    for run in [&mut old, &mut new] {
        run.points[0].primary = "cost".into();
        run.points[0].metrics =
            vec![Estimate { ci95: Some((99.0, 101.0)), ..estimate("cost", 100.0) }];
    }
    new.points[0].metrics[0].median = 120.0;
    new.points[0].metrics[0].ci95 = Some((119.0, 121.0));
    let row = &primary(&old, &new).rows[0];
    assert!((row.ratio - 1.2).abs() < 1e-9 && row.ci95.0 > 1.15 && row.ci95.1 < 1.25, "{row:?}");
}

#[test]
fn a_metric_that_one_side_lacks_is_named_in_turns_too() {
    let costs = [100.0, 101.0, 102.0, 103.0, 104.0];
    let (old, new) = beside(&[("a", &costs)], &[("a", &costs)]);
    let without = |mut run: Run| {
        for launch in &mut run.launches {
            launch.points[0].metrics.retain(|metric| metric.name != "rate");
        }
        run
    };
    let new = without(new);
    let found = compare(&old, &new, Metrics::All, MATTERS);
    let refused = &found.refused;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].metric, "rate");
    assert!(refused[0].reason.contains("the run after"), "{refused:?}");
    let neither = without(old);
    assert!(compare(&neither, &new, Metrics::All, MATTERS).refused.is_empty());
}

/// A machine with two sides that alternate: launches differ by `launch`, the second of a pair costs
/// `second` more, and the core clock drifts by `drift` from one launch to the next, randomly and
/// steadily.
struct Shared {
    launch: f64,
    second: f64,
    drift: f64,
}

impl Shared {
    /// Five rows, with `launches` launches of each side; the second side takes `times` times as
    /// long.
    fn measure(&self, random: &mut fastrand::Rng, launches: u32, times: f64) -> Comparison {
        let names = ["a", "b", "c", "d", "e"];
        let mut costs = [(); 2].map(|()| [(); 5].map(|()| Vec::new()));
        let seed = random.u64(..);
        let mut clock = 0.0;
        for (row, _) in names.iter().enumerate() {
            for launch in 0..launches {
                for (place, side) in turns(seed, row, launch).into_iter().enumerate() {
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
            rows.map(|(name, costs)| (name, &costs[..])).collect::<Vec<_>>()
        });
        let (old, new) = beside(&rows[0], &rows[1]);
        primary(&old, &new)
    }

    /// In how many of `tries` comparisons of what is the same, but for `times`, any row, and all rows,
    /// were found worse or better.
    fn found(&self, launches: u32, times: f64, tries: u32) -> (u32, u32) {
        let mut random = fastrand::Rng::with_seed(9);
        let (mut any, mut all) = (0, 0);
        for _ in 0..tries {
            let rows = self.measure(&mut random, launches, times).rows;
            let found = rows.iter().filter(|row| row.verdict.is_change()).count();
            any += u32::from(found > 0);
            all += u32::from(found == rows.len());
        }
        (any, all)
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_took_turns_raises_no_more_false_alarms_than_is_said_on_whatever_machine() {
    for (launch, second, drift) in
        [(0.02, 0.0, 0.0), (0.01, 0.03, 0.0), (0.01, 0.0, 0.02), (0.002, 0.02, 0.01)]
    {
        let machine = Shared { launch, second, drift };
        for launches in [4, 6, 10, 16] {
            let (any, _) = machine.found(launches, 1.0, 400);
            let machine = (launch, second, drift);
            assert!(any <= 20, "{any} of 400: {launches} launches, {machine:?}");
        }
    }
}

#[test]
fn five_percent_are_found_on_a_machine_that_drifts() {
    let machine = Shared { launch: 0.01, second: 0.005, drift: 0.005 };
    let (any, all) = machine.found(10, 1.05, 200);
    let found = (any, all);
    assert!(any >= 199 && all >= 180, "any and all: {found:?} of 200");
    let (_, few) = machine.found(4, 1.05, 200);
    assert!(few < all, "{few} of 200 by four launches");
}

#[test]
fn an_export_took_no_turns() {
    let (mut before, mut after) = beside(&[("a", QUIET)], &[("a", QUIET)]);
    assert!(primary(&before, &after).in_turns);
    before.launches.clear();
    after.launches.clear();
    let found = primary(&before, &after);
    assert!(found.is_exported && !found.in_turns, "{found:?}");
}
