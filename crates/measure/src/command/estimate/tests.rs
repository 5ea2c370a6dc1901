use super::*;
use costof_model::timing::{CoreClock, CoreShares, OwnValue};

/// A run of so many milliseconds on one CPU that its core shared for this part.
fn run(cpu_ms: f64, shared: f64) -> TimedRun {
    let cpu_ns = (cpu_ms * 1e6) as u64;
    TimedRun {
        wall_ns: cpu_ns + 100_000,
        user_ns: cpu_ns,
        run_queue_ns: Some(0),
        cpus: vec![0],
        core: Some(CoreShares { alone: 1.0 - shared, shared, readings: 100, clock: None }),
        is_one_thread: Some(true),
        exit_code: Some(0),
        ..TimedRun::default()
    }
}

fn command(runs: Vec<TimedRun>) -> TimedCommand {
    TimedCommand { name: "a".to_owned(), runs, ..TimedCommand::default() }
}

/// Runs of a command that takes so many milliseconds alone and is slowed to 1 / 0.6 times.
fn runs(alone_ms: f64, shares: &[f64]) -> Vec<TimedRun> {
    let mut random = fastrand::Rng::with_seed(4);
    let mut noise = || 1.0 + 0.01 * (random.f64() - 0.5);
    let shares = shares.iter();
    shares.map(|&shared| run(alone_ms * noise() / (1.0 - 0.4 * shared), shared)).collect()
}

const SHARES: [f64; 10] = [0.0, 0.1, 0.9, 0.5, 1.0, 0.0, 0.3, 0.7, 0.2, 0.6];

fn estimated(runs: Vec<TimedRun>) -> TimedCommand {
    let mut command = command(runs);
    estimate(&mut command);
    command
}

#[test]
fn the_time_alone_comes_from_runs_that_shared() {
    let found = estimated(runs(100.0, &SHARES));
    let alone = found.alone_ns.unwrap();
    assert!(alone.low <= 100e6 && 100e6 <= alone.high, "{alone:?}");
    assert!(found.cpu_ns.unwrap().value > 105e6, "{found:?}");
    assert!((found.slowdown.unwrap() * 0.6 - 1.0).abs() < 0.1);
    assert_eq!(found.notes, [""; 0]);
    // A reading in four that was shared, in some runs, says little of a core that is shared.
    let hardly: Vec<f64> = (0..40).map(|at| if at % 5 == 0 { 0.25 } else { 0.0 }).collect();
    assert_eq!(estimated(runs(100.0, &hardly)).slowdown, None);
}

#[test]
fn what_cannot_be_known_has_a_reason() {
    let reason = |runs| estimated(runs).alone_unknown.unwrap();
    let always = reason(runs(100.0, &[0.98; 10]));
    assert!(always.contains("shared 98 % of the time"), "{always}");
    let few = reason(runs(100.0, &[0.0; 3]));
    assert!(few.contains("at least 4 runs"), "{few}");
    let mut unplaced = run(100.0, 0.0);
    unplaced.cpus = vec![0, 1];
    let one = reason(vec![unplaced]);
    assert!(one.contains("at least 4 runs (with --warmup 0"), "{one}");
    let on_many = |used: u64| {
        let mut all = runs(100.0, &SHARES);
        for run in &mut all {
            run.cpus = vec![0, 1, 2, 3];
            run.wall_ns = run.user_ns / used;
        }
        all
    };
    let differ = |shares: [f64; 5]| {
        let times = [40.0, 90.0, 160.0, 60.0, 250.0];
        reason(times.iter().zip(shares).map(|(&ms, shared)| run(ms, shared)).collect())
    };
    assert!(differ([0.02; 5]).contains("differ too much"));
    assert!(differ([0.5, 0.55, 0.9, 0.5, 0.9]).contains("too few runs"));
    let some = reason(on_many(2));
    assert!(some.contains("2.0 of 4 CPUs"), "{some}");
    assert!(estimated(on_many(4)).alone_ns.is_some());
    let mut without = runs(100.0, &SHARES);
    without[3].core = None;
    assert!(estimated(without.clone()).alone_ns.is_some());
    without.iter_mut().for_each(|run| run.core = None);
    assert!(reason(without).contains("in 0 of 10 runs"));
}

#[test]
fn waiting_failures_and_what_is_left_are_told() {
    let mut all = runs(100.0, &SHARES);
    all.iter_mut().for_each(|run| run.wall_ns = run.user_ns * 5);
    all[0].exit_code = Some(3);
    (all[1].exit_code, all[1].signal) = (None, Some(9));
    all[2].left = 2;
    let notes = estimated(all.clone()).notes;
    assert_eq!(notes.len(), 4, "{notes:?}");
    for (note, part) in notes.iter().zip([
        "80 % of the time",
        "1 of 10 runs failed (exit code 3)",
        "(signal 9)",
        "left 2 processes",
    ]) {
        assert!(note.contains(part), "{note}");
    }
    // Several threads may also have waited for a CPU.
    all.iter_mut().for_each(|run| run.run_queue_ns = None);
    let notes = estimated(all).notes;
    assert!(notes[0].contains("cannot tell waiting"), "{notes:?}");
}

#[test]
fn commands_are_compared_by_what_suits_them() {
    let mut pair = [command(runs(100.0, &SHARES)), command(runs(103.0, &SHARES))];
    let (metric, found) = compare(&mut pair, None);
    assert_eq!(metric, TimeMetric::Alone);
    let ratio = found[0].as_ref().unwrap().ratio;
    assert!(ratio.low <= 1.03 && 1.03 <= ratio.high, "{ratio:?}");

    // Without turns in which both cores were read, it is the CPU time as it ran.
    let mut unread = pair.clone();
    for (position, command) in unread.iter_mut().enumerate() {
        let half = command.runs.iter_mut().skip(position).step_by(2);
        half.for_each(|run| run.core = None);
    }
    let (metric, found) = compare(&mut unread, None);
    assert_eq!((metric, found[0].is_some()), (TimeMetric::Cpu, true));

    // One that sleeps has its wall time compared.
    for run in &mut pair[1].runs {
        run.wall_ns = 1_000_000_000;
    }
    let (metric, found) = compare(&mut pair, None);
    assert_eq!(metric, TimeMetric::Wall);
    assert!(found[0].as_ref().unwrap().ratio.value > 5.0);

    let own = Some(TimeMetric::Own("rate".to_owned()));
    let without = |pair: &mut [TimedCommand; 2], part: &str| {
        assert_eq!(compare(pair, own.clone()).1, [None]);
        let why = pair[1].not_compared.as_ref().unwrap();
        assert!(why.contains(part), "{why}");
    };
    without(&mut pair, "print rate");
    let print = |run: &mut TimedRun, value| {
        run.own.insert("rate".to_owned(), OwnValue { value, unit: String::new() });
    };
    pair.iter_mut().flat_map(|command| &mut command.runs).for_each(|run| print(run, 0.0));
    without(&mut pair, "0 or less");
    let mut few = pair.clone();
    for run in few.iter_mut().flat_map(|command| &mut command.runs) {
        print(run, 5.0);
    }
    few.iter_mut().for_each(|command| command.runs.truncate(3));
    without(&mut few, "at least 4 runs");
    for (position, command) in pair.iter_mut().enumerate() {
        for run in &mut command.runs {
            print(run, 10.0 * (position + 1) as f64);
        }
        estimate(command);
    }
    assert_eq!(pair[1].own["rate"].value, 20.0);
    let ratio = compare(&mut pair, own).1[0].as_ref().unwrap().ratio;
    assert!((ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
    assert_eq!(pair[1].not_compared, None);
}

#[test]
fn a_clock_that_moves_is_counted_and_one_that_only_scatters_is_not() {
    let clocks = [1.5, 1.42, 1.5, 1.44, 1.5, 1.48, 1.42, 1.5];
    let clocked = |error: f64| -> Vec<TimedRun> {
        let each = SHARES.iter().cycle().zip(clocks.iter().cycle()).take(40);
        let run = |(&shared, &clock): (&f64, &f64)| {
            let mut run = run(100.0 / (1.0 - 0.4 * shared) * 1.5 / clock, shared);
            let clock = CoreClock { cycles_per_tick: clock, error };
            run.core = run.core.map(|core| CoreShares { clock: Some(clock), ..core });
            run
        };
        each.map(run).collect()
    };
    let width = |runs| {
        let alone = estimated(runs).alone_ns.unwrap();
        assert!(alone.low <= 102e6 && 100e6 <= alone.high, "{alone:?}");
        alone.high - alone.low
    };
    let (counted, scattered) = (width(clocked(0.001)), width(clocked(0.1)));
    assert!(counted < 0.2 * scattered, "{counted} {scattered}");
}

#[test]
fn a_neighbour_that_slows_one_command_more_is_told() {
    let shares: Vec<f64> = SHARES.iter().cycle().take(30).copied().collect();
    let alike = runs(100.0, &shares);
    let other = shares.iter().map(|&shared| run(100.0, shared)).collect();
    let pair = [estimated(alike.clone()), estimated(other)];
    let notes = |mut pair: [TimedCommand; 2], metric| {
        compare(&mut pair, metric);
        pair.map(|command| command.notes)
    };
    let [first, second] = notes(pair.clone(), None);
    assert!(first.is_empty(), "once is enough: {first:?}");
    assert!(second.len() == 1 && second[0].contains("depends on the neighbour"), "{second:?}");
    // Without a difference, or where it does not matter, each has its own slowdown.
    let equal = [estimated(alike.clone()), estimated(alike)];
    for notes in [notes(equal, None), notes(pair, Some(TimeMetric::Cpu))] {
        assert!(notes.iter().all(|notes| notes[0].contains("on a shared core")), "{notes:?}");
    }
}
