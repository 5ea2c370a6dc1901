use super::*;
use costof_model::testing::golden;

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high }
}

fn command(name: &str) -> TimedCommand {
    let run = TimedRun {
        wall_ns: 110_000_000,
        user_ns: 90_000_000,
        system_ns: 10_000_000,
        max_rss_bytes: 2 << 20,
        minor_faults: 120,
        voluntary_switches: 1,
        cpus: vec![0],
        exit_code: Some(0),
        ..TimedRun::default()
    };
    TimedCommand {
        name: name.to_owned(),
        command: format!("{name} --really"),
        runs: vec![run; 3],
        wall_ns: Some(estimate(110e6, 109e6, 112e6)),
        cpu_ns: Some(estimate(100e6, 99e6, 101e6)),
        alone_ns: Some(estimate(95e6, 94e6, 96e6)),
        ..TimedCommand::default()
    }
}

fn timing(ratio: Option<(f64, f64, f64)>, metric: TimeMetric) -> Timing {
    let comparison = ratio.map(|(value, low, high)| TimeComparison {
        ratio: estimate(value, low, high),
        visible: 0.013,
        judgement: None,
    });
    Timing {
        machine: "a CPU (family 6 model 1), 2 CPUs, KVM".to_owned(),
        seed: 1,
        gauge_floor: Some(0.29),
        commands: vec![command("A"), command("B")],
        metric,
        threshold: None,
        comparisons: vec![comparison],
    }
}

fn first_line(timing: &Timing) -> String {
    text(timing, Style::default()).lines().next().unwrap().to_owned()
}

#[test]
fn the_first_line_is_the_answer() {
    let compared = [
        ((1.03, 1.024, 1.037), TimeMetric::Alone),
        ((0.97, 0.963, 0.976), TimeMetric::Wall),
        ((3.0, 2.9, 3.1), TimeMetric::Own("rate".to_owned())),
        ((1.001, 0.99, 1.012), TimeMetric::Cpu),
    ];
    let compared = compared.map(|(ratio, metric)| timing(Some(ratio), metric));
    let mut unknown = timing(None, TimeMetric::Wall);
    unknown.commands[1].not_compared = Some("it is shy".to_owned());
    let mut single = timing(None, TimeMetric::Alone);
    single.commands.truncate(1);
    single.comparisons.clear();
    let lines: Vec<String> = compared.iter().chain([&unknown, &single]).map(first_line).collect();
    golden("report/timing", "first lines", &lines.join("\n"));
}

#[test]
fn a_threshold_ends_the_answer_with_a_verdict() {
    for (ratio, verdict) in [
        ((1.0, 0.99, 1.01), "PASS: at most 2.0 %"),
        ((1.05, 1.04, 1.06), "FAIL: more than 2.0 %"),
        ((1.02, 1.01, 1.03), "INCONCLUSIVE against 2.0 %"),
    ] {
        let mut timing = timing(Some(ratio), TimeMetric::Alone);
        timing.threshold = Some(0.02);
        let comparison = timing.comparisons[0].as_mut().unwrap();
        comparison.judge(0.02, false);
        let line = first_line(&timing);
        assert!(line.contains(verdict), "{line}");
    }
}

#[test]
fn what_a_reader_should_know_stands_below() {
    let mut timing = timing(Some((1.0, 0.99, 1.01)), TimeMetric::Alone);
    let second = &mut timing.commands[1];
    second.alone_ns = None;
    second.alone_unknown = Some("it used 2.0 of 4 CPUs".to_owned());
    second.start_ns = Some(Estimate { value: 5e6, low: 4.9e6, high: 5.2e6 });
    second.shell = Some("sh".to_owned());
    second.notes.push("leaves up to 2 processes running".to_owned());
    golden("report/timing", "two commands", &text(&timing, Style::default()));
    golden("report/timing", "two commands in Markdown", &markdown(&timing));
}

#[test]
fn hyperfines_scripts_read_the_export() {
    let mut timing = timing(None, TimeMetric::Alone);
    timing.commands[0].parameters.insert("n".to_owned(), "3".to_owned());
    timing.commands[1].runs.truncate(1);
    let exported: serde_json::Value = serde_json::from_str(&export(&timing)).unwrap();
    let first = &exported["results"][0];
    // The fields of hyperfine 1.20, for a command with a parameter.
    let mut fields: Vec<&String> = first.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "command",
            "exit_codes",
            "max",
            "mean",
            "median",
            "memory_usage_byte",
            "min",
            "parameters",
            "stddev",
            "system",
            "times",
            "user"
        ]
    );
    assert_eq!(first["command"], "A");
    assert!((first["mean"].as_f64().unwrap() - 0.11).abs() < 1e-9);
    assert_eq!(first["times"].as_array().unwrap().len(), 3);
    assert_eq!(first["exit_codes"][0], 0);
    assert_eq!(first["parameters"]["n"], "3");
    let second = &exported["results"][1];
    assert!(second["stddev"].is_null() && second.get("parameters").is_none());
}

#[test]
fn a_time_and_its_interval_have_the_same_decimals() {
    let shown = |value, low, high| duration(estimate(value, low, high));
    assert_eq!(shown(1.0025e9, 1.002e9, 1.003e9), "1.002 s (1.002–1.003)");
    assert_eq!(shown(2.31e6, 2.21e6, 12.37e6), "2.31 ms (2.21–12.37)");
    assert_eq!(shown(950.0, 950.0, 950.0), "950 ns (950)");
    assert_eq!(shown(0.0, 0.0, 1.0), "0.00 ns (0.00–1.00)");
}

#[test]
fn too_few_runs_for_an_interval_have_their_median() {
    let mut timing = timing(None, TimeMetric::Alone);
    timing.commands.truncate(1);
    timing.comparisons.clear();
    let command = &mut timing.commands[0];
    (command.wall_ns, command.cpu_ns, command.alone_ns) = (None, None, None);
    for (run, value) in command.runs.iter_mut().zip([7.0, 9.0, 8.0]) {
        let own = costof_model::timing::OwnValue { value, unit: String::new() };
        run.own.insert("rate".to_owned(), own);
    }
    let line = first_line(&timing);
    assert!(line.contains("100 ms") && line.contains("110 ms of wall time"), "{line}");
    let markdown = markdown(&timing);
    assert!(markdown.contains("| unknown | 100 ms | 110 ms | 8.000 |"), "{markdown}");
}

#[test]
fn commands_that_differ_at_the_end_have_different_names() {
    let shown = |end: &str| short(&command(&format!("{}{end}", "a-long-command ".repeat(9))));
    assert_ne!(shown("--level 1"), shown("--level 2"));
    assert!(shown("--level 1").ends_with("--level 1") && shown("").chars().count() == MAX_NAME);
    assert_eq!(short(&command(&"é".repeat(MAX_NAME))), "é".repeat(MAX_NAME));
    assert_eq!(quoted(&command("cd x\n\n  make\n")), "`cd x; make`");
}
