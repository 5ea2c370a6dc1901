//! Names from elsewhere, of files and on the command line: they control no terminal and no shell.

use crate::common::{COSTOF, Place, assert_contains, run};
use costof_model::harmless;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_name_controls_no_terminal_and_is_one_word_of_a_command() {
    let place = Place::new();
    place.quiet_run("--only null --quick --seed 1", "run.jsonl");
    let hostile = "\u{1b}[2J\u{9b}1m\u{202e}; reboot.jsonl";
    fs::copy(place.path("run.jsonl"), place.path(hostile)).unwrap();
    let command = format!("exec:{COSTOF} worker # {hostile}");
    for (words, code) in [
        (["show", hostile].as_slice(), 0),
        (&["compare", hostile, hostile, hostile], 0),
        (&["explain", "null", "--run", hostile], 0),
        (&["run", "--on", hostile], 2),
        (&["run", "--dry-run", "null", "--on", "local", "--on", &command], 0),
        (&["doctor", hostile], 2),
        (&[hostile], 2),
    ] {
        let ended = run(place.costof("").args(words)).expect_code(code);
        let printed = ended.out + &ended.err;
        let harm = printed.find(|c| harmless::is_harmful(c) && c != '\n');
        assert_eq!(harm, None, "{words:?}: {printed:?}");
    }
    let shown = run(place.costof("show").arg(hostile)).expect_code(0).out;
    assert_contains(&shown, "costof show --notes '");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_name_that_is_no_text_is_no_panic() {
    let place = Place::new();
    let name = OsStr::from_bytes(b"\xff\xfe.jsonl");
    run(place.costof("run --only null --quick --out").arg(name)).expect_code(0);
    let shown = run(place.costof("show").arg(name)).expect_code(0).out;
    assert_contains(&shown, "\u{fffd}\u{fffd}.jsonl");
}
