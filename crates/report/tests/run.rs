//! The text of a run, held against what it was when somebody last looked at it.

use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::testing::golden;
use costof_report::run::{conclusion, text};
use costof_report::style::Style;
use std::io::BufReader;

/// A run that was measured, cut down and given a row of each kind that can be
/// shown: two modes, a missed prediction, a lost launch, an absent point.
const RUN: &[u8] = include_bytes!("run.jsonl");
/// As it is piped, with all notes.
const NOTES: Style = Style { width: None, colour: false, ids: true, notes: true };

fn run() -> Run {
    costof_model::run_file::read(BufReader::new(RUN)).expect("a run")
}

fn shown(run: &Run, style: Style) -> String {
    text(run, style) + &conclusion(run, style)
}

fn terminal(width: usize) -> Style {
    Style { width: Some(width), ..Style::default() }
}

#[test]
fn a_run_reads_as_it_did() {
    for (section, style) in [("piped, with all notes", NOTES), ("80 columns", terminal(80))] {
        golden("report/run", section, &shown(&run(), style));
    }
}

#[test]
fn no_line_is_wider_than_the_terminal_and_wider_ones_show_more() {
    let columns = |width: usize| {
        let shown = shown(&run(), terminal(width));
        let longest = shown.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{shown}");
        let words = ["measured", "interval", "predicted", "cycles", "grade"];
        let heading = shown.lines().find(|line| line.ends_with("grade"));
        let heading = heading.expect("a heading");
        words.map(|word| heading.contains(word))
    };
    assert_eq!(columns(60), [true, false, false, false, true]);
    assert_eq!(columns(80), [true, false, false, false, true]);
    assert_eq!(columns(120), [true, true, false, false, true]);
    assert_eq!(columns(160), [true; 5]);
}

#[test]
fn a_name_takes_several_lines_and_its_row_keeps_its_colours() {
    let style = Style { ids: true, colour: true, ..terminal(60) };
    let shown = shown(&run(), style);
    assert!(!shown.contains('\u{fffd}'), "{shown}");
    let graded = shown.lines().filter(|line| line.contains("\u{1b}[") && line.contains(" B"));
    assert!(graded.count() > 0, "{shown}");
}

#[test]
fn colours_are_on_the_grade_and_what_was_missed_and_change_no_letter() {
    let style = Style { colour: true, ..NOTES };
    let coloured = shown(&run(), style);
    let plain = coloured
        .split('\u{1b}')
        .skip(1)
        .fold(coloured.split('\u{1b}').next().unwrap_or_default().to_owned(), |text, part| {
            text + part.split_once('m').expect("a colour").1
        });
    assert_eq!(plain, shown(&run(), NOTES));
    for colour in ["\u{1b}[31m✗", "\u{1b}[33mC", "\u{1b}[32mA"] {
        assert!(coloured.contains(colour), "{coloured:?}");
    }
}

#[test]
fn a_row_without_a_usable_interval_is_dim_and_in_no_finding_and_no_score() {
    let mut run = run();
    let row =
        run.points.iter_mut().find(|row| row.missed_by().is_some()).expect("a missed prediction");
    let low = row.primary().expect("it is measured").median;
    row.metrics[0].ci95 = Some((low, 10.5 * low));
    let style = Style { colour: true, ..NOTES };
    let text = shown(&run, style);
    assert!(text.contains("too noisy: "), "{text}");
    assert!(text.contains("\u{1b}[2m loop iteration, counter"), "{text}");
    assert!(text.contains("3 of 3 predictions held"), "{text}");
    assert!(!text.contains("missed:"), "{text}");
}

#[test]
fn a_prediction_wider_than_tenfold_or_of_a_row_that_noise_decides_is_shown_and_not_scored() {
    let shown = |change: fn(&mut PointRow)| {
        let mut run = run();
        let mut rows = run.points.iter_mut();
        let row = rows.find(|row| row.missed_by().is_some());
        change(row.expect("a missed prediction"));
        shown(&run, NOTES)
    };
    let wide = shown(|row| {
        let expected = row.prediction.as_mut().expect("it is predicted");
        expected.low = expected.high / 11.0;
    });
    assert!(wide.contains("0.022 ns – 0.245 ns  "), "{wide}");
    let noisy = shown(|row| row.grade = Grade::D);
    assert!(noisy.contains("0.242 ns – 0.245 ns  "), "{noisy}");
    for text in [wide, noisy] {
        assert!(text.contains("3 of 3 predictions held"), "{text}");
    }
}

#[test]
fn a_row_over_an_emulated_link_says_so_wherever_it_is_shown() {
    use costof_model::run_file::{line, read};
    use costof_model::testing::{RowExt, planned, sized_row};
    use costof_report::{csv, markdown, page};

    let mut rows = [1, 2].map(|size| sized_row("net.rtt", size, 5e5).over("lan"));
    // As a costof wrote it that did not mark labels.
    rows[0].label = Some("round trip over lan".to_owned());
    let mut run = planned([rows.iter().map(|row| row.point.clone()).collect()]);
    run.points = rows.to_vec();
    let file: Vec<u8> = run.into_rows().flat_map(|row| line(&row)).collect();
    let run = read(&file[..]).expect("a run");
    let marked = ["round trip over lan [emulated]", "net.rtt size=2 over lan [emulated]"];
    for shown in [
        shown(&run, terminal(80)),
        shown(&run, NOTES),
        markdown::table(&run).replace('\\', ""),
        page::page(&run, &[]),
    ] {
        assert!(marked.iter().all(|name| shown.contains(name)), "{shown}");
    }
    let csv = csv::summary(&run);
    let cells = format!("\r\n\"net.rtt(size=1, over lan)\",net.rtt,1,{},lan,true,", marked[0]);
    assert!(csv.contains(&cells), "{csv}");
    let json = String::from_utf8(file).expect("text");
    let fields = r#""point":"net.rtt(size=1, over lan)","probe":"net.rtt","axes":{"size":1},"link":"lan","emulated":true,"#;
    assert!(json.contains(fields), "{json}");
}

#[test]
fn estimated_cycles_say_why_although_those_of_user_mode_are_counted() {
    let mut run = run();
    let counters = &mut run.attempts.last_mut().expect("an attempt").counters;
    counters.absent.clear();
    counters.user_only = vec!["cycles".into()];
    let text = text(&run, NOTES);
    assert!(text.contains("No counted cycles: "), "{text}");
    assert!(text.contains("perf_event_paranoid=1"), "{text}");
}

#[test]
fn what_is_predicted_of_another_metric_is_named() {
    let mut run = run();
    let rows = run.points.iter_mut();
    let mut predicted = rows.filter(|row| row.prediction.is_some() && row.primary().is_some());
    let row = predicted.next().expect("a predicted point");
    let mut other = row.primary().expect("it is measured").clone();
    other.name = "latency".into();
    row.metrics.push(other);
    let expected = row.prediction.as_mut().expect("it is predicted");
    expected.metric = "latency".into();
    let text = text(&run, NOTES);
    assert!(!shown(&self::run(), NOTES).contains("  latency "));
    assert!(text.contains("  latency "), "{text}");
}
