//! pandas and DuckDB read a run file as it is, and as docs/data.md shows. `COSTOF_PYTHON` names a Python that
//! has both; `./check --all` makes one.

use crate::common::{Place, run, skipped};
use std::process::Command;

#[test]
#[ignore = "long; ./check --all runs it"]
fn pandas_and_duckdb_read_a_run_file_as_it_is() {
    let asked = std::env::var_os("COSTOF_PYTHON");
    let python = asked.clone().unwrap_or_else(|| "python3".into());
    let can_import = Command::new(&python).args(["-c", "import duckdb, pandas"]).output();
    let imports = |tried: &std::process::Output| tried.status.success();
    if !can_import.as_ref().is_ok_and(imports) {
        assert!(asked.is_none(), "COSTOF_PYTHON cannot: {can_import:?}");
        return skipped("python3 has no pandas and duckdb (set COSTOF_PYTHON to one that has)");
    }
    let place = Place::new();
    // With headlines, several axes, predictions, a failure of each kind that is cheap.
    let line = "run test.good test.planted test.panic test.unsupported test.crash --set by=no \
                 --quick --out faults.jsonl";
    place.run_misbehaving(line).expect_code(0);
    let words = "--only harness.null cpu.frequency cpu.clock memory.latency memory.bandwidth --quick \
                 --set size=16KiB,64KiB --set source=tsc_fenced";
    place.quiet_run(words, "run.jsonl");
    for csv in ["run.csv", "values/"] {
        place.run(&format!("report run.jsonl --csv {csv}")).expect_code(0);
    }
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for arguments in [
        ["read_run.py", "faults.jsonl"],
        ["read_run.py", "run.jsonl"],
        ["run_snippets.py", concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data.md")],
    ] {
        let mut script = Command::new(&python);
        script.current_dir(place.path(""));
        script.arg(format!("{tests}/{}", arguments[0]));
        run(script.arg(arguments[1])).expect_code(0);
    }
}
