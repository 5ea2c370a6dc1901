//! A worker that is right up to one message and hostile from then on: whatever the message and the fault, the
//! run ends in time, says why, and has no number of it.

use crate::common::{Place, ended, misbehaving, spawn};
use costof_model::rows::FailureRow;
use std::thread::scope;

/// The messages of a worker that describes the machine, and of one that measures.
const MESSAGES: [&str; 7] = ["hello", "description", "held", "opened", "prepared", "ran", "closed"];

/// What sed does with the message instead of passing it on.
const FAULTS: [&str; 7] = [
    // Silence.
    "d",
    r"s/.*/\xff\xfe garbage \x1b[2J/",
    // Cut off.
    "s/.\\{9\\}$//",
    // Another type, and another message.
    r#"s/.*/{"is":"prepared","offers":7}/"#,
    r#"s/.*/{"is":"busy","holder":"nobody"}/"#,
    // Twice.
    "p",
    // An end without a word.
    "Q",
];

/// What sed makes of the numbers in a message: such as nobody has measured.
const NUMBERS: [&str; 3] = [
    r"s/\[[0-9]*,\([0-9.]*\)\]/[0,\1]/g",
    r"s/\[\([0-9]*\),\([0-9.]*\)\]/[\1,-\2]/g",
    r"s/\([:,\[]\)[0-9][0-9.]*/\11e300/g",
];

/// What comes of a worker whose message meets this fault.
fn run_with(message: &str, fault: &str) {
    let place = Place::new();
    let worker = misbehaving();
    let hostile = format!(r#"exec:{worker} worker | sed -u '/"is":"{message}"/{{{fault}}}'"#);
    let line = "run test.good --launches 3 --timeout 3 --no-wait --seed 1 --out run.jsonl --on";
    let mut costof = place.misbehaving(line);
    let ended = ended(spawn(costof.arg(&hostile)));
    let what = format!("{message} {fault}: {ended:?}");
    assert!(matches!(ended.code, Some(0 | 3)), "{what}");
    let shown = [&ended.out, &ended.err];
    let moves_a_cursor = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!shown.iter().any(|text| text.contains(moves_a_cursor)), "{what}");
    assert!(shown.iter().all(|text| text.len() < 20_000), "{what}");
    place.expect_nothing_runs();
    if !place.path("run.jsonl").exists() {
        assert_eq!(ended.code, Some(3), "{what}");
        return;
    }
    let run = place.run_file();
    // What is said twice may do no harm.
    if fault != "p" {
        assert!(run.points.is_empty(), "{what}");
    }
    let has_reason = |row: &FailureRow| !row.reason.is_empty();
    assert!(run.failures.iter().all(has_reason), "{what}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_that_turns_hostile_at_any_message_gives_no_number() {
    const AT_ONCE: usize = 4;
    let faults = MESSAGES.map(|message| FAULTS.map(|fault| (message, fault)));
    let numbers = NUMBERS.map(|fault| ("closed", fault));
    let mut cases = [faults.as_flattened(), &numbers].concat();
    // A machine may take a minute to be described.
    cases.retain(|case| !["d", "Q"].map(|fault| ("description", fault)).contains(case));
    scope(|scope| {
        for cases in cases.chunks(cases.len().div_ceil(AT_ONCE)) {
            scope.spawn(move || {
                for (message, fault) in cases {
                    run_with(message, fault);
                }
            });
        }
    });
}
