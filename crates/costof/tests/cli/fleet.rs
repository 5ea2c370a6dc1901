//! `costof fleet`, `costof qualify` and `costof history`: runs of many hosts, and of many days.

use crate::common::{Place, assert_contains, assert_contains_all, run};
use costof_model::harmless;
use costof_model::noise::MEASURED;
use costof_model::rows::PointRow;
use serde_json::{Value, json};
use std::fs;

/// A folder `runs` with copies of a quiet run, as if of other hosts or of another day: each has this name, began
/// on this day, and costs this many times as much.
fn place(runs: impl IntoIterator<Item = (String, usize, f64)>) -> Place {
    let place = Place::new();
    let words = "--only os.syscall --set call=getppid,getpid,read,open --quick --launches 3";
    let quiet = place.quiet_run(words, "run.jsonl");
    fs::create_dir(place.path("runs")).unwrap();
    for (number, (host, day, factor)) in (1..).zip(runs) {
        let mut run = quiet.clone();
        run.run.started = format!("2026-11-{day:02}T12:00:00Z");
        for attempt in &mut run.attempts {
            attempt.hosts.get_mut(MEASURED).unwrap().host_name = Some(host.clone());
        }
        for estimate in run.points.iter_mut().flat_map(|row| &mut row.metrics) {
            estimate.median *= factor;
            estimate.ci95 = Some((estimate.median / 1.01, estimate.median * 1.01));
        }
        place.write(&format!("runs/{number}.jsonl"), run);
    }
    place
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_lasting_change_is_told_with_its_day_and_a_spike_is_not() {
    let cost = |day: usize| match day {
        9 => 3.0,
        20.. => 1.5,
        _ => 1.0 + 0.005 * (day % 4) as f64,
    };
    let place = place((1..=30).map(|day| ("host".to_owned(), day, cost(day))));
    let shown = place.run("history runs").expect_code(0).out;
    assert_contains_all(
        &shown,
        &["30 runs since 2026-11-01, 4 rows: 4 lasting changes", "2026-11-20", "49 % worse"],
    );
    assert!(!shown.contains("2026-11-09"), "{shown}");
    place.run("history runs --fail-changed --html history.html").expect_code(0);
    let page = fs::read_to_string(place.path("history.html")).unwrap();
    assert_contains_all(&page, &["2026-11-20 12:00", "system call: getppid", "<svg"]);
    place.run("history runs --html runs/1.jsonl").expect_wrong(&["is the run itself"]);
    // Nor is what was left out, of a newer release for example.
    let first = fs::read_to_string(place.path("runs/1.jsonl")).unwrap();
    let newer = first.replacen("\"schema\":1", "\"schema\":99", 1);
    assert_ne!(first, newer);
    fs::write(place.path("runs/newer.jsonl"), newer).unwrap();
    place.run("history runs --html runs/newer.jsonl").expect_wrong(&["is the run itself"]);
    fs::remove_file(place.path("runs/newer.jsonl")).unwrap();
    let json = place.run("history runs --json").expect_code(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let found = json["changes"][0]["found"].as_str().unwrap();
    let until = (1..=found[8..10].parse::<usize>().unwrap()).map(|run| format!("runs/{run}.jsonl"));
    let until = until.collect::<Vec<_>>().join(" ");
    let gate = format!("history {until} --fail-changed --junit checked.xml");
    let gate = place.run(&gate).expect_code(1).out;
    assert_contains(gate.lines().next().unwrap(), "FAIL: 4 of 4 rows decided; ");
    assert!(fs::read_to_string(place.path("checked.xml")).unwrap().contains("<failure "));
    // What nobody could see is no pass: a change shows after more runs than these.
    let six: Vec<String> = (1..=6).map(|run| format!("runs/{run}.jsonl")).collect();
    let gate = format!("history {} --fail-changed", six.join(" "));
    let few = place.run(&gate).expect_code(3).out;
    assert_contains_all(&few, &["INCONCLUSIVE: 0 of 4 rows decided", "or more after "]);
    let two = "history runs/1.jsonl runs/2.jsonl";
    for (options, code) in
        [("", 0), (" --fail-changed", 3), (" --fail-changed --undecided pass", 0)]
    {
        let none = Place::new().run(&format!("history{options}"));
        assert_contains_all(&none.expect_code(code).out, &["no run yet"]);
        let few = place.run(&format!("{two}{options}")).expect_code(code).out;
        assert_contains_all(&few, &["no lasting change", "needs five runs"]);
    }
}

/// Runners come with one CPU or another by chance: on every third, everything takes 30 % longer.
#[test]
#[ignore = "long; ./check --all runs it"]
fn another_cpu_is_a_class_of_its_own_and_no_change() {
    let is_other = |day: usize| day.is_multiple_of(3);
    let cost = |day| if is_other(day) { 1.3 } else { 1.0 } * (1.0 + 0.005 * (day % 4) as f64);
    let place = place((1..=30).map(|day| ("runner".to_owned(), day, cost(day))));
    let on = |day: usize, model: &str| {
        let file = format!("runs/{day}.jsonl");
        let mut run = place.read(&file);
        for attempt in &mut run.attempts {
            let facts = attempt.hosts.get_mut(MEASURED).unwrap();
            facts.cpu.model_name = Some(model.to_owned());
        }
        place.write(&file, run);
    };
    // Of one name, they are one series, in which every third run is off.
    (1..=30).filter(|day| is_other(*day)).for_each(|day| on(day, "CPU of another type"));
    let gate = "history runs --fail-changed";
    let shown = place.run(gate).expect_code(0).out;
    let first = "PASS: 4 of 4 rows decided; no lasting change up to the latest run";
    let classes =
        ["CPU of another type", ": 10 runs since 2026-11-03", ": 20 runs since 2026-11-01"];
    assert_contains_all(&shown, &[first, "no lasting change", "each followed by itself"]);
    assert_contains_all(&shown.split_whitespace().collect::<Vec<_>>().join(" "), &classes);
    on(30, "CPU that is new");
    let shown = place.run(gate).expect_code(3).out;
    let first = shown.lines().next().unwrap();
    assert_contains_all(first, &["INCONCLUSIVE: 0 of 0", "new machine class, CPU that is new"]);
    let json: Value = serde_json::from_str(&place.run("history runs --json").out).unwrap();
    let machines = json["machines"].as_array().unwrap();
    let classes = machines.iter().map(|it| (&it["runs"], it["is_followed"].as_bool().unwrap()));
    let classes: Vec<_> = classes.collect();
    assert_eq!(classes, [(&json!(20), true), (&json!(9), true), (&json!(1), false)]);
}

/// Twenty hosts of two kernels, on one of which calls take 12 % longer: in `runs`, those of the new one with even numbers.
fn upgraded() -> Place {
    let hosts = (0..20).map(|number| {
        let times = if number % 2 == 1 { 1.12 } else { 1.0 };
        (format!("n{number:02}"), 1 + number % 2, times * (1.0 + 0.003 * (number % 5) as f64))
    });
    let place = place(hosts);
    let kernel = |path: &str, release: &str| {
        let mut run = place.read(path);
        for attempt in &mut run.attempts {
            let facts = attempt.hosts.get_mut(MEASURED).unwrap();
            facts.kernel.release = Some(release.to_owned());
            facts.cpu.microcode = Some("0x1".to_owned());
        }
        place.write(path, run);
    };
    for number in 1..=20 {
        kernel(&format!("runs/{number}.jsonl"), if number % 2 == 0 { "6.20.0" } else { "6.18.44" });
    }
    place
}

/// What is said of [`upgraded`].
const SLOWER: &str = "SLOWER  kernel 6.18.44 → 6.20.0 (10 against 10 hosts): kernel layer 12 % (";

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_kernel_on_which_hosts_are_slower_is_named() {
    let place = upgraded();
    let of = |words: &str| place.run(&format!("fleet runs {words}"));
    for words in ["", "--versus kernel"] {
        let shown = of(words).expect_code(0).out;
        let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&line, &SLOWER.replace("  ", " "));
    }
    let summary = of("--versus kernel --summary").expect_code(0).out;
    assert_eq!(summary.lines().count(), 3, "{summary}");
    assert!(summary.starts_with(SLOWER), "{summary}");
    of("--versus kernal").expect_wrong(&["no fact `kernal`", "kernel"]);
    of("--versus microcode").expect_wrong(&["1 value of `microcode`"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn two_groups_of_hosts_are_compared_in_three_lines() {
    let place = upgraded();
    for folder in ["old", "new", "small", "canary"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    for number in 1..=20 {
        let folder = if number % 2 == 0 { "new" } else { "old" };
        let [from, to] = ["runs", folder].map(|at| place.path(&format!("{at}/{number}.jsonl")));
        fs::rename(from, to).unwrap();
    }
    let summary = place.run("compare old new --summary").expect_code(0).out;
    let lines: Vec<&str> = summary.lines().collect();
    assert_eq!(lines.len(), 3, "{summary}");
    assert_contains_all(lines[0], &[SLOWER, "; 4 of 4 rows decided"]);
    assert_contains_all(lines[1], &["Most changed: ", " 12 % slower ("]);
    assert_eq!(lines[2], "Everything was decided");
    let markdown = place.run("compare old new --summary --markdown").expect_code(0).out;
    let marked =
        format!("**SLOWER** {}\n- {}\n- {}\n", &lines[0]["SLOWER  ".len()..], lines[1], lines[2]);
    assert_eq!(markdown, marked);
    let json = place.run("compare old new --summary --json").expect_code(0).out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"]["verdict"], "SLOWER");
    assert_eq!(json["summary"]["lines"][1], lines[1]);
    // Exports, lists of files and all rows say the same.
    for number in (1..=20).filter(|number| number % 2 == 0) {
        let exported = place.run(&format!("export new/{number}.jsonl")).expect_code(0).out;
        fs::write(place.path(&format!("small/{number}.jsonl")), exported).unwrap();
    }
    let listed = (1..=20).step_by(2).map(|number| format!("old/{number}.jsonl"));
    let listed = listed.collect::<Vec<_>>().join(" ");
    let same = place.run(&format!("compare {listed} --with small --summary")).expect_code(0).out;
    assert_eq!(same, summary);
    let shown = place.run("compare old new --html page.html").expect_code(0).out;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(&words, &[&SLOWER.replace("  ", " "), "Each host counts once", "95 %"]);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_contains_all(&page, &["kernel layer 12 %", "old</code>", "in 10 hosts"]);
    // A gate.
    let gate = place.run("compare old new --threshold 5 --junit checked.xml").expect_code(1).out;
    assert!(gate.starts_with("FAIL: 4 of 4 rows decided; "), "{gate}");
    let junit = fs::read_to_string(place.path("checked.xml")).unwrap();
    assert_contains_all(
        &junit,
        &["tests=\"5\" failures=\"5\" errors=\"0\"", "name=\"kernel layer\""],
    );
    place.run("compare new old --threshold 5").expect_code(0);
    // One host of the new kernel may be slower than the others for itself, so it must be further off.
    fs::copy(place.path("new/2.jsonl"), place.path("canary/2.jsonl")).unwrap();
    let canary = place.run("compare old canary --summary").expect_code(0).out;
    assert_contains(&canary, "(10 against 1 host)");
    place.run("compare old new --with old/1.jsonl").expect_wrong(&["is on both sides"]);
    place.run("compare old new --markdown").expect_wrong(&["--summary"]);
    for gate in
        ["compare old new --threshold 5", "fleet old new --fail-odd", "history old --fail-changed"]
    {
        let over = place.run(&format!("{gate} --junit old/1.jsonl"));
        over.expect_wrong(&["is the run itself"]);
    }
    place.run("compare old new --junit checked.xml").expect_wrong(&["--threshold"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_says_what_it_shows_to_have_changed_and_else_nothing() {
    let cost = |day: usize| match day {
        21.. => 1.5,
        _ => 1.0 + 0.005 * (day % 4) as f64,
    };
    let place = place((1..=28).map(|day| ("host".to_owned(), day, cost(day))));
    let own = place.path("state/costof/runs");
    fs::create_dir_all(&own).unwrap();
    let mut told = Vec::new();
    for number in 1..=28 {
        let file = format!("{number}.jsonl");
        fs::copy(place.path("runs").join(&file), own.join(&file)).unwrap();
        if number < 20 {
            continue;
        }
        let path = own.join(&file).display().to_string();
        // It has all launches, so nothing is measured.
        let run = place.run(&format!("run --resume {path} --force --history"));
        let shown = place.run(&format!("show {path}")).expect_code(0).out;
        let run = run.expect_code(0).out;
        let more = run.strip_prefix(&shown).expect("what `show` shows");
        told.extend((!more.is_empty()).then(|| (number, more.to_owned())));
    }
    let [(22..=26, text)] = &told[..] else {
        panic!("{told:?}");
    };
    // Where a line ends depends on what was measured.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(
        &text,
        &["- changed for good since 2026-11-21: ", " worse), and 3 more rows (`costof history`)"],
    );
    for refused in ["--dry-run", "--json"] {
        let line = format!("run os.syscall --history {refused}");
        place.run(&line).expect_wrong(&["--history", refused]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn nodes_that_share_a_host_name_have_files_of_their_own() {
    let place = Place::new();
    for (variable, node, file) in [
        ("COSTOF_HOST_NAME", "node-7.rack", "runs/node-7.rack.jsonl"),
        ("SLURMD_NODENAME", "../n1", "runs/_..-n1.jsonl"),
    ] {
        let mut costof = place.costof("run --only null --quick --out runs/");
        run(costof.env(variable, node)).expect_code(0);
        let facts = &place.read(file).attempts[0].hosts[MEASURED];
        assert_eq!(facts.host_name.as_deref(), Some(node));
    }
    let mut again = place.costof("run --only null --quick --out runs");
    let again = run(again.env("COSTOF_HOST_NAME", "node-7.rack"));
    again.expect_wrong(&["runs/node-7.rack.jsonl", "--out"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_odd_host_is_named_with_its_reason() {
    let factor = |host: usize| {
        if host == 12 { 2.0 } else { 1.0 + 0.01 * (host % 5) as f64 }
    };
    let place = place((1..=12).map(|host| (format!("n{host:02}"), 1, factor(host))));
    let shown = place.run("fleet runs").expect_code(0);
    assert_contains_all(
        &shown.out,
        &["12 hosts", "1 is odd", "slower        n12: all 4 os rows", "n[01-11] (11)"],
    );
    // A run that is given twice does not count twice.
    let twice = place.run("fleet runs runs/12.jsonl").expect_code(0);
    assert_eq!(twice.out, shown.out);
    assert_contains(&twice.err, "runs/12.jsonl has the same run as another file");
    let gate = place.run("fleet runs --fail-odd --junit checked.xml").expect_code(1).out;
    assert!(gate.starts_with("FAIL: 12 of 12 hosts decided; n12 slower: all 4 os rows"), "{gate}");
    let junit = fs::read_to_string(place.path("checked.xml")).unwrap();
    assert_contains_all(&junit, &["tests=\"12\" failures=\"1\"", "name=\"n12\"><failure"]);
    let failed = place.run("fleet runs --fail-odd --reason").expect_code(1);
    assert!(failed.out.starts_with("n12 costof: all 4 os rows"), "{}", failed.out);
    assert_eq!(failed.out.lines().count(), 1);
    // What is no run is left out of a folder, and an error if it is named.
    fs::write(place.path("runs/notes.jsonl"), "{}\n").unwrap();
    // A pipe would be waited for.
    place.command("mkfifo runs/pipe.jsonl").status().unwrap();
    let noted = place.run("fleet runs").expect_code(0);
    assert_eq!(noted.out, shown.out);
    assert_contains_all(&noted.err, &["left out", "notes.jsonl"]);
    place.run("fleet runs/notes.jsonl").expect_wrong(&["notes.jsonl"]);
    let json = place.run("fleet runs --json").expect_code(0).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cohorts"][0]["hosts"][0]["name"], "n12");
    assert_eq!(json["cohorts"][0]["hosts"][0]["verdict"], "slower");
    // Four hosts are too few.
    let few = "fleet runs/1.jsonl runs/2.jsonl runs/3.jsonl runs/12.jsonl";
    for (options, code) in [("", 0), (" --fail-odd", 3), (" --fail-odd --undecided pass", 0)] {
        let few = place.run(&format!("{few}{options}"));
        assert_contains_all(&few.expect_code(code).out, &["inconclusive", "five hosts"]);
    }
    fs::create_dir(place.path("empty")).unwrap();
    for (words, named) in [
        ("fleet empty", "no run file"),
        ("fleet none.jsonl", "none.jsonl"),
        ("fleet runs --by kernal", "did you mean `kernel`?"),
        // It has no end.
        ("fleet /dev/zero", "it holds no run"),
        ("fleet", "RUN"),
    ] {
        place.run(words).expect_wrong(&[named]);
    }
}

/// The same as the host itself, and a reference of them in `ref.json`.
fn reference() -> (Place, Value) {
    let factor = |host: usize| 1.0 + 0.01 * (host % 5) as f64;
    let place = place((1..=12).map(|host| (format!("n{host:02}"), 1, factor(host))));
    let saved = place.run("fleet runs --save ref.json").expect_code(0);
    assert_contains_all(&saved.err, &["costof qualify --against ref.json"]);
    let text = fs::read_to_string(place.path("ref.json")).unwrap();
    let reference = serde_json::from_str(&text).unwrap();
    (place, reference)
}

/// Whether noise may leave a row open: it has too few launches or none that agree, or something else used the core.
fn may_stay_open(row: &PointRow) -> bool {
    let is_shared = |kind: &str| kind == "core_shared";
    let mut warnings = row.warnings.iter();
    row.launches < 6 || !row.is_sound() || warnings.any(|warning| is_shared(&warning.kind))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_host_is_held_against_what_others_cost() {
    let (place, reference) = reference();
    place.run("fleet runs --save runs/1.jsonl").expect_wrong(&["is the run itself"]);
    place
        .run("fleet runs/1.jsonl runs/2.jsonl --save few.json")
        .expect_wrong(&["nothing to save", "five hosts"]);
    let rows = |factor: f64| {
        let mut reference = reference.clone();
        for row in reference["cohorts"][0]["rows"].as_array_mut().unwrap() {
            row["usual"] = json!(row["usual"].as_f64().unwrap() * factor);
        }
        fs::write(place.path("ref.json"), reference.to_string()).unwrap();
    };
    // On a busy machine a row may stay open, and the host with it, but no row is judged wrongly.
    let judged = |file: &str, expected: &str, code: i32| {
        let line = "qualify --against ref.json --change 50 --budget 30s --json --out";
        let ended = place.run(&format!("{line} {file}"));
        let of: Value =
            serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{}", ended.err));
        let measured = place.read(file);
        assert!(measured.end.is_some());
        let is_open = measured.points.len() < 4 || measured.points.iter().any(may_stay_open);
        let found = (of["verdict"].as_str().unwrap(), ended.code);
        let is_known = found == (expected, Some(code));
        assert!(is_known || is_open && found == ("inconclusive", Some(3)), "{of:#}");
        for row in of["rows"].as_array().unwrap() {
            let verdict = row["verdict"].as_str().unwrap();
            assert!([expected, "inconclusive"].contains(&verdict), "{row}");
        }
    };
    // No machine is so busy that its calls take twenty times as long, nor so quiet that they take a twentieth.
    rows(20.0);
    judged("cheap.jsonl", "pass", 0);
    // What costs more than elsewhere fails.
    rows(0.05);
    judged("expensive.jsonl", "fail", 1);
    rows(1.0);
    let short = "qualify --against ref.json --change 50 --budget 1ms";
    let shown = place.run(short).expect_code(3).out;
    let said = [
        "INCONCLUSIVE: 0 of 4 rows decided; ",
        "1 launch, against 12 hosts",
        "inconclusive: ",
        "probability of at most 5.0 %",
    ];
    assert_contains_all(&shown, &said);
    let reason = place.run(&format!("{short} --reason")).expect_code(3).out;
    assert_eq!(reason.lines().count(), 1, "{reason}");
    // Hosts that differ by percents show no change of a thousandth.
    let hidden = place.run("qualify --against ref.json --change 0.1").expect_code(3);
    assert_contains_all(&hidden.err, &["no row can show", "0.1 % worse", "--change"]);
    let short = "qualify --against ref.json --change 0.1 --reason --junit out.xml";
    // That nothing is known is no pass.
    place.run(&format!("{short} --undecided pass")).expect_code(3);
    let reason = place.run(short).expect_code(3).out;
    assert_contains(&reason, "INCONCLUSIVE: 0 of 1 host decided; no row can show");
    let junit = fs::read_to_string(place.path("out.xml")).unwrap();
    assert_contains(&junit, "errors=\"1\"");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_reference_from_anybody_is_refused_or_does_no_harm() {
    let (place, reference) = reference();
    let long = "\u{1b}[2J".to_owned() + &"x".repeat(1000);
    let with = |path: &str, value: Value| {
        let mut changed = reference.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed.to_string()
    };
    let rows = |fields: &[(&str, Value)]| {
        let mut changed = reference.clone();
        for (field, value) in fields {
            changed["cohorts"][0]["rows"][0][*field] = value.clone();
        }
        changed.to_string()
    };
    let row = |field: &str, value: Value| rows(&[(field, value)]);
    let text = reference.to_string();
    let usual = &reference["cohorts"][0]["rows"][0]["usual"].to_string();
    let mut two = reference["cohorts"].clone();
    two.as_array_mut().unwrap().push(reference["cohorts"][0].clone());
    let processors = reference["cohorts"][0]["facts"].as_array().unwrap();
    let at = processors.iter().position(|fact| fact[0] == "processors").unwrap();
    for (text, options, named) in [
        ("{}".to_owned(), "", "not a costof reference"),
        (with("/reference_schema", json!(2)), "", "schema 2"),
        (with("/precision", json!("wild")), "", "no precision `wild`"),
        (with("/cohorts/0/rows", json!({})), "", "not a costof reference"),
        (text.replace(usual, "NaN"), "", "not a costof reference"),
        (text.replace(usual, "1e999"), "", "not a costof reference"),
        (row("usual", json!(0)), "", "usual is 0"),
        (row("spread", json!(-0.01)), "", "spread is -0.01"),
        (row("launch", json!(1e9)), "", "launch is 1000000000"),
        (row("degrees", json!(0.5)), "", "degrees is 0.5"),
        (row("hosts", json!(1)), "", "one host"),
        (with("/cohorts", json!([])), "", "no cohort"),
        (with("/cohorts", two), "", "no row that separates"),
        (with(&format!("/cohorts/0/facts/{at}/1"), json!("9999")), "", "and 9999 there"),
        (text.clone(), "--cohort 2", "no cohort 2"),
        (rows(&[("label", json!(long)), ("hosts", json!(1))]), "", "one host"),
        (with("/cohorts/0/facts/0/0", json!(long)), "--cohort 0", "no cohort 0"),
    ] {
        fs::write(place.path("ref.json"), &text).unwrap();
        let line = format!("qualify --against ref.json --change 50 {options}");
        let ended = place.run(&line).expect_wrong(&["ref.json", named]);
        let harm = ended.err.find(|c| harmless::is_harmful(c) && c != '\n');
        assert_eq!(harm, None, "{named}: {:?}", ended.err);
        assert!(ended.err.len() < 2000, "{named}: {}", ended.err);
    }
    // What this costof does not measure is left out, and the other rows are judged.
    fs::write(place.path("ref.json"), row("probe", json!("os.nothing"))).unwrap();
    let ended = place.run("qualify --against ref.json --change 50 --budget 1ms --json");
    let judged: Value = serde_json::from_str(&ended.expect_code(3).out).unwrap();
    assert_eq!(judged["rows"].as_array().unwrap().len(), 3);
    let why = judged["left_out"][0]["why"].as_str().unwrap();
    assert!(why.contains("os.nothing"), "{why}");
}
