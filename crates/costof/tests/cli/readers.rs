//! pandas and DuckDB read a run file as it is: what DESIGN.md promises of the
//! format. `COSTOF_PYTHON` names a Python that has both; `./check` makes one.

use crate::common::{Place, run};
use std::process::Command;

#[test]
fn pandas_and_duckdb_read_a_run_file_as_it_is() {
    let asked = std::env::var_os("COSTOF_PYTHON");
    let python = asked.clone().unwrap_or_else(|| "python3".into());
    let can_import = Command::new(&python)
        .args(["-c", "import duckdb, pandas"])
        .output();
    if !can_import
        .as_ref()
        .is_ok_and(|output| output.status.success())
    {
        assert!(
            asked.is_none(),
            "COSTOF_PYTHON has no pandas and duckdb: {can_import:?}"
        );
        eprintln!("skipped: python3 has no pandas and duckdb (set COSTOF_PYTHON to one that has)");
        return;
    }
    let place = Place::new();
    // With headlines, several axes, predictions, a failure of each kind that is cheap.
    let words = "run test.good test.planted test.panic test.unsupported test.crash --set by=no \
                 --quick --out faults.jsonl";
    run(&mut place.misbehaving(words)).expect_code(0);
    let words = "run null cpu.frequency cpu.clock memory.latency --set size=16KiB,64KiB \
                 --set source=tsc_fenced --quick --out real.jsonl";
    let words: Vec<&str> = words.split_whitespace().collect();
    run(&mut place.costof(&words)).expect_code(0);
    for file in ["faults.jsonl", "real.jsonl"] {
        let mut script = Command::new(&python);
        script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_run.py"));
        run(script.arg(place.path(file))).expect_code(0);
    }
}
