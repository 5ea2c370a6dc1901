//! `costof-bench commands`, as short as it can be: its tables have a line for each kind and judge, whatever stands in them.

use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_costof-bench");
/// A whole costof.
const COSTOF: &str = env!("CARGO_BIN_EXE_costof-planted");
const KINDS: [&str; 4] = ["CPU-bound", "memory", "system calls", "two processes"];

#[test]
#[ignore = "long; ./check --all runs it"]
fn its_tables_have_a_line_for_each_kind_and_judge() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        eprintln!("skipped: it takes two CPUs");
        return;
    }
    let short = "--rounds 1 --milliseconds 3 --runs 4 --seconds 1 --costof";
    let mut bench = Command::new(BENCH);
    bench.arg("commands").args(short.split(' ')).arg(COSTOF);
    let ended = bench.output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    // Two tries decide nothing.
    assert_eq!(ended.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&ended.stderr));
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    let judges = if text.contains("hyperfine is left out") { 3 } else { 5 };
    for kind in KINDS {
        // A line for each planted change, each judge, and the width.
        assert_eq!(rows(&format!("| {kind}")), 6 + judges + 1, "{kind}: {text}");
    }
    assert_eq!(rows("| all |"), 6 + judges, "{text}");
    for part in [
        "93 to 97 % of the intervals; verdict: inconclusive",
        "costof time ls: ",
        "the sampler takes ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("verdict: ").count(), 6 + 1 + 4 + 2, "{text}");
}
