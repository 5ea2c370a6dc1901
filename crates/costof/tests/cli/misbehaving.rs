//! A probe that misbehaves costs its own launches and no more: each loss is a
//! row that names the cause, the others have their numbers, and nothing is
//! left running.

use crate::common::{Ended, Place, assert_contains, point, read, run};
use costof_model::failure::FailureKind;
use costof_model::rows::{FailureRow, State};
use costof_model::run_file::Run;

/// Launches of a block with `--quick`.
const LAUNCHES: u32 = 6;

/// A run of the good probe and another one, and how it ended; the good one
/// must have all its launches.
fn beside_the_good_one(arguments: &[&str]) -> (Run, Ended) {
    let place = Place::new();
    let usual = "run test.good --quick --seed 1 --timeout 3 --out run.jsonl";
    let mut all: Vec<&str> = usual.split(' ').collect();
    all.extend(arguments);
    let ended = run(&mut place.misbehaving(&all)).expect_code(0);
    place.expect_nothing_runs();
    let run = read(&place.path("run.jsonl"));
    assert!(run.end.is_some());
    let good = point(&run, "test.good");
    assert_eq!((good.state, good.launches), (State::Ok, LAUNCHES));
    assert_contains(&ended.out, "test.good");
    (run, ended)
}

/// The failures of a point, one a lost launch, after checking that the point
/// as a whole failed for the same reason, and that the table says so.
fn lost(run: &Run, ended: &Ended, point: &str) -> Vec<FailureRow> {
    let of_point = run
        .failures
        .iter()
        .filter(|row| row.point.to_string() == point);
    let (launches, whole): (Vec<_>, Vec<_>) = of_point.partition(|row| row.launch.is_some());
    let [whole] = whole.as_slice() else {
        panic!("{point} failed as a whole {} times", whole.len());
    };
    assert!(!run.points.iter().any(|row| row.point == whole.point));
    assert_eq!(whole.failure(), launches[0].failure());
    assert!(ended.out.contains(&whole.reason), "{}", ended.out);
    launches.into_iter().cloned().collect()
}

/// How many launches of the block with `probe` the file has.
fn launches(run: &Run, probe: &str) -> usize {
    let is_of_it = |block: usize| run.run.plan.blocks[block].points[0].probe == probe;
    run.launches
        .iter()
        .filter(|row| is_of_it(row.block))
        .count()
}

/// Fails twice, names the cause, and is left out of later launches.
fn is_left_out_after_two(arguments: &[&str], point: &str, kind: FailureKind, causes: &[&str]) {
    let (run, ended) = beside_the_good_one(arguments);
    let lost = lost(&run, &ended, point);
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert_eq!(launches(&run, arguments[0]), 2);
    for row in lost {
        assert_eq!(row.kind, kind);
        for cause in causes {
            assert_contains(&row.reason, cause);
        }
    }
}

#[test]
fn a_crash_is_told_by_its_signal() {
    for (by, signal) in [
        ("segv", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("kill", "SIGKILL"),
    ] {
        let set = format!("by={by}");
        is_left_out_after_two(
            &["test.crash", "--set", &set],
            &format!("test.crash {set}"),
            FailureKind::Crashed,
            &[signal],
        );
    }
}

#[test]
fn a_panic_is_told_by_its_message_whatever_backtraces_say() {
    is_left_out_after_two(
        &["test.panic"],
        "test.panic",
        FailureKind::Crashed,
        &[
            "exit code 101",
            "misbehaving.rs",
            "the invariant of this test does not hold",
        ],
    );
}

#[test]
fn a_hang_is_ended_and_told_by_its_limit() {
    is_left_out_after_two(
        &["test.hang", "--set", "how=sleep"],
        "test.hang how=sleep",
        FailureKind::TimedOut,
        &["did not answer within 3 s", "--timeout"],
    );
}

#[test]
fn want_of_memory_is_told_as_such() {
    is_left_out_after_two(
        &["test.memory"],
        "test.memory",
        FailureKind::Crashed,
        &["SIGABRT", "memory allocation of 16777216 bytes failed"],
    );
}

#[test]
fn stray_prints_are_no_fault() {
    let (run, _) = beside_the_good_one(&["test.rubbish", "--set", "to=prints"]);
    assert_eq!(point(&run, "test.rubbish").launches, LAUNCHES);
    assert!(run.failures.is_empty(), "{:?}", run.failures);
}

#[test]
fn rubbish_on_the_protocols_own_stream_costs_each_launch_that_has_it() {
    let (run, ended) = beside_the_good_one(&["test.rubbish", "--set", "to=protocol"]);
    let lost = lost(&run, &ended, "test.rubbish to=protocol");
    assert_eq!(lost.len(), LAUNCHES as usize);
    for row in lost {
        assert_eq!(row.kind, FailureKind::Error);
        assert_contains(&row.reason, "no message of the protocol");
        // Quoted, with nothing that would move a terminal's cursor.
        assert_contains(&row.reason, "`nonsense.[31m`");
    }
}

#[test]
fn a_reason_that_would_rule_a_terminal_or_fill_a_disk_is_made_harmless() {
    let (run, ended) = beside_the_good_one(&["test.escapes"]);
    for row in lost(&run, &ended, "test.escapes") {
        assert!(row.reason.starts_with(".[2J.31m.xxx"), "{}", row.reason);
        assert!(row.reason.len() < 10_000, "{}", row.reason.len());
    }
    let moves_a_cursor = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(!moves_a_cursor(&ended.out) && !moves_a_cursor(&ended.err));
}

#[test]
fn a_wrong_answer_is_told_in_the_probes_own_words() {
    let (run, ended) = beside_the_good_one(&["test.error"]);
    let lost = lost(&run, &ended, "test.error");
    assert_eq!(lost.len(), LAUNCHES as usize);
    assert!(
        lost.iter()
            .all(|row| row.reason == "the answer was 41 and not 42")
    );
}

#[test]
fn what_crashes_once_has_its_number_from_the_other_launches() {
    let (run, ended) = beside_the_good_one(&["test.crash_once"]);
    let [failure] = run.failures.as_slice() else {
        panic!("{:?}", run.failures);
    };
    assert_eq!(
        (failure.launch, failure.kind),
        (Some(0), FailureKind::Crashed)
    );
    // Another launch makes up for it.
    assert_eq!(point(&run, "test.crash_once").launches, LAUNCHES);
    assert_contains(&ended.out, "launch 1 lost: test.crash_once");
}

#[test]
fn a_point_that_crashes_is_left_out_and_its_neighbours_in_the_block_go_on() {
    let (run, ended) = beside_the_good_one(&["test.crash", "--set", "by=abort,no"]);
    assert_eq!(lost(&run, &ended, "test.crash by=abort").len(), 2);
    // A launch that is lost is lost for the whole block, and made up for.
    assert_eq!(launches(&run, "test.crash"), LAUNCHES as usize + 2);
    assert_eq!(point(&run, "test.crash").launches, LAUNCHES);
}

#[test]
fn what_is_not_to_be_had_here_is_asked_once() {
    let (run, ended) = beside_the_good_one(&["test.unsupported"]);
    let lost = lost(&run, &ended, "test.unsupported");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].kind, FailureKind::Unsupported);
    assert_eq!(lost[0].reason, "this machine has no such thing (buy one)");
    assert_eq!(launches(&run, "test.unsupported"), 1);
}

#[test]
fn a_block_that_cannot_start_fails_at_every_point() {
    for (why, kind, reason, launches) in [
        (
            "unsupported",
            FailureKind::Unsupported,
            "no such room (build one)",
            &[Some(0)][..],
        ),
        (
            "exit",
            FailureKind::Crashed,
            "exit code 9",
            &[Some(0), Some(1)],
        ),
    ] {
        let why_set = format!("why={why}");
        let points = "point=first,second,third";
        let arguments = ["test.no_start", "--set", &why_set, "--set", points];
        let (run, ended) = beside_the_good_one(&arguments);
        for point in ["first", "second", "third"] {
            let lost = lost(
                &run,
                &ended,
                &format!("test.no_start point={point} why={why}"),
            );
            let in_launches: Vec<Option<u32>> = lost.iter().map(|row| row.launch).collect();
            assert_eq!(in_launches, launches);
            assert!(
                lost.iter()
                    .all(|row| row.kind == kind && row.reason.contains(reason))
            );
        }
    }
}

#[test]
fn a_child_that_would_outlive_its_worker_does_not() {
    let (run, _) = beside_the_good_one(&["test.leaves_child", "--set", "end=well"]);
    assert_eq!(point(&run, "test.leaves_child").launches, LAUNCHES);
    is_left_out_after_two(
        &["test.leaves_child", "--set", "end=crash"],
        "test.leaves_child end=crash",
        FailureKind::Crashed,
        &["SIGABRT"],
    );
}

#[test]
fn a_loop_that_the_optimiser_removed_has_no_number() {
    let (run, ended) = beside_the_good_one(&["test.removed_loop", "--set", "time=none"]);
    let none = point(&run, "test.removed_loop");
    assert_eq!(none.state, State::BelowResolution);
    assert!(none.primary().is_none() && none.metrics.is_empty());
    let line = ended
        .out
        .lines()
        .find(|line| line.contains("test.removed_loop"))
        .unwrap();
    assert_contains(line, "below resolution");

    let (run, ended) = beside_the_good_one(&["test.removed_loop", "--set", "time=constant"]);
    let whole = run
        .failures
        .iter()
        .find(|row| row.launch.is_none())
        .unwrap();
    assert!(whole.reason.contains("twice the work took"), "{whole:?}");
    assert!(
        run.points
            .iter()
            .all(|row| row.point.probe != "test.removed_loop")
    );
    assert!(ended.out.contains(&whole.reason), "{}", ended.out);

    // One launch that crashed beside those does not explain it.
    let (run, _) = beside_the_good_one(&["test.removed_loop", "--set", "time=crash_once"]);
    assert_eq!(run.failures[0].kind, FailureKind::Crashed);
    let whole = run.failures.iter().find(|row| row.launch.is_none());
    let whole = whole.unwrap();
    assert!(whole.reason.contains("twice the work took"), "{whole:?}");
}

#[test]
fn a_launch_of_batches_that_stay_short_is_still_a_line_of_bounded_length() {
    let place = Place::new();
    let arguments = "run test.removed_loop --set time=none --quick --seed 1 --out run.jsonl";
    run(&mut place.misbehaving(arguments)).expect_code(0);
    let text = std::fs::read_to_string(place.path("run.jsonl")).unwrap();
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 1 << 20, "a line of {longest} bytes");
}

#[test]
fn a_cost_that_is_known_is_found() {
    let (run, _) = beside_the_good_one(&["test.planted", "test.slow"]);
    let median = |probe| point(&run, probe).primary().unwrap().median;
    // A busy machine makes them longer; nothing makes them shorter.
    assert!(
        median("test.planted") > 99_000.0,
        "{}",
        median("test.planted")
    );
    assert!(
        median("test.slow") > 19_900_000.0,
        "{}",
        median("test.slow")
    );
}

#[test]
fn a_run_that_measured_nothing_says_so_by_its_exit_code() {
    for probe in ["test.unsupported", "test.panic"] {
        let place = Place::new();
        let ended = run(&mut place.misbehaving(&["run", probe, "--quick", "--out", "run.jsonl"]));
        let ended = ended.expect_code(3);
        assert_contains(&ended.err, "nothing could be measured");
        let run = read(&place.path("run.jsonl"));
        let reason = &run.failures.last().unwrap().reason;
        assert_contains(&ended.out, reason);
        assert_eq!(run.end.unwrap().points, 0);
    }
}

#[test]
fn the_table_is_json_where_it_is_asked_for() {
    let place = Place::new();
    let arguments = "run test.good test.panic --quick --json";
    let ended = run(&mut place.misbehaving(arguments)).expect_code(0);
    let [line, failure] = ended.out.lines().collect::<Vec<_>>()[..] else {
        panic!("not one point and one failure: {}", ended.out);
    };
    let point: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(point["type"], "point");
    assert_eq!(point["probe"], "test.good");
    assert!(point["metrics"][0]["median"].as_f64().unwrap() > 0.0);
    // The point as a whole, and not each of its launches.
    let failure: serde_json::Value = serde_json::from_str(failure).unwrap();
    assert_eq!(failure["type"], "failure");
    assert_eq!(failure["probe"], "test.panic");
    assert!(failure.get("launch").is_none());
}
