//! Run files that mean harm: no script of theirs runs, and nothing panics.

use crate::made::{Made, Point, history, varied};
use costof_model::harmless;
use costof_model::run_file::{self, Run};
use costof_report::page::page;
use costof_report::{csv, history as changes, markdown, plots, run as shown, style::Style};
use serde_json::{Value, json};

/// What would be markup, a script or an attribute, wherever it got out.
const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"alert(3)' $x$ \u{1b}[2J\u{9b}2J\u{202e} \u{1}\u{b}\u{c}\u{fffe}\u{ffff}]]>";

/// Everything that is made of a run.
fn all(run: &Run) -> String {
    let mut made = page(run, &[HOSTILE.to_owned()]);
    made.extend(plots::svg(run).into_iter().map(|(_, svg)| svg));
    let tables = csv::files(run).into_iter().map(|(_, table)| table);
    let tables: String = tables.chain([csv::summary(run), markdown::table(run)]).collect();
    let style = Style { width: Some(80), notes: true, ..Style::default() };
    let text = shown::text(run, style) + &shown::conclusion(run, style);
    // CSV ends its lines as RFC 4180 says.
    for text in [text, tables.replace("\r\n", "\n")] {
        let harm = text.chars().find(|c| harmless::is_harmful(*c) && *c != '\n');
        assert_eq!(harm, None);
    }
    made
}

/// Each word of a row that a person could have chosen becomes a hostile one.
fn poisoned(value: &mut Value, key: &str) {
    const KEPT: [&str; 10] = [
        "type", "unit", "better", "interval", "state", "grade", "kind", "source", "schema",
        "domain",
    ];
    match value {
        Value::String(text) if !KEPT.contains(&key) => *text = format!("{text}{HOSTILE}"),
        Value::Array(values) => values.iter_mut().for_each(|value| poisoned(value, key)),
        Value::Object(entries) => {
            for (key, value) in entries.iter_mut() {
                poisoned(value, key);
            }
            if ["axes", "vulnerabilities", "sysctls"].contains(&key) {
                let entry = entries.iter().next().map(|(_, value)| value.clone());
                entries.extend(entry.map(|value| (HOSTILE.to_owned(), value)));
            }
        }
        _ => {}
    }
}

#[test]
fn no_word_of_a_run_file_becomes_markup() {
    let mut made = varied(60);
    made.add_row(json!({"type": "attempt", "costof": "0.1.0", "build": "b",
        "hosts": {"only": {"host_name": "h", "cpu": {"model_name": "m", "vulnerabilities": {"a": "b"}},
            "kernel": {"release": "r", "sysctls": {"a": "b"}}}},
        "clock": {"source": "counter", "because": "b", "hz": 1e9, "spread_ppm": 1.0,
            "resolution_ns": 1.0, "read_ns": 1.0},
        "counters": {"available": [], "absent": {"cycles": "no"}}}));
    made.add_row(json!({"type": "failure", "probe": "a.b", "axes": {}, "link": "none", "block": 0,
        "kind": "error", "reason": "why"}));
    made.add_row(json!({"type": "probe", "id": "copy.made", "method": 1, "question": "what?",
        "axes": [{"name": "primitive", "about": "how",
            "domain": {"choice": [{"value": "copy_and_send", "about": "x"}]}}],
        "crossings": [], "metrics": [{"name": "throughput", "unit": "B/s", "better": "higher", "about": "a"}],
        "how": "so", "sources": ["s"], "predicted_from": "p", "after": [], "needs": [], "roles": ["only"]}));
    let lines: Vec<String> = made
        .text()
        .lines()
        .map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            poisoned(&mut row, "");
            format!("{row}\n")
        })
        .collect();
    let run = run_file::read(lines.concat().as_bytes()).unwrap();
    assert!(!run.points.is_empty() && !run.failures.is_empty() && !run.attempts.is_empty());
    let all = all(&run);
    assert!(all.contains("alert(1)"), "it is shown, as text");
    assert_eq!(page(&run, &[]).matches("<script").count(), 1, "the page's own");
    for markup in ["<script>alert", "<img", "onload=\"alert"] {
        assert!(!all.contains(markup), "{markup}");
    }
    // A file of its own is XML, which has no such letters.
    let not_xml = ['\u{1}', '\u{b}', '\u{c}', '\u{fffe}', '\u{ffff}'];
    let drawn = plots::svg(&run);
    assert!(!drawn.is_empty() && drawn.iter().all(|(_, svg)| !svg.contains(not_xml)));
}

#[test]
fn no_word_of_a_history_becomes_markup() {
    let history = history(HOSTILE);
    let page = changes::page(&history);
    for (part, times) in [
        ("alert(1)", 26),
        ("<svg", 3),
        // What changed comes first, each change is marked where it is, and is worse or better.
        ("<script", 0),
        ("<img", 0),
        ("onload=\"alert", 0),
        ("<path class=\"worse\" d=\"M300.0 0V36\"", 1),
        ("<path class=\"better\" d=\"M300.0 0V36\"", 1),
        ("19 % to 21 %", 2),
        ("no lasting change\"", 1),
    ] {
        assert_eq!(page.matches(part).count(), times, "{part}");
    }
    let text = changes::text(&history, 80);
    let harm = text.chars().find(|c| harmless::is_harmful(*c) && *c != '\n');
    assert_eq!(harm, None);
}

/// Numbers that break arithmetic, wherever one stands.
const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "-0.0",
    "1e308",
    "-1e308",
    "5e-324",
    "18446744073709551615",
    "1e-300",
    "4294967296",
];

#[test]
#[ignore = "long; ./check --all runs it"]
fn no_number_of_a_run_file_makes_a_panic() {
    let text = varied(45).text();
    let lines: Vec<&str> = text.lines().collect();
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut read = 0;
    for round in 0..120 {
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        // Not the first: without it there is no run.
        for _ in 0..1 + random(6) {
            let at = 1 + random(changed.len() - 1);
            changed[at] = with_number(&changed[at], &mut random);
        }
        let changed: String = changed.iter().map(|line| format!("{line}\n")).collect();
        if let Ok((run, _)) = run_file::read_up_to(changed.as_bytes(), u64::MAX) {
            read += usize::from(run.points.len() > 10);
            let page = page(&run, &[]);
            assert!(page.len() < 20_000_000, "round {round}: {} bytes", page.len());
            all(&run);
        }
    }
    assert!(read > 10, "{read} of the changed files have points");
}

/// The line with one of its numbers replaced.
fn with_number(line: &str, random: &mut impl FnMut(usize) -> usize) -> String {
    let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let starts: Vec<usize> = line
        .char_indices()
        .filter(|(at, c)| c.is_ascii_digit() && line[..*at].ends_with([':', ',', '[']))
        .map(|(at, _)| at)
        .collect();
    if starts.is_empty() {
        return line.to_owned();
    }
    let start = starts[random(starts.len())];
    let end = line[start..].find(|c| !is_number(c)).map_or(line.len(), |end| start + end);
    format!("{}{}{}", &line[..start], NUMBERS[random(NUMBERS.len())], &line[end..])
}

#[test]
fn a_file_cut_anywhere_makes_a_page() {
    let text = varied(20).text();
    let first = text.find('\n').unwrap() + 1;
    for cut in (first..text.len()).step_by(text.len() / 25) {
        let (run, _) = run_file::read_up_to(&text.as_bytes()[..cut], u64::MAX).unwrap();
        all(&run);
    }
}

#[test]
fn many_names_and_much_text_stay_a_page() {
    let mut made = Made::default();
    let long = "x".repeat(100_000);
    for at in 0..600_u32 {
        let probe = format!("layer{at}.{}", if at == 0 { &long } else { "p" });
        made.add(&Point {
            probe: &probe,
            axes: json!({"kind": format!("k{at}"), "size": at}),
            link: "none",
            measured: ("cost", "ns", f64::from(at)),
            label: Some("everything is a headline"),
        });
    }
    let page = all(&made.run());
    assert!(page.contains("layer599.p"));
}

/// A probe's description that says this wherever it can say much.
fn described(probe: &str, text: &str) -> Value {
    let axis = json!({"name": "size", "about": text, "domain": {"choice": [{"value": "x", "about": text}]}});
    json!({"type": "probe", "id": probe, "method": 1, "question": text, "axes": [axis],
        "crossings": [], "metrics": [{"name": "cost", "unit": "ns", "better": "lower", "about": text}],
        "how": text, "sources": [text, text], "predicted_from": "p", "after": [], "needs": [],
        "roles": ["only"]})
}

#[test]
fn a_long_description_is_not_copied_into_every_row() {
    let mut made = Made::default();
    for size in 0..400_u32 {
        made.add(&Point {
            probe: "a.x",
            axes: json!({"size": size}),
            link: "none",
            measured: ("cost", "ns", 5.0 + f64::from(size)),
            label: Some("a headline"),
        });
    }
    made.add_row(described("a.x", &"x".repeat(1_000_000)));
    let page = page(&made.run(), &[]);
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
    assert!(page.contains('…'));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn axes_without_end_are_not_drawn_and_counted() {
    let mut made = Made::default();
    let mut add = |axes: Value| {
        made.add(&Point {
            probe: "a.x",
            axes,
            link: "none",
            measured: ("cost", "ns", 5.0),
            label: None,
        });
    };
    for size in [1, 2, 3] {
        add(json!({"size": size}));
    }
    let many = |first: u32| {
        let axes = (first..first + 2000).map(|at| (format!("x{at}"), json!(at)));
        Value::Object(axes.collect())
    };
    for first in 0..10 {
        add(many(2000 * first));
    }
    // Few a point, and together as many.
    for at in 0..2000 {
        add(json!({format!("y{at}"): 1}));
    }
    let run = made.run();
    let page = page(&run, &[]);
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
    assert!(page.contains("a.x cost by size"));
    // One axis is the size, and 31 of the others have room.
    assert!(page.contains("1979 points not drawn"));
    assert!(page.contains("and 21969 more axes"));
    let summary = csv::summary(&run);
    let head = summary.lines().next().unwrap();
    assert!(head.ends_with(",axes_left_out"));
    assert_eq!(head.split(',').count(), 6 + 256 + 20 + 4 + 1);
    // What is quoted, as ids are, may hold commas.
    let cells = |line: &str| line.split('"').step_by(2).collect::<String>().split(',').count();
    assert!(summary.lines().all(|line| cells(line) == cells(head)));
    all(&run);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn many_probes_with_many_launches_are_spread_each() {
    let mut made = Made::default();
    for at in 0..2000_u32 {
        made.add(&Point {
            probe: &format!("a.x{at}"),
            axes: json!({}),
            link: "none",
            measured: ("latency", "ns", 5e3),
            label: None,
        });
    }
    let page = page(&made.run(), &[]);
    let drawn = page.matches(" latency: distribution</b>").count();
    let (before, _) = page.split_once(" more plots would").unwrap();
    let left_out = before.rsplit('>').next().unwrap();
    assert_eq!(drawn + left_out.parse::<usize>().unwrap(), 2000);
}
