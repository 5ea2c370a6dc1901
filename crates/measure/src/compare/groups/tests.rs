use super::*;
use crate::compare::MATTERS;
use costof_model::Grade;
use costof_model::testing::{RowExt, planned, run, sized_row};
use fastrand::Rng;

/// A number of a normal distribution, nearly.
fn normal(random: &mut Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// By how much, as standard deviations of logarithms, hosts, boots of a host and runs of a boot differ.
#[derive(Clone, Copy)]
struct Spread {
    host: f64,
    boot: f64,
    run: f64,
    /// Of so many hosts one lies five times as far off.
    far: Option<usize>,
}

const SPREAD: Spread = Spread { host: 0.02, boot: 0.01, run: 0.01, far: None };
/// The probes, two layers of them, and how many rows each has.
const PROBES: [&str; 2] = ["memory.x", "net.x"];
const ROWS: u64 = 8;

/// The runs of so many hosts: each has one or two boots, of one to three runs each. The rows of the first layer cost
/// so many times as much.
fn group(random: &mut Rng, side: &str, hosts: usize, times: f64, spread: Spread) -> Vec<Run> {
    let mut runs = Vec::new();
    for host in 0..hosts {
        let name = format!("{side}{host}");
        let is_far = spread.far.is_some_and(|of| random.usize(..of) == 0);
        let of_host = spread.host * if is_far { 5.0 } else { 1.0 };
        let offs = |random: &mut Rng, sd: f64| {
            (0..2 * ROWS).map(|_| sd * normal(random)).collect::<Vec<f64>>()
        };
        let host_offs = offs(random, of_host);
        for boot in 0..random.usize(1..=2) {
            let boot_offs = offs(random, spread.boot);
            for _ in 0..random.usize(1..=3) {
                let run_offs = offs(random, spread.run);
                let off = |at: usize| host_offs[at] + boot_offs[at] + run_offs[at];
                runs.push(one_run(&name, &format!("{name}-boot{boot}"), times, off));
            }
        }
    }
    runs
}

fn one_run(host: &str, boot: &str, times: f64, mut off: impl FnMut(usize) -> f64) -> Run {
    let mut run = run(&[]);
    let attempt = &mut run.attempts[0];
    attempt.boot = Some(boot.to_owned());
    attempt.hosts.get_mut(MEASURED).expect("its facts").host_name = Some(host.to_owned());
    let mut rows = Vec::new();
    for (probe, times) in PROBES.iter().zip([times, 1.0]) {
        for size in 1..=ROWS {
            let ns = 10.0 * size as f64 * times * off(rows.len()).exp();
            rows.push(sized_row(*probe, size, ns).known_within(0.004));
        }
    }
    run.points = rows;
    run
}

/// Of many comparisons of groups of this many hosts: the share of 95 % intervals, of rows and of layers, that hold the true
/// change, and how many comparisons called anything changed.
struct Tally {
    rows: f64,
    layers: f64,
    alarms: usize,
}

fn tally(
    seed: u64,
    tries: usize,
    hosts: usize,
    times: f64,
    spread: Spread,
    is_naive: bool,
) -> Tally {
    let mut random = Rng::with_seed(seed);
    let (mut rows, mut layers, mut alarms) = (Vec::new(), Vec::new(), 0);
    for _ in 0..tries {
        let mut sides = ["old", "new"].map(|side| {
            group(&mut random, side, hosts, if side == "new" { times } else { 1.0 }, spread)
        });
        if is_naive {
            // As if each run were of another host.
            let all = sides.iter_mut().flatten().enumerate();
            for (number, run) in all {
                let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
                facts.host_name = Some(number.to_string());
            }
        }
        let found = compare_groups(&sides[0], &sides[1], MATTERS);
        let truth = |layer: &str| if layer == "memory" { times } else { 1.0 };
        let holds = |(low, high): (f64, f64), truth: f64| low <= truth && truth <= high;
        rows.extend(found.rows.iter().map(|row| holds(row.ci95, truth(row.point.layer()))));
        layers.extend(found.layers.iter().map(|of| holds(of.ci95, truth(&of.layer) - 1.0)));
        let changed = found.rows.iter().map(|row| row.verdict);
        let changed = changed.chain(found.layers.iter().map(|layer| layer.verdict));
        alarms += usize::from(changed.filter(|verdict| verdict.is_change()).count() > 0);
    }
    let share = |all: &[bool]| all.iter().filter(|holds| **holds).count() as f64 / all.len() as f64;
    Tally { rows: share(&rows), layers: share(&layers), alarms }
}

/// Comparisons of each kind.
const TRIES: usize = 60;

#[test]
#[ignore = "long; ./check --all runs it"]
fn intervals_hold_the_planted_change_for_two_to_ten_hosts_a_side() {
    let far = Spread { far: Some(10), ..SPREAD };
    for hosts in 2..=10 {
        for (times, spread) in [(1.12, SPREAD), (1.0, far)] {
            let Tally { rows, layers, .. } = tally(42, TRIES, hosts, times, spread, false);
            println!("{hosts} hosts, {times}: rows {rows:.3}, layers {layers:.3}");
            assert!(rows > 0.94, "{hosts} hosts, {times}: {rows} of the rows' intervals");
            assert!(layers > 0.9, "{hosts} hosts, {times}: {layers} of the layers' intervals");
        }
    }
    // Were each run its own witness, the quirks of a host would pass for what the groups differ in.
    let naive = tally(42, TRIES, 5, 1.12, Spread { host: 0.05, ..SPREAD }, true);
    assert!(naive.rows < 0.9, "{}", naive.rows);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn groups_that_do_not_differ_raise_a_false_alarm_once_in_twenty() {
    let (mut alarms, mut tries) = (0, 0);
    for hosts in 2..=10 {
        let of_hosts = tally(7 + hosts as u64, TRIES, hosts, 1.0, SPREAD, false).alarms;
        println!("{hosts} hosts: {of_hosts} of {TRIES}");
        (alarms, tries) = (alarms + of_hosts, tries + TRIES);
    }
    assert!(alarms * 20 <= tries, "{alarms} of {tries}");
    let naive = tally(7, TRIES, 5, 1.0, Spread { host: 0.05, ..SPREAD }, true).alarms;
    assert!(naive * 10 > TRIES, "runs as hosts: {naive} of {TRIES}");
}

#[test]
fn the_highest_level_with_several_counts() {
    let mut random = Rng::with_seed(3);
    let mut runs = |host: &str, boots: &[(&str, usize)], times: f64| {
        let runs = boots.iter().flat_map(|(boot, runs)| vec![*boot; *runs]);
        let runs = runs.map(|boot| one_run(host, boot, times, |_| 0.002 * normal(&mut random)));
        runs.collect::<Vec<Run>>()
    };
    let mut many = |hosts: [&str; 4], times: f64| {
        hosts.iter().flat_map(|host| runs(host, &[("x", 2)], times)).collect::<Vec<Run>>()
    };
    let old = many(["a", "b", "c", "d"], 1.0);
    let new = many(["e", "f", "g", "h"], 1.2);
    let upgraded = many(["a", "b", "c", "x"], 1.2);
    let (one, other) = (runs("a", &[("x", 3)], 1.0), runs("a", &[("y", 3)], 1.2));
    let (boots, one_boot) =
        (runs("a", &[("x", 1), ("y", 2), ("z", 1)], 1.0), runs("a", &[("v", 2)], 1.2));
    for (old, new, level, counts, in_pairs) in [
        (&old, &new, Level::Hosts, (4, 4), false),
        // A canary is one host, however often it was measured.
        (&old, &other, Level::Hosts, (4, 1), false),
        // Three of four hosts were measured before and after.
        (&old, &upgraded, Level::Hosts, (3, 3), true),
        (&one, &other, Level::Runs, (3, 3), false),
        (&boots, &one_boot, Level::Boots, (3, 1), false),
    ] {
        let found = compare_groups(old, new, MATTERS);
        let groups = found.groups.as_ref().unwrap();
        assert_eq!((groups.level, groups.in_pairs), (level, in_pairs));
        assert_eq!((groups.before, groups.after), counts);
        for row in &found.rows {
            assert_eq!((row.before.1 as usize, row.after.1 as usize), counts, "{row:?}");
        }
        let memory = found.layers.iter().find(|layer| layer.layer == "memory").unwrap();
        assert_eq!(memory.verdict, Verdict::Worse, "{memory:?}");
        assert!(memory.ci95.0 < 0.2 && 0.2 < memory.ci95.1 + 0.01, "{memory:?}");
    }
    let one_run = &one[..1];
    let found = compare_groups(one_run, &other[..1], MATTERS);
    assert_eq!((found.rows.len(), found.refused.len()), (0, 16));
    assert!(found.refused[0].reason.contains("only 1 run before and 1 after"), "{found:?}");
}

#[test]
fn a_row_that_is_open_says_how_many_hosts_would_decide_it() {
    let mut random = Rng::with_seed(11);
    let spread = Spread { host: 0.03, ..SPREAD };
    let mut found = |hosts: usize| {
        let [old, new] = ["old", "new"].map(|side| group(&mut random, side, hosts, 1.0, spread));
        compare_groups(&old, &new, MATTERS)
    };
    let few = found(4);
    let mut needed: Vec<u32> = few.rows.iter().filter_map(|row| row.needed).collect();
    needed.sort_unstable();
    assert!(needed.len() > 12, "{needed:?}");
    let enough = needed[needed.len() / 2] as usize;
    assert!(enough > 4);
    let open = |found: &Comparison| {
        found.rows.iter().filter(|row| row.verdict == Verdict::CannotTell).count()
    };
    assert!(open(&few) > 12);
    let more = found(2 * enough);
    assert!(open(&more) < 4, "with {} hosts {} are open", 2 * enough, open(&more));
}

/// Three hosts a side, the same on both if in pairs, that differ by next to nothing.
fn sides(in_pairs: bool) -> [Vec<Run>; 2] {
    ["old", "new"].map(|side| {
        let runs = (0..3).map(|number| {
            let name = if in_pairs { format!("host{number}") } else { format!("{side}{number}") };
            let mut run =
                one_run(&name, &format!("{side}{name}"), 1.0, |_| 0.001 * f64::from(number));
            run.run.plan =
                planned([run.points.iter().map(|row| row.point.clone()).collect()]).run.plan;
            run
        });
        runs.collect()
    })
}

#[test]
fn a_row_that_no_later_host_has_is_missing_in_pairs_too() {
    for in_pairs in [false, true] {
        let [old, mut new] = sides(in_pairs);
        let lost = new[0].points[0].point.clone();
        for run in &mut new {
            run.points.remove(0);
        }
        let found = compare_groups(&old, &new, MATTERS);
        assert_eq!(found.groups.as_ref().unwrap().in_pairs, in_pairs);
        let missing: Vec<_> = found.missing.iter().map(|missing| &missing.point).collect();
        assert_eq!(missing, [&lost], "{found:?}");
        assert!(found.missing[0].reason.contains("only 3 hosts before and 0 after"), "{found:?}");
        assert!(found.refused.is_empty(), "{found:?}");
    }
    // On both sides, but of one host alone on both.
    let [mut old, mut new] = sides(true);
    old[0].points.remove(0);
    new[1].points.remove(0);
    let found = compare_groups(&old, &new, MATTERS);
    assert_eq!((found.missing.len(), found.refused.len()), (0, 1), "{found:?}");
    let reason = &found.refused[0].reason;
    assert!(
        reason.starts_with("only 2 hosts before and 2 after have")
            && reason.ends_with("only 1 both"),
        "{reason}"
    );
}

#[test]
fn a_row_that_no_run_knows_is_refused() {
    let mut both = sides(false);
    for run in both.iter_mut().flatten() {
        run.points[0].grade = Grade::D;
        run.points[1].metrics[0].ci95 = None;
    }
    let [old, new] = both;
    let found = compare_groups(&old, &new, MATTERS);
    let refused: Vec<_> = found.refused.iter().map(|one| &one.point).collect();
    assert_eq!(refused, [&old[0].points[0].point, &old[0].points[1].point], "{found:?}");
    assert_eq!(found.refused[0].reason, "no host has a number of grade A to C for it");
    assert_eq!(found.rows.len(), 14);
}

#[test]
fn rows_of_other_methods_are_refused() {
    let [old, mut new] = sides(false);
    for run in &mut new {
        run.points[0].method = 2;
    }
    let found = compare_groups(&old, &new, MATTERS);
    let [refused] = &found.refused[..] else { panic!("{found:?}") };
    assert!(
        refused.reason.starts_with("measured by method 1 before and by method 2 after"),
        "{refused:?}"
    );
    assert!(found.missing.is_empty() && found.only_after.is_empty(), "{found:?}");
    // A host of the old costof among the later ones.
    new[0].points[0].method = 1;
    let found = compare_groups(&old, &new, MATTERS);
    assert_eq!((found.rows.len(), found.refused.len()), (16, 0), "{found:?}");
    assert!(found.only_after.is_empty(), "{found:?}");
}

#[test]
fn two_equal_values_a_side_are_known_no_better_than_each() {
    let of = |side: &str, times: f64| {
        let run = |number| one_run(&format!("{side}{number}"), side, times, |_| 0.0);
        [run(0), run(1)]
    };
    let found = compare_groups(&of("old", 1.0), &of("new", 1.015), MATTERS);
    for row in &found.rows {
        let is_change = row.verdict.is_change();
        assert!(
            row.p > 0.0 && !is_change && row.ci95.0 < row.ratio && row.ratio < row.ci95.1,
            "{row:?}"
        );
    }
    assert!(found.layers.iter().all(|layer| layer.p > 0.0), "{found:?}");
}

#[test]
fn what_unequal_groups_need_is_of_each_side() {
    let mut random = Rng::with_seed(5);
    let spread = Spread { host: 0.05, ..SPREAD };
    let mut needed = |hosts: [usize; 2]| {
        let sides = [("old", hosts[0]), ("new", hosts[1])];
        let [old, new] = sides.map(|(side, hosts)| group(&mut random, side, hosts, 1.0, spread));
        let found = compare_groups(&old, &new, MATTERS);
        let mut needed: Vec<u32> = found.rows.iter().filter_map(|row| row.needed).collect();
        needed.sort_unstable();
        f64::from(needed[needed.len() / 2])
    };
    // The spread is the same, so about as many are needed, however many one side has already.
    let mut mean = |hosts: [usize; 2]| (0..20).map(|_| needed(hosts)).sum::<f64>() / 20.0;
    let (equal, unequal) = (mean([20, 20]), mean([80, 12]));
    assert!(unequal > 0.8 * equal && unequal < 1.25 * equal, "{equal} {unequal}");
}
