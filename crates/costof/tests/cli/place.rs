//! `costof place`, its corpus, and the anonymous references of which that consists.

use crate::common::{COSTOF, Place, assert_contains, assert_contains_all, or_skip, run};
use crate::released::unpacked;
use costof_measure::probe::find;
use costof_model::noise::{Grade, MEASURED};
use costof_model::reference::Reference;
use costof_model::run_file::{self, Run};
use costof_probes::TABLE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const SECRET: &str = "Planted-secret";

/// A folder with a run of a whole table, `run.jsonl`, which a release measured: as if by the present methods, and quiet.
fn measured() -> Place {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released/0.2.0");
    let place = unpacked(&release).0;
    let mut run = place.run_file();
    run.launches.clear();
    for row in &mut run.points {
        if let Some(probe) = find(TABLE, &row.point.probe) {
            row.method = probe.info.method;
        }
        row.grade = Grade::B;
    }
    place.write("run.jsonl", run);
    place
}

fn entry(place: &Place, file: &str) -> (String, Reference) {
    let export = format!("export {file} --anonymous --format reference");
    let text = place.run(&export).expect_code(0).out;
    let reference = Reference::read_or_entry(text.as_bytes()).unwrap();
    (text, reference)
}

/// The paths of all strings and of all objects in a value, those together that differ in the positions of lists alone.
fn paths(value: &Value, path: &str, found: &mut [BTreeMap<String, Vec<String>>; 2]) {
    let kind = match value {
        Value::String(_) => 0,
        Value::Object(_) => 1,
        _ => 2,
    };
    if let Some(found) = found.get_mut(kind) {
        let is_name = |part: &&str| part.parse::<usize>().is_err();
        let group = path.split('/').filter(is_name).collect::<Vec<_>>().join("/");
        found.entry(group).or_default().push(path.to_owned());
    }
    match value {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                paths(item, &format!("{path}/{at}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                paths(item, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// A line with the secret in every text, and in a field of every object, as far as the file can still be read with it.
fn planted(line: &str, spared: &[&str], is_read: impl Fn(&str) -> bool) -> String {
    let mut row: Value = serde_json::from_str(line).unwrap();
    let mut found = [BTreeMap::new(), BTreeMap::new()];
    paths(&row, "", &mut found);
    let mut count = 0;
    for (kind, groups) in found.iter().enumerate() {
        for (_, paths) in groups.iter().filter(|(group, _)| !spared.contains(&&***group)) {
            let mut changed = row.clone();
            for path in paths {
                let value = changed.pointer_mut(path).unwrap();
                match value.as_str().map(|text| format!("{text}{SECRET}")) {
                    Some(text) if kind == 0 => *value = json!(text),
                    _ => value[SECRET] = json!(SECRET),
                }
            }
            if is_read(&changed.to_string()) {
                (row, count) = (changed, count + 1);
            }
        }
    }
    assert!(count > 0, "nothing could be planted in: {line}");
    row.to_string()
}

#[test]
fn nothing_private_survives_in_an_entry() {
    let place = measured();
    let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.contains(r#""type":"launch""#)).collect();
    let (first, last) = (lines[0], lines[lines.len() - 1]);
    let read = |lines: [&str; 3]| run_file::read(lines.join("\n").as_bytes());
    // What a row is: a text there makes another row of it, which is planted below.
    const IDENTITY: [&str; 4] = ["/probe", "/link", "/primary", "/metrics/name"];
    let mut planted: Vec<String> = (lines.iter().enumerate())
        .map(|(at, line)| match at {
            0 => planted(line, &["/type"], |line| read([line, last, last]).is_ok()),
            _ if line.contains(r#""type":"point""#) => {
                let is_read = |changed: &str| {
                    let same = |run: Run| run.points.first().map(|row| row.point.clone());
                    let [was, is] = [line, changed].map(|line| read([first, line, last]).map(same));
                    was.ok() == is.ok()
                };
                planted(line, &[&["/type"][..], &IDENTITY].concat(), is_read)
            }
            // The name of the CPU is what it is.
            _ => {
                let spared = ["/type", "/id", "/hosts/only/cpu/model_name"];
                planted(line, &spared, |line| read([first, line, last]).is_ok())
            }
        })
        .collect();
    // Each of these makes a row that no probe of costof's measures.
    let mut points = (0..lines.len()).filter(|at| lines[*at].contains(r#""type":"point""#));
    let mut change = |change: &dyn Fn(&mut Value) -> bool| {
        let found = points.by_ref().find_map(|at| {
            let mut row: Value = serde_json::from_str(&planted[at]).unwrap();
            change(&mut row).then_some((at, row))
        });
        let (at, row) = found.expect("such a row");
        planted[at] = row.to_string();
    };
    change(&|row| {
        row["probe"] = json!(SECRET);
        true
    });
    change(&|row| {
        row["link"] = json!(SECRET);
        true
    });
    change(&|row| {
        let axes = row["axes"].as_object_mut().unwrap();
        let word = axes.values_mut().find(|value| value.is_string());
        word.map(|value| *value = json!(format!("/{SECRET}"))).is_some()
    });
    change(&|row| {
        row["axes"][SECRET] = json!(1);
        true
    });
    change(&|row| {
        row["primary"] = json!(SECRET);
        row["metrics"][0]["name"] = json!(SECRET);
        true
    });
    fs::write(place.path("planted.jsonl"), planted.join("\n") + "\n").unwrap();
    let ((text, planted), (_, whole)) =
        (entry(&place, "planted.jsonl"), entry(&place, "run.jsonl"));
    assert!(!text.to_lowercase().contains(&SECRET.to_lowercase()), "{text}");
    // What an entry is for is still there.
    let [planted, whole] = [&planted, &whole].map(|reference| &reference.cohorts[0]);
    assert!(planted.rows.len() + 5 >= whole.rows.len() && planted.rows.len() >= 10);
    for row in &planted.rows {
        let same =
            whole.rows.iter().find(|whole| whole.of == row.of).expect("a row that was there");
        assert!((row.usual / same.usual - 1.0).abs() < 1e-9, "{row:?}");
    }
    let value = |name: &str| planted.facts.iter().find(|(what, _)| what == name).unwrap().1.clone();
    assert_eq!(value("hypervisor"), "other");
    assert_contains(&value("kernel"), ".");
    for fact in ["processor", "mitigations", "processors", "memory"] {
        assert_ne!(value(fact), "unknown", "{fact}");
    }
    // It says the same without the option.
    assert_eq!(place.run("export planted.jsonl --format reference").expect_code(0).out, text);
}

/// The script that checks entries, on this file.
fn checked(place: &Place, file: &str) -> crate::common::Ended {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/check-entry");
    run(Command::new("python3").arg(script).args([COSTOF, file]).current_dir(place.path("")))
}

#[test]
fn the_script_takes_what_export_writes_and_refuses_what_may_be_private() {
    let python = Command::new("python3").arg("--version").output();
    or_skip!(python.map_err(|error| format!("python3: {error}")));
    let place = measured();
    let (text, _) = entry(&place, "run.jsonl");
    let whole: Value = serde_json::from_str(&text).unwrap();
    fs::write(place.path("entry.json"), &text).unwrap();
    let ended = checked(&place, "entry.json");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_contains(&ended.out, "entry.json: ok: ");
    let row = "/cohorts/0/rows/0";
    for (path, value, named) in [
        ("/by/0", json!("host"), "facts"),
        ("/costof", json!("0.2.0-of-somebody"), "version"),
        ("/precision", json!("wild"), "precision"),
        ("/cohorts/0/facts/0/1", json!("one <CPU>"), "processor"),
        ("/cohorts/0/facts/5/1", json!("6.18.44-somebody"), "kernel"),
        ("/cohorts/0/hosts", json!(2), "one host"),
        ("/cohorts", json!([]), "cohort"),
        (&format!("{row}/probe"), json!("mine.hash"), "mine.hash"),
        (&format!("{row}/link"), json!("10.0.0.1"), "10.0.0.1"),
        (&format!("{row}/point"), json!("at /home"), "/home"),
        (&format!("{row}/axes"), json!({"dir": "/home"}), "/home"),
        (&format!("{row}/usual"), json!("5"), "no number"),
        (&format!("{row}/error"), json!(null), "no number"),
        (row, json!({"label": "mine"}), "fields"),
        ("/cohorts/0/rows", json!([whole.pointer(row)]), "1 rows"),
        ("", json!([1]), "fields"),
        ("/cohorts/0", json!("text"), "fields"),
        ("/cohorts/0/facts", json!([1]), "not as an entry"),
    ] {
        let mut changed = whole.clone();
        *changed.pointer_mut(path).unwrap() = value;
        fs::write(place.path("changed.json"), changed.to_string()).unwrap();
        let ended = checked(&place, "changed.json");
        assert_eq!(ended.code, Some(1), "{path}: {ended:?}");
        assert_contains_all(&ended.out, &["changed.json: refused: ", named]);
        assert_eq!(ended.err, "", "{path}");
    }
    let mut noisy = whole.clone();
    for row in noisy["cohorts"][0]["rows"].as_array_mut().unwrap() {
        row["error"] = json!(0.1);
    }
    for text in [noisy.to_string(), text[..text.len() / 2].to_owned(), "x".repeat(2 << 20)] {
        fs::write(place.path("changed.json"), text).unwrap();
        assert_eq!(checked(&place, "changed.json").code, Some(1));
    }
}

#[test]
fn a_host_is_placed_among_the_machines_of_its_class() {
    let place = measured();
    fs::create_dir(place.path("corpus")).unwrap();
    for number in 1..=6 {
        let mut reference: Value = serde_json::from_str(&entry(&place, "run.jsonl").0).unwrap();
        for row in reference["cohorts"][0]["rows"].as_array_mut().unwrap() {
            let usual = row["usual"].as_f64().unwrap();
            row["usual"] = json!(usual * (1.0 + 0.003 * f64::from(number - 3)));
        }
        fs::write(place.path(&format!("corpus/{number}.json")), reference.to_string()).unwrap();
    }
    let like = place.run("place run.jsonl --among corpus").expect_code(0).out;
    let like = like.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(&like, &["Like the 6 machines with this CPU (", "kernel ", "hypervisor "]);
    // One row is a thousand times as slow.
    let mut slow = place.read("run.jsonl");
    let mut rows = slow.points.iter_mut();
    let getppid = rows.find(|row| row.label.as_deref() == Some("system call: getppid"));
    let row = getppid.expect("a row of the table");
    let estimate = &mut row.metrics[0];
    estimate.median *= 1000.0;
    estimate.ci95 = estimate.ci95.map(|(low, high)| (1000.0 * low, 1000.0 * high));
    place.write("slow.jsonl", slow);
    let shown =
        place.run("place slow.jsonl --among corpus/1.json --among corpus").expect_code(0).out;
    assert_contains_all(
        &shown,
        &["but for 1 of ", "system call: getppid", "over 10x worse", "6 of 6"],
    );
    let json = place.run("place slow.jsonl --among corpus --json").expect_code(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    let first = &json["rows"][0];
    assert_eq!((&first["outside"], &first["machines"]), (&json!(true), &json!(6)));
    assert_eq!(
        json["rows"].as_array().unwrap().iter().filter(|row| row["outside"] == true).count(),
        1
    );
    let all = place.run("place slow.jsonl --among corpus --all").expect_code(0).out;
    assert!(all.lines().count() > shown.lines().count() + 10, "{all}");
    // With another kernel, the class is wider; with another CPU, there is none.
    let changed = |change: fn(&mut costof_model::facts::Facts)| {
        let mut run = place.read("run.jsonl");
        run.attempts
            .iter_mut()
            .for_each(|attempt| change(attempt.hosts.get_mut(MEASURED).unwrap()));
        place.write("changed.jsonl", run);
        place.run("place changed.jsonl --among corpus")
    };
    let kernel = changed(|facts| facts.kernel.release = Some("7.1.0".to_owned()));
    let kernel = kernel.expect_code(0).out;
    assert!(!kernel.contains("kernel ") && kernel.contains("with this CPU ("), "{kernel}");
    let other = changed(|facts| facts.cpu.model_name = Some("another".to_owned()));
    assert_contains(&other.expect_code(3).err, "CPU");
    // The corpus that comes with costof: few machines say nothing, or there is none to compare with.
    let own = place.run("place run.jsonl");
    assert!([Some(0), Some(3)].contains(&own.code), "{own:?}");
}

#[test]
fn what_is_no_reference_is_refused_by_name() {
    let place = measured();
    let (text, _) = entry(&place, "run.jsonl");
    for folder in ["empty", "mixed"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    fs::write(place.path("empty/notes.txt"), "none").unwrap();
    fs::write(place.path("mixed/good.json"), &text).unwrap();
    fs::write(place.path("mixed/half.json"), &text[..text.len() / 2]).unwrap();
    fs::write(place.path("big.json"), format!("{text}{}", " ".repeat(50 << 20))).unwrap();
    fs::write(
        place.path("newer.json"),
        text.replace(r#""reference_schema": 1"#, r#""reference_schema": 9"#),
    )
    .unwrap();
    fs::write(place.path("bmf.json"), r#"{"os.syscall": {"latency": {"value": 1.0}}}"#).unwrap();
    fs::write(place.path("none.json"), text.replace(r#""hosts": 1"#, r#""hosts": 0"#)).unwrap();
    for (among, named) in [
        ("empty", "has no reference"),
        ("mixed", "mixed/half.json: it is not a costof reference"),
        ("big.json", "big.json: it is longer than"),
        ("newer.json", "schema 9"),
        ("bmf.json", "costof export RUN --format reference"),
        ("run.jsonl", "run.jsonl: it is not a costof reference"),
        ("none.json", "no host"),
        ("missing.json", "cannot read missing.json"),
    ] {
        place.run(&format!("place run.jsonl --among {among}")).expect_wrong(&[named]);
    }
    place.run("place missing.jsonl --among mixed/good.json").expect_wrong(&["missing.jsonl"]);
    // One host is something to be placed among, but nothing to be qualified against.
    place.run("qualify --against mixed/good.json").expect_wrong(&["one host"]);
    // A run without a row that any machine has.
    let mut run = place.read("run.jsonl");
    run.points.clear();
    place.write("nothing.jsonl", run);
    place.run("export nothing.jsonl --format reference").expect_code(3);
    place.run("place nothing.jsonl --among mixed/good.json").expect_code(3);
}
