//! The costof with the planted probe is a whole costof, told by its environment how much is planted.
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const PLANTED: &str = env!("CARGO_BIN_EXE_costof-planted");

fn compared(folder: &Path, percents: [&str; 2]) -> Output {
    let hosts = percents
        .map(|percent| format!("exec:COSTOF_PLANTED_PERCENT={percent} exec '{PLANTED}' worker"));
    Command::new(PLANTED)
        .args(["compare", "--interleave", &hosts[0], &hosts[1]])
        .args(["bench.planted", "--quick", "--json", "--out"])
        .arg(folder.join(percents[1]))
        // Tests take no turns with others.
        .env("COSTOF_LOCK_FOLDER", folder)
        .output()
        .unwrap()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn it_is_compared_with_itself_and_refuses_what_is_no_share() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let ended = compared(&folder, ["0", "5"]);
    let told: Value = serde_json::from_slice(&ended.stdout).unwrap();
    // Where one of both never had its core to itself, a row is refused.
    let rows = ["rows", "refused"].map(|kind| told["comparison"][kind].as_array().unwrap());
    let code = if rows[0].is_empty() { 3 } else { 0 };
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    let rows = rows.into_iter().flatten();
    let mut of: Vec<&str> = rows.map(|row| row["axes"]["of"].as_str().unwrap()).collect();
    of.sort_unstable();
    assert_eq!(of, ["core", "kernel", "memory"]);
    let ended = compared(&folder, ["0", "much"]);
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    let run = std::fs::read_to_string(folder.join("much/after.jsonl")).unwrap();
    assert!(run.contains("COSTOF_PLANTED_PERCENT is `much`"), "{run}");
    std::fs::remove_dir_all(&folder).unwrap();
}
