//! The page in a real browser: Debian's chromium, headless.

use crate::made::varied;
use costof_report::page::page;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// What is asked of a page from inside: a copy of it has this script in place of its policy, since
/// that one lets no other script run.
const ASK: &str = r#"<script>
addEventListener("error", (event) => { document.body.dataset.error = event.message; });
addEventListener("load", () => {
  const said = document.body.dataset;
  const point = document.querySelector("svg [data-p]");
  const tip = document.getElementById("tip");
  said.before = tip.hidden;
  point.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
  said.hovered = !tip.hidden && tip.textContent;
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  said.escaped = tip.hidden;
  point.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
  said.focused = !tip.hidden;
  const figure = [...document.querySelectorAll("figure")].find((one) => one.querySelector("input.k1"));
  const drawn = () => [...figure.querySelectorAll("svg .s1")].filter((one) => getComputedStyle(one).display !== "none").length;
  said.drawn = drawn();
  figure.querySelector("input.k1").click();
  said.hidden = drawn();
  said.loaded = performance.getEntriesByType("resource").length;
  said.wide = document.documentElement.scrollWidth <= innerWidth;
  said.charts = [...document.querySelectorAll("svg")].filter((one) => one.querySelector("path")).length;
});
</script>"#;

/// A browser whose home is this folder; none where there is no browser.
pub(crate) fn browser(home: &Path) -> Option<Command> {
    let chromium = Path::new("/usr/bin/chromium");
    if !chromium.exists() {
        eprintln!("skipped: there is no chromium here (./check --all installs it)");
        return None;
    }
    let mut browser = Command::new(chromium);
    browser
        // The page is our own, and a container may have no sandbox.
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .arg(format!("--user-data-dir={}", home.join("profile").display()))
        .env("HOME", home)
        .stdin(Stdio::null());
    Some(browser)
}

/// The page as the browser has it in the end, and what it complained of; none where there is no browser.
pub(crate) fn opened(html: &str, fragment: &str, width: u32) -> Option<(String, String)> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("page.html");
    fs::write(&file, html).unwrap();
    let out = browser(folder.path())?
        .args(["--enable-logging=stderr", "--virtual-time-budget=4000"])
        .arg(format!("--window-size={width},900"))
        .arg("--dump-dom")
        .arg(format!("file://{}#{fragment}", file.display()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let complaints = text(out.stderr);
    let complaints = complaints.lines().filter(|line| line.contains("CONSOLE"));
    Some((text(out.stdout), complaints.collect()))
}

/// What the asking script wrote down under this name.
pub(crate) fn said<'a>(dom: &'a str, name: &str) -> &'a str {
    let start = format!("data-{name}=\"");
    let body = &dom[dom.find("<body").expect("a page has a body")..];
    let found = body.split_once(&start).map(|(_, rest)| rest);
    found.and_then(|rest| rest.split('"').next()).unwrap_or("(not said)")
}

/// A copy of a page with this script in place of its policy.
pub(crate) fn asking(html: &str, script: &str) -> String {
    let start = html.find("<meta http-equiv=").expect("a page has a policy");
    let end = start + html[start..].find('>').expect("which ends") + 1;
    format!("{}{script}{}", &html[..start], &html[end..])
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn charts_are_there_and_can_be_hovered_focused_and_hidden() {
    for width in [1300, 500] {
        let Some((dom, complaints)) =
            opened(&asking(&page(&varied(80).run(), &[]), ASK), "", width)
        else {
            return;
        };
        assert_eq!(said(&dom, "error"), "(not said)");
        assert_eq!(complaints, "");
        assert_eq!(said(&dom, "before"), "true");
        let hovered = said(&dom, "hovered");
        assert!(
            hovered.contains("grade")
                && hovered.contains("predicted")
                && hovered.contains("(36.9 ns – 45.1 ns)"),
            "{hovered}"
        );
        assert_eq!((said(&dom, "escaped"), said(&dom, "focused")), ("true", "true"));
        assert!(said(&dom, "drawn").parse::<u32>().unwrap() > 0);
        assert_eq!(said(&dom, "hidden"), "0", "a legend entry hides its series");
        assert_eq!(said(&dom, "loaded"), "0", "nothing is loaded");
        assert_eq!(said(&dom, "wide"), "true", "nothing is wider than {width}");
        assert!(said(&dom, "charts").parse::<u32>().unwrap() >= 5);
    }
}

#[test]
fn the_pages_own_script_runs_under_its_policy_and_unfolds_what_a_link_names() {
    let html = page(&varied(80).run(), &[]);
    let Some((dom, complaints)) = opened(&html, "p0", 1300) else {
        return;
    };
    assert_eq!(complaints, "");
    let row = dom.find("<tr id=\"p0\"").unwrap();
    let table = &dom[dom[..row].rfind("<details").unwrap()..row];
    assert!(table.starts_with("<details class=\"numbers\" open"), "{}", &table[..60]);
}

#[test]
fn without_scripts_every_number_is_there() {
    let html = page(&varied(80).run(), &[]);
    let before = &html[..html.find("<script").unwrap()];
    assert_eq!(before.matches("<tr id=\"p").count(), 80);
    assert!(before.contains("<svg") && before.contains("type=\"checkbox\""));
}

#[test]
fn a_page_names_nothing_to_load() {
    let html = page(&varied(80).run(), &[]);
    for word in [" src=", "<link", "@import", "url(", "<iframe", "<img", "href=\"http", "<base"] {
        assert!(!html.contains(word), "{word}");
    }
}
