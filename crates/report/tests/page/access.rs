//! Whether everybody can use a page: rules of axe-core on the accessibility tree of a real browser, in light,
//! in dark and on paper, and what is not cut there.

use crate::browser::{asking, opened, said};
use crate::made::{fleet, history, varied};
use costof_model::comparison::{Compared, Comparison, FactDifference, Verdict};
use costof_model::metric::Selection;
use costof_model::rows::PointRow;
use costof_model::run_file::{self, Run};
use costof_model::unit::{Better, Unit};
use costof_report::check::Rules;
use costof_report::compare::Side;
use costof_report::compare::outcome::Outcome;
use costof_report::page;
use costof_report::study::{Class, Study};
use costof_report::{fleet as hosts, history as changes};
use std::fs;

/// Asks axe-core of the page in each look, with all of it unfolded.
const ASK: &str = r#"<script>
addEventListener("load", async () => {
  const said = top.document.body.dataset;
  const style = document.querySelector("style");
  const own = style.textContent;
  const looks = {
    light: own,
    dark: own.replace("@media(prefers-color-scheme:dark)", "@media all"),
    paper: own.replace("@media print", "@media all"),
  };
  for (const part of document.querySelectorAll("details")) part.open = true;
  const found = [];
  for (const [look, css] of Object.entries(looks)) {
    style.textContent = css;
    const result = await axe.run(document, { resultTypes: ["violations"] });
    for (const { id, nodes } of result.violations)
      for (const node of nodes.slice(0, 3)) found.push(`${look}: ${id}: ${node.target}: ${node.failureSummary}`);
    said.passed = result.passes.length;
    if (document.documentElement.scrollWidth > innerWidth) found.push(`${look}: it is wider than the window`);
  }
  const beyond = (table) => table.getBoundingClientRect().right > innerWidth + 1;
  for (const table of document.querySelectorAll("table")) if (beyond(table)) found.push(`a table is cut on paper`);
  said.width = innerWidth;
  said.found = found.join("\n");
});
</script>"#;

/// axe-core, which `./check --all` fetches.
fn axe() -> Option<String> {
    let axe = std::env::var("COSTOF_AXE").ok().and_then(|path| fs::read_to_string(path).ok());
    if axe.is_none() {
        eprintln!("skipped: COSTOF_AXE names no axe-core (./check --all fetches it and names it)");
    }
    axe
}

/// A run of the real costof.
fn real() -> Run {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run.jsonl");
    run_file::read(&fs::read(path).unwrap()[..]).unwrap()
}

/// A comparison whose rows have this verdict in turn with others.
fn comparison(run: &Run, verdict: Verdict) -> Comparison {
    let verdicts = [verdict, Verdict::NoDifference, Verdict::CannotTell];
    let row = |(row, verdict): (&PointRow, Verdict)| Compared {
        point: row.point.clone(),
        label: None,
        metric: row.primary.clone(),
        unit: row.metrics[0].unit,
        better: Better::Lower,
        before: (100.0, 9),
        after: (106.0, 9),
        ratio: 1.06,
        ci95: (1.05, 1.07),
        p: 0.001,
        verdict,
        needed: None,
        visible: 0.02,
        selection: Selection::All,
        core_shared: false,
        clocks: None,
    };
    let kernel = FactDifference {
        host: "only".into(),
        what: "kernel".to_owned(),
        before: Some("6.1".to_owned()),
        after: None,
    };
    let rows = run.points.iter().zip(verdicts.into_iter().cycle());
    Comparison {
        matters: 0.05,
        facts: vec![kernel],
        rows: rows.map(row).collect(),
        ..Comparison::default()
    }
}

/// Each kind of page.
fn pages() -> Vec<(&'static str, String)> {
    let (one, other) = (varied(80).run(), varied(60).run());
    let side = |name, run| Side { name, run };
    let comparison = comparison(&other, Verdict::Worse);
    let outcome = Outcome::new("after", &comparison, &other, &Rules::default());
    let [before, after] = [side("a.jsonl", &one), side("c.jsonl", &other)];
    vec![
        ("run", page::page(&one, &[])),
        ("real run", page::page(&real(), &["a doubt".to_owned()])),
        ("comparison", page::comparison::page(before, after, &comparison, &outcome)),
        ("sheet", sheet(false)),
        ("answer key", sheet(true)),
        ("class", class()),
        ("history", changes::page(&history("a row"))),
        ("fleet", hosts::page(&fleet())),
    ]
}

/// A study of the times of a run.
fn study(run: &Run) -> Study {
    let is_time = |row: &&PointRow| {
        let is_time = row.metrics.first().is_some_and(|metric| metric.unit == Unit::Nanoseconds);
        is_time && row.point.link == "none"
    };
    let rows = run.points.iter().filter(is_time).map(|row| {
        let axes = row.axes().0.iter().map(|(axis, value)| format!("{axis}={value}"));
        let axes = axes.collect::<Vec<_>>().join(" ");
        format!("{{ name = '{axes}', measured = 7, point = '{} {axes}' }},", row.point.probe)
    });
    let text = format!(
        "title = 'Times'\nsource = 's'\nmachine = 'm'\ndrawing = 'A --> B'\n[[table]]\ntitle = 'T'\nunit = 'ns'\nrows = [{}]\n\
         [[question]]\nask = 'Why?'\nkinds = []\nbecause = 'nobody knows'",
        rows.collect::<String>()
    );
    Study::read("times", "times.toml", &text).unwrap()
}

/// The sheet of a study, or its key.
fn sheet(has_key: bool) -> String {
    let run = real();
    let (study, infos) = (study(&run), run.probes.iter().collect::<Vec<_>>());
    let shown = study.reproduced_by(&infos, &run, &|_| None, Vec::new()).unwrap();
    study.sheet(&infos, "times", has_key.then_some((&shown, &run))).unwrap()
}

/// The page of a class of six.
fn class() -> String {
    let run = real();
    let (study, infos) = (study(&run), run.probes.iter().collect::<Vec<_>>());
    let form = study.form(&infos, &study.name).unwrap().replace(" =\n", " = 70\n");
    let mut runs = vec![run.clone(); 6];
    for (at, run) in runs.iter_mut().enumerate() {
        run.run.guesses = study.guesses(&infos, "form", &form).unwrap();
        for metric in run.points.iter_mut().flat_map(|row| &mut row.metrics) {
            metric.median *= 1.0 + at as f64;
        }
    }
    let compared = runs
        .iter()
        .map(|run| (None, run, study.reproduced_by(&infos, run, &|_| None, Vec::new()).unwrap()));
    Class::new(&study, compared.collect()).page()
}

/// A page in a frame of this width: a browser's window has a least one.
fn framed(html: &str, width: u32) -> String {
    let html = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><body><iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{html}\">"
    )
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn no_rule_of_accessibility_is_broken_and_nothing_is_cut() {
    let Some(axe) = axe() else { return };
    let script = format!("<script>{axe}</script>{ASK}");
    let mut all = String::new();
    for (name, html) in pages() {
        for width in [400, 1400] {
            let Some((dom, _)) = opened(&framed(&asking(&html, &script), width), "", 1500) else {
                return;
            };
            assert!(said(&dom, "passed").parse::<u32>().unwrap() > 10, "{name}");
            assert_eq!(said(&dom, "width"), width.to_string());
            for found in said(&dom, "found").lines() {
                all += &format!("{name}, {width} px: {found}\n");
            }
        }
    }
    assert_eq!(all, "");
}
