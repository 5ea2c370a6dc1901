//! A busy machine is mentioned before it is measured. How busy it is, a worker's answer is made to say.

use crate::common::{COSTOF, Ended, Place, assert_contains_all, run};

const BUSY: &str = r#"{"is":"watched","contention":{"cpus":2,"others":1.0,"steal":0.0}}"#;
const QUIET: &str = r#"{"is":"watched","contention":{"cpus":2,"others":0.0,"steal":0.0}}"#;
/// As a worker answers that is too old to look.
const OLD: &str = r#"{"is":"failed","kind":"error","reason":"malformed command"}"#;

/// A run on a host whose worker answers so when it is to look.
fn run_where(answer: &str, options: &str) -> (Place, Ended) {
    let place = Place::new();
    let mut costof =
        place.costof(&format!("run --only null --quick {options} --out run.jsonl --on"));
    costof.env_remove("COSTOF_NO_PREFLIGHT");
    costof.arg(format!("exec:{COSTOF} worker | sed -u 's/.*\"is\":\"watched\".*/{answer}/'"));
    let ended = run(&mut costof);
    (place, ended)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_busy_host_is_named_with_the_grade_to_expect_and_measured_all_the_same() {
    let (place, ended) = run_where(BUSY, "");
    let said = ["is busy: ", "100 % of 2 CPUs", "grade C", "--wait-quiet"];
    assert_contains_all(&ended.expect_code(0).err, &said);
    place.read("run.jsonl");
    for (answer, options) in [(QUIET, "--require-quiet"), (OLD, "")] {
        let ended = run_where(answer, options).1.expect_code(0);
        assert!(!ended.err.contains("busy:"), "{}", ended.err);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn where_a_quiet_host_is_required_a_busy_one_gets_no_run_file() {
    for (answer, options, said) in [
        (BUSY, "--require-quiet", "--require-quiet"),
        (BUSY, "--require-quiet --wait-quiet 1s", "waiting, up to 1s"),
        (OLD, "--require-quiet", "its costof is older"),
    ] {
        let (place, ended) = run_where(answer, options);
        assert_contains_all(&ended.expect_code(3).err, &[said]);
        assert!(!place.path("run.jsonl").exists());
    }
}
