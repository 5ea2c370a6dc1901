//! A probe that misbehaves costs its own launches and no more: each loss is a
//! row that names the cause, the others have their numbers, and nothing is
//! left running.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, expect_all_launches, expect_launches,
    planned_launches, point,
};
use costof_model::failure::FailureKind::{self, Crashed, TimedOut, Unsupported};
use costof_model::noise::Grade;
use costof_model::rows::{FailureRow, State};
use costof_model::run_file::Run;

/// A run of the good probe and another one, and how it ended; the good one
/// must have all its launches.
fn beside_the_good_one(words: &str) -> (Run, Ended) {
    let place = Place::new();
    let line = format!("run test.good {words} --quick --seed 1 --out run.jsonl");
    let mut ended = place.run_misbehaving(&line);
    place.expect_nothing_runs();
    let run = place.run_file();
    assert!(run.end.is_some(), "{ended:?}");
    let is_refused = |row: &FailureRow| {
        row.point.probe == "test.good" && row.reason.contains("twice the work took")
    };
    // A busy machine may leave it without a number.
    if !run.failures.iter().any(is_refused) {
        ended = ended.expect_code(0);
        assert_eq!(point(&run, "test.good").state, State::Ok);
    }
    expect_all_launches(&run, "test.good");
    assert_contains(&ended.out, "test.good");
    (run, ended)
}

/// The failures of a point, one a lost launch, after checking that the point
/// as a whole failed for the same reason, and that the table says so.
fn lost(run: &Run, ended: &Ended, point: &str) -> Vec<FailureRow> {
    let failures = run.failures.iter().filter(|row| row.point.to_string() == point);
    let (launches, whole): (Vec<_>, Vec<_>) = failures.partition(|row| row.launch.is_some());
    let [whole] = whole.as_slice() else {
        panic!("{point} failed as a whole {} times", whole.len());
    };
    assert!(!run.points.iter().any(|row| row.point == whole.point));
    assert_eq!(whole.failure(), launches[0].failure());
    assert_contains(&ended.out, &whole.reason);
    launches.into_iter().cloned().collect()
}

/// How many launches of the block with `probe` the file has.
fn launches(run: &Run, probe: &str) -> usize {
    let blocks = &run.run.plan.blocks;
    let launches = run.launches.iter();
    launches.filter(|row| blocks[row.block].points[0].probe == probe).count()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_crashes_or_hangs_twice_is_told_by_its_cause_and_left_out_of_later_launches() {
    // What hangs may take no time; what crashes may need much on a busy machine.
    const HANGS: &str = "--timeout 30";
    for (point, options, kind, causes) in [
        ("test.crash by=segv", "", Crashed, &["SIGSEGV"][..]),
        ("test.crash by=abort", "", Crashed, &["SIGABRT"]),
        ("test.crash by=kill", "", Crashed, &["SIGKILL"]),
        (
            // Whatever backtraces say.
            "test.panic",
            "",
            Crashed,
            &["exit code 101", "misbehaving.rs", "invariant"],
        ),
        ("test.hang how=sleep", HANGS, TimedOut, &["within 30 s", "--timeout"]),
        ("test.memory", "", Crashed, &["SIGABRT", "16777216 bytes"]),
        // A child that would outlive its worker does not.
        ("test.leaves_child end=crash", "", Crashed, &["SIGABRT"]),
    ] {
        let words = format!("{} {options}", point.replace(' ', " --set "));
        let (run, ended) = beside_the_good_one(&words);
        let lost = lost(&run, &ended, point);
        assert_eq!(lost.len(), 2, "{lost:?}");
        let probe = point.split(' ').next().unwrap();
        assert_eq!(launches(&run, probe), 2);
        for row in lost {
            assert_eq!(row.kind, kind, "{row:?}");
            assert_contains_all(&row.reason, causes);
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn stray_prints_and_children_are_no_fault() {
    for (probe, set) in [("test.rubbish", "to=prints"), ("test.leaves_child", "end=well")] {
        let (run, _) = beside_the_good_one(&format!("{probe} --set {set}"));
        expect_all_launches(&run, probe);
        assert!(run.failures.is_empty(), "{:?}", run.failures);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rubbish_on_the_protocols_own_stream_costs_each_launch_that_has_it() {
    let (run, ended) = beside_the_good_one("test.rubbish --set to=protocol");
    let lost = lost(&run, &ended, "test.rubbish to=protocol");
    assert_eq!(lost.len(), planned_launches(&run, "test.rubbish"));
    for row in lost {
        assert_eq!(row.kind, FailureKind::Error);
        // Quoted, with nothing that would move a terminal's cursor.
        let named = ["malformed message", "`nonsense\u{fffd}[31m`"];
        assert_contains_all(&row.reason, &named);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_reason_that_would_rule_a_terminal_or_fill_a_disk_is_made_harmless() {
    let (run, ended) = beside_the_good_one("test.escapes");
    for row in lost(&run, &ended, "test.escapes") {
        assert!(row.reason.starts_with("\u{fffd}[2J\u{fffd}31m\u{fffd}xxx"), "{}", row.reason);
        assert!(row.reason.len() < 10_000, "{}", row.reason.len());
    }
    let moves_a_cursor = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(!moves_a_cursor(&ended.out) && !moves_a_cursor(&ended.err));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_wrong_answer_is_told_in_the_probes_own_words() {
    let (run, ended) = beside_the_good_one("test.error");
    let lost = lost(&run, &ended, "test.error");
    assert_eq!(lost.len(), planned_launches(&run, "test.error"));
    let mut reasons = lost.iter().map(|row| &row.reason);
    assert!(reasons.all(|reason| reason.ends_with("41 and not 42")));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_crashes_once_has_its_number_from_the_other_launches() {
    let (run, ended) = beside_the_good_one("test.crash_once");
    let [failure] = run.failures.as_slice() else {
        panic!("{:?}", run.failures);
    };
    assert_eq!((failure.launch, failure.kind), (Some(0), Crashed));
    // Another launch makes up for it.
    expect_all_launches(&run, "test.crash_once");
    assert_contains(&ended.out, "launch 1 lost: test.crash_once");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_point_that_crashes_is_left_out_and_its_neighbours_in_the_block_go_on() {
    let (run, ended) = beside_the_good_one("test.crash --set by=abort,no");
    assert_eq!(lost(&run, &ended, "test.crash by=abort").len(), 2);
    // A launch that is lost is lost for the whole block, and made up for.
    let planned = planned_launches(&run, "test.crash");
    expect_launches(launches(&run, "test.crash") - 2, planned);
    expect_all_launches(&run, "test.crash");
}

#[test]
fn what_is_not_to_be_had_here_is_asked_once() {
    let (run, ended) = beside_the_good_one("test.unsupported");
    let lost = lost(&run, &ended, "test.unsupported");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].kind, Unsupported);
    assert_contains(&lost[0].reason, "(buy one)");
    assert_eq!(launches(&run, "test.unsupported"), 1);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_block_that_cannot_start_fails_at_every_point() {
    for (why, kind, reason, launches) in [
        ("unsupported", Unsupported, "no such room (build one)", &[Some(0)][..]),
        ("exit", Crashed, "exit code 9", &[Some(0), Some(1)]),
    ] {
        let line = format!("test.no_start --set why={why} --set point=first,second,third");
        let (run, ended) = beside_the_good_one(&line);
        for point in ["first", "second", "third"] {
            let lost = lost(&run, &ended, &format!("test.no_start point={point} why={why}"));
            let in_launches: Vec<Option<u32>> = lost.iter().map(|row| row.launch).collect();
            assert_eq!(in_launches, launches);
            for row in lost {
                assert_eq!(row.kind, kind);
                assert_contains(&row.reason, reason);
            }
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_loop_that_the_optimiser_removed_has_no_number() {
    let (run, ended) = beside_the_good_one("test.removed_loop --set time=none");
    let none = point(&run, "test.removed_loop");
    assert_eq!(none.state, State::BelowResolution);
    assert!(none.primary().is_none() && none.metrics.is_empty());
    let mut lines = ended.out.lines();
    let line = lines.find(|line| line.contains("test.removed_loop"));
    assert_contains(line.unwrap(), "below resolution");

    // One launch that crashed beside those does not explain it.
    for time in ["constant", "crash_once"] {
        let (run, ended) = beside_the_good_one(&format!("test.removed_loop --set time={time}"));
        let has_crashed = run.failures[0].kind == Crashed;
        assert_eq!(has_crashed, time == "crash_once");
        let whole = run.failures.iter().find(|row| row.launch.is_none());
        let mut rows = run.points.iter();
        let row = rows.find(|row| row.point.probe == "test.removed_loop");
        match (whole, row) {
            (Some(whole), None) => {
                assert_contains(&whole.reason, "twice the work took");
                assert_contains(&ended.out, &whole.reason);
            }
            // On a busy machine its launches may differ too much to prove anything.
            (None, Some(row)) => assert!(row.grade >= Grade::C, "{row:?}"),
            both => panic!("{both:?}"),
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_launch_of_batches_that_stay_short_is_still_a_line_of_bounded_length() {
    let place = Place::new();
    let line = "run test.removed_loop --set time=none --quick --seed 1 --out run.jsonl";
    place.run_misbehaving(line).expect_code(0);
    let text = std::fs::read_to_string(place.path("run.jsonl")).unwrap();
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 1 << 20, "a line of {longest} bytes");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_cost_that_is_known_is_found() {
    let (run, _) = beside_the_good_one("test.planted test.slow");
    // A busy machine makes them longer; nothing makes them shorter.
    for (probe, least_ns) in [("test.planted", 99_000.0), ("test.slow", 19_900_000.0)] {
        // Where each batch is late by as much, longer ones cost less, and there is no number.
        let mut failures = run.failures.iter();
        let refused = |row: &&FailureRow| row.point.probe == probe && row.launch.is_none();
        if let Some(row) = failures.find(refused) {
            assert_contains(&row.reason, "twice the work took");
            continue;
        }
        let median = point(&run, probe).primary().unwrap().median;
        assert!(median > least_ns, "{probe}: {median}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_that_measured_nothing_says_so_by_its_exit_code() {
    for probe in ["test.unsupported", "test.panic"] {
        let place = Place::new();
        let ended =
            place.run_misbehaving(&format!("run {probe} --quick --out run.jsonl")).expect_code(3);
        assert_contains(&ended.err, "nothing could be measured");
        let run = place.run_file();
        assert_contains(&ended.out, &run.failures.last().unwrap().reason);
        assert_eq!(run.end.unwrap().points, 0);
    }
}

#[test]
fn the_table_is_json_where_it_is_asked_for() {
    let place = Place::new();
    let ended = place.run_misbehaving("run test.good test.panic --quick --json").expect_code(0);
    let rows: Vec<serde_json::Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [point, failure, cores] = rows.as_slice() else {
        panic!("not one point, one failure and the cores: {}", ended.out);
    };
    assert_eq!(cores["type"], "cores");
    assert!(cores["alone"].is_array());
    assert_eq!(point["type"], "point");
    assert_eq!(point["probe"], "test.good");
    assert!(point["metrics"][0]["median"].as_f64().unwrap() > 0.0);
    // The point as a whole, and not each of its launches.
    assert_eq!(failure["type"], "failure");
    assert_eq!(failure["probe"], "test.panic");
    assert!(failure["launch"].is_null());
}
