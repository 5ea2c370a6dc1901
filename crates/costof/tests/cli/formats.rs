//! `costof export --format`: the programs for which it writes read what it writes. `COSTOF_PYTHON` names a
//! Python that has Apache Otava and ReFrame; `./check --all` makes one.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, is_installed, run, skipped,
};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

const RUN: &str = "--only os.syscall cpu.frequency --quick --launches 3";

/// A folder with this many runs, `run1.jsonl` first.
fn measured(runs: usize) -> Place {
    let place = Place::new();
    for number in 1..=runs {
        let words = format!("{RUN} --seed {number}");
        place.quiet_run(&words, &format!("run{number}.jsonl"));
    }
    place
}

fn exported(place: &Place, words: &str) -> Ended {
    place.run(&format!("export {words}")).expect_code(0)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn prometheus_and_its_node_exporter_read_metrics() {
    let programs = ["promtool", "prometheus-node-exporter"];
    if let Some(missing) = programs.into_iter().find(|name| !is_installed(name)) {
        return skipped(format!(
            "{missing} is not installed (Debian's prometheus and its node exporter)"
        ));
    }
    let place = measured(1);
    // A file by this name, so that a collector never sees half of it.
    exported(&place, "run1.jsonl --format prometheus --all-metrics --out costof.prom");
    let file = fs::File::open(place.path("costof.prom")).unwrap();
    run(Command::new("promtool").args(["check", "metrics"]).stdin(file)).expect_code(0);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut exporter = Command::new("prometheus-node-exporter");
    exporter.arg("--collector.disable-defaults").arg("--collector.textfile");
    exporter.arg(format!("--collector.textfile.directory={}", place.path("").display()));
    exporter.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let mut exporter = exporter.spawn().unwrap();
    let scraped = scraped(port);
    exporter.kill().unwrap();
    exporter.wait().unwrap();
    assert_contains_all(
        &scraped,
        &[
            "node_textfile_scrape_error 0",
            "costof_median_seconds{",
            "costof_run_timestamp_seconds{",
            "probe=\"os.syscall\"",
        ],
    );
}

/// What a server on this port says of its metrics, as soon as it listens.
fn scraped(port: u16) -> String {
    let mut text = String::new();
    crate::common::wait_for("the exporter's answer", || {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
            return false;
        };
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        stream.read_to_string(&mut text).is_ok()
    });
    text
}

/// A program of the Python that has this module, or the reason why it cannot be tried.
pub(crate) fn python(module: &str, program: &str) -> Result<Command, String> {
    let asked = std::env::var_os("COSTOF_PYTHON");
    let python = PathBuf::from(asked.clone().unwrap_or_else(|| "python3".into()));
    let tried = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        assert!(asked.is_none(), "COSTOF_PYTHON cannot: {tried:?}");
        return Err(format!("python3 has no {module} (set COSTOF_PYTHON to one that has)"));
    }
    Ok(Command::new(python.with_file_name(program)))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn apache_otava_reads_a_row_for_each_run() {
    let mut otava = match python("otava", "otava") {
        Ok(otava) => otava,
        Err(why) => return skipped(why),
    };
    let place = measured(2);
    exported(&place, "run1.jsonl run2.jsonl --format otava --out otava/");
    let words = ["analyze", "costof", "--since", "2020-01-01", "--config-file", "otava.yaml"];
    otava.args(words).current_dir(place.path("otava"));
    let read = run(&mut otava).expect_code(0);
    assert_contains_all(
        &read.out,
        &[
            // Otava leaves out `os.`, with which all names begin.
            " syscall(call=getpid) ",
            &place.read("run2.jsonl").run.id,
        ],
    );
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn reframe_measures_the_same_again() {
    let mut reframe = match python("reframe", "reframe") {
        Ok(reframe) => reframe,
        Err(why) => return skipped(why),
    };
    let place = measured(1);
    exported(&place, "run1.jsonl --format reframe --out costof_check.py");
    let costof = PathBuf::from(env!("CARGO_BIN_EXE_costof"));
    let paths = [costof.parent().unwrap().to_owned()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = paths.into_iter().chain(std::env::split_paths(&path));
    reframe.env("PATH", std::env::join_paths(paths).unwrap());
    reframe.current_dir(place.path(""));
    reframe.args(["-r", "--performance-report", "-c", "costof_check.py"]);
    // A value may be worse than a tenth here: the test of ReFrame may fail, but it has the values.
    let read = run(&mut reframe);
    assert_contains(&read.out, "os.syscall(call=getpid)");
    let test = fs::read_to_string(place.path("costof_check.py")).unwrap();
    assert_contains(&test, r#"["--only","os.syscall","cpu.frequency","--quick","--launches","3"]"#);
    let test = test.replace("os.syscall(call=getpid)", "os.syscall(call=gone)");
    fs::write(place.path("costof_check.py"), test).unwrap();
    let failed = run(&mut reframe).expect_code(1);
    assert_contains(&failed.out, "no value of ['os.syscall(call=gone)']");
}

/// The metrics of costof that a text names.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("costof_")).collect()
}

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prometheus");

#[test]
#[ignore = "long; ./check --all runs it"]
fn rules_and_dashboard_name_metrics_that_there_are() {
    let place = Place::new();
    let words =
        "--only os.syscall memory.bandwidth --set size=16KiB --set op=read --quick --launches 3";
    place.quiet_run(words, "run1.jsonl");
    let exported = exported(&place, "run1.jsonl --format prometheus").out;
    let there_are = metrics(&exported);
    for file in ["costof.rules.yml", "costof.rules.test.yml", "dashboard.json"] {
        let text = fs::read_to_string(format!("{DOCS}/{file}")).unwrap();
        let named = metrics(&text);
        assert!(named.len() >= 4, "{file}: {named:?}");
        assert_eq!(
            named.difference(&there_are).collect::<Vec<_>>(),
            <[&&str; 0]>::default(),
            "{file}"
        );
    }
}

#[test]
fn promtool_accepts_the_rules_and_their_tests() {
    if !is_installed("promtool") {
        return skipped("promtool is not installed (Debian's prometheus)".to_owned());
    }
    // The dashboard's expressions, as rules.
    let dashboard = fs::read_to_string(format!("{DOCS}/dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let rules: Vec<_> = targets.enumerate().map(|(at, target)| {
        serde_json::json!({"record": format!("costof:{at}"), "expr": target["expr"]})
    }).collect();
    assert!(rules.len() > 6);
    let place = Place::new();
    let rules = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(place.path("dashboard.yml"), rules.to_string()).unwrap();
    let dashboard = place.path("dashboard.yml").display().to_string();
    for words in [
        ["check", "rules", "costof.rules.yml"],
        ["check", "rules", &dashboard],
        ["test", "rules", "costof.rules.test.yml"],
    ] {
        run(Command::new("promtool").args(words).current_dir(DOCS)).expect_code(0);
    }
}

/// Grafana's own library reads the dashboard, and writes back all that was there.
#[test]
fn grafana_s_library_reads_all_of_the_dashboard() {
    const READ: &str = "
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
register_default_plugins()
given = json.load(open('dashboard.json'))
read = json.loads(JSONEncoder().encode(Dashboard.from_json(given)))

def lost(given, read, path):
    if isinstance(given, dict) and isinstance(read, dict):
        return [it for key in given for it in lost(given[key], read.get(key), f'{path}.{key}')]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [it for at, (one, other) in enumerate(zip(given, read)) for it in lost(one, other, f'{path}[{at}]')]
    return [] if given == read else [f'{path}: {given} is read as {read}']

sys.exit('; '.join(lost(given, read, '')) or 0)
";
    let mut python = match python("grafana_foundation_sdk", "python3") {
        Ok(python) => python,
        Err(why) => return skipped(why),
    };
    run(python.args(["-c", READ]).current_dir(DOCS)).expect_code(0);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn json_formats_have_each_number() {
    let place = measured(2);
    let row = place.read("run1.jsonl");
    let rows = row.points.iter();
    let mut syscall = rows.filter(|row| row.point.id() == "os.syscall");
    let syscall = syscall.next().unwrap().primary().unwrap().clone();
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let bencher = read(&exported(&place, "run1.jsonl --format bencher").out);
    let latency = &bencher["os.syscall"]["latency"];
    assert_eq!(latency["value"], syscall.median);
    assert_eq!(latency["lower_value"], syscall.ci95.unwrap().0);
    exported(&place, "run1.jsonl --format github-action-benchmark --out github/");
    let file = |name: &str| read(&fs::read_to_string(place.path("github").join(name)).unwrap());
    assert!(file("smaller-is-better.json").as_array().unwrap().iter().any(|one| {
        one["name"] == "os.syscall" && one["value"] == syscall.median && one["unit"] == "ns"
    }));
    assert!(file("bigger-is-better.json").is_array());
    let lines = exported(&place, "run1.jsonl run2.jsonl --format superbench").out;
    let lines: Vec<_> = lines.lines().map(read).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["os.syscall/cost"], syscall.median);
    for (words, named) in [
        ("run1.jsonl run2.jsonl --format bencher", "takes one run"),
        ("run1.jsonl --format otava", "--out"),
        ("run1.jsonl --format bencher --out run1.jsonl", "is the run itself"),
        ("run1.jsonl --all-metrics", "--format"),
        ("run1.jsonl --all-metrics --format csv", "`csv`"),
        ("run1.jsonl --format svg", "--out FOLDER"),
        ("run1.jsonl run2.jsonl --format markdown", "takes one run"),
    ] {
        place.run(&format!("export {words}")).expect_wrong(&[named]);
    }
}
