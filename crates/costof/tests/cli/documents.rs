//! What the documents say to type is accepted, and what they link to is there. How each command is run
//! is in `documents.sh`: in full where that takes no time, otherwise without measuring. A block whose
//! commands cannot be run here says so (```` ```sh skip="needs a server" ````); they are still parsed.

use crate::common::{COSTOF, Ended, Place, or_skip, run, skipped};
use crate::formats::python;
use costof_model::noise::MEASURED;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents.sh");

/// The programs that the documents' commands name; any other one is not found.
const PROGRAMS: [&str; 13] = [
    "costof", "apt", "cargo", "cc", "docker", "install", "ip", "kubectl", "podman", "scontrol",
    "skopeo", "srun", "ssh",
];
/// The runs that they name.
const RUNS: [&str; 9] = [
    "run.jsonl",
    "before.jsonl",
    "after.jsonl",
    "a.jsonl",
    "b.jsonl",
    "c.jsonl",
    "study-rpc/run.jsonl",
    "runs/a.jsonl",
    "runs/b.jsonl",
];
/// The other builds of costof that they name.
const BUILDS: [&str; 3] = ["old/costof", "new/costof", "target/debug/costof"];

/// A fenced block: what follows its fence, and what it holds.
struct Block {
    info: String,
    text: String,
}

/// The Markdown files of a folder and of those in it.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .flat_map(|path| match path.is_dir() {
            true => documents(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().unwrap()
}

fn at_root() -> Vec<PathBuf> {
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)).into()
}

/// The fenced blocks of a document, and the text around them.
fn parts(text: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut around) = (Vec::new(), String::new());
    let mut is_open = false;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), is_open) {
            (Some(_), true) => is_open = false,
            (Some(info), false) => {
                is_open = true;
                blocks.push(Block { info: info.to_owned(), text: String::new() });
            }
            (None, true) => blocks.last_mut().unwrap().text += &format!("{line}\n"),
            (None, false) => around += &format!("{line}\n"),
        }
    }
    (blocks, around)
}

impl Block {
    /// What a shell is to run. `None` of a block that is no commands.
    fn script(&self) -> Option<String> {
        match self.info.split(' ').next() {
            Some("sh") => Some(self.text.clone()),
            Some("console") => {
                let lines = self.text.lines().filter_map(|line| line.strip_prefix("$ "));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            _ => {
                let is_command =
                    |line: &str| line.starts_with("costof ") || line.starts_with("$ costof");
                assert!(!self.text.lines().any(is_command), "mark as `sh`: {}", self.text);
                None
            }
        }
    }

    fn skip(&self) -> Option<&str> {
        let (_, reason) = self.info.split_once("skip=\"")?;
        reason.strip_suffix('"')
    }
}

/// The commands between backticks, without those that name a placeholder such as PROBE, or no more
/// than a command.
fn inline(around: &str) -> impl Iterator<Item = String> {
    let is_placeholder = |word: &str| {
        let letters =
            |text: &str| text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        word.contains('…') || word.split(|c: char| !c.is_alphanumeric()).any(letters)
    };
    let spans = around.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    let commands = spans.filter(|span| span.starts_with("costof "));
    let words = commands.map(|span| span.split_whitespace().collect::<Vec<_>>());
    let whole = words
        .filter(move |words| words.len() > 2 && !words.iter().any(|word| is_placeholder(word)));
    whole.map(|words| words.join(" "))
}

/// A place with what the documents' commands name.
fn place(run: &Path) -> Place {
    let place = Place::new();
    let folders =
        ["bin", "old", "new", "target/debug", "tools", "runs", "study-rpc", "state/costof/runs"];
    for folder in folders {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    for name in PROGRAMS {
        symlink(SCRIPT, place.path("bin").join(name)).unwrap();
    }
    for name in BUILDS {
        symlink(COSTOF, place.path(name)).unwrap();
    }
    for name in ["check", "tools/check-entry"] {
        symlink("/bin/true", place.path(name)).unwrap();
    }
    let history =
        ["1", "2", "3"].map(|day| format!("state/costof/runs/2026112{day}T000000Z.jsonl"));
    for name in RUNS.map(String::from).into_iter().chain(history) {
        fs::copy(run, place.path(&name)).unwrap();
    }
    for (side, kernel) in [("OLD", "6.18.44"), ("NEW", "6.20.0")] {
        fs::create_dir(place.path(side)).unwrap();
        for host in ["a", "b"] {
            let mut run = place.read("run.jsonl");
            let facts = run.attempts.iter_mut().flat_map(|attempt| attempt.hosts.get_mut(MEASURED));
            for facts in facts {
                facts.host_name = Some(format!("{side}-{host}"));
                facts.kernel.release = Some(kernel.to_owned());
            }
            place.write(&format!("{side}/{host}.jsonl"), run);
        }
    }
    for (document, name) in [("STUDIES.md", "course.toml"), ("own-probes.md", "costof.toml")] {
        let text = fs::read_to_string(root().join("docs").join(document)).unwrap();
        let shown = parts(&text).0.into_iter().find(|block| block.info == "toml");
        fs::write(place.path(name), shown.unwrap().text).unwrap();
    }
    place
}

fn shell(place: &Place, script: &str, only_parsed: bool) -> Ended {
    let path = std::env::var("PATH").unwrap();
    let mut shell = place.command("sh -eu");
    shell
        .args(["-c", script])
        .env("PATH", format!("{}:{path}", place.path("bin").display()))
        .env("COSTOF", COSTOF)
        .env("COSTOF_ONLY_PARSE", if only_parsed { "1" } else { "" });
    run(&mut shell)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_command_of_the_documents_is_accepted() {
    let measured = Place::new();
    let words = "cpu.clock --set source=tsc,monotonic --quick --launches 3";
    measured.quiet_run(words, "run.jsonl");
    let mut tried = BTreeSet::new();
    let mut failed = Vec::new();
    let is_history = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "decisions");
    let documents = documents(&root().join("docs")).into_iter();
    for document in at_root().into_iter().chain(documents.filter(|path| !is_history(path))) {
        let place = place(&measured.path("run.jsonl"));
        let name = document.strip_prefix(root()).unwrap().display().to_string();
        let (blocks, around) = parts(&fs::read_to_string(&document).unwrap());
        let of_blocks = blocks.iter().filter_map(|block| Some((block.script()?, block.skip())));
        for (script, skip) in of_blocks.chain(inline(&around).map(|command| (command, None))) {
            if !tried.insert(script.clone()) {
                continue;
            }
            if let Some(reason) = skip {
                skipped(format_args!("{name}: {reason}: only parsed: {script}"));
            }
            let ended = shell(&place, &script, skip.is_some());
            if ended.code != Some(0) {
                failed.push(format!("{name}: {script}\n{}", ended.err));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(tried.len() > 50, "{tried:?}");
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Why a link of a document leads nowhere; in the book, also if it leads out of the book.
fn broken(document: &Path, link: &str) -> Option<String> {
    let (path, wanted) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => document.to_owned(),
        path => document.parent().unwrap().join(path),
    };
    let Ok(target) = target.canonicalize() else {
        return Some(format!("no {}", target.display()));
    };
    let book = root().join("docs");
    if document.starts_with(&book) && !target.starts_with(&book) {
        return Some("leads out of docs/, and so out of the book".to_owned());
    }
    let (_, around) = parts(&fs::read_to_string(&target).unwrap_or_default());
    let mut headings = around.lines().filter(|line| line.starts_with('#'));
    let is_there = wanted.is_empty() || headings.any(|heading| anchor(heading) == wanted);
    (!is_there).then(|| format!("no heading #{wanted} in {}", target.display()))
}

#[test]
fn kubernetes_accepts_the_manifests() {
    let mut validate = or_skip!(python("kubernetes_validate", "kubernetes-validate"));
    let manifests = ["daemonset", "job"].map(|name| format!("docs/kubernetes/{name}.yaml"));
    let ended = run(validate.arg("--strict").args(manifests).current_dir(root())).expect_code(0);
    assert_eq!(ended.err.matches("passed").count() + ended.out.matches("passed").count(), 2);
}

#[test]
fn every_link_of_the_documents_leads_somewhere_and_the_book_has_them_all() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let mut failed = Vec::new();
    let documents = documents(&root().join("docs"));
    for document in &documents {
        let name = document.strip_prefix(root().join("docs")).unwrap().display().to_string();
        if name != "SUMMARY.md" && !summary.contains(&format!("]({name})")) {
            failed.push(format!("docs/SUMMARY.md has no chapter {name}"));
        }
    }
    for document in at_root().iter().chain(&documents) {
        let (_, around) = parts(&fs::read_to_string(document).unwrap());
        let links = around.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in links.filter(|link| !link.contains("://")) {
            if let Some(why) = broken(document, link) {
                failed.push(format!("{}: ({link}): {why}", document.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The Rust files of a folder and of those in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

/// The number with which a text begins.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[test]
fn code_names_each_rule_of_the_method_and_no_other() {
    let method = fs::read_to_string(root().join("docs/METHOD.md")).unwrap();
    let rules: Vec<u32> =
        method.lines().filter_map(|line| number(line.strip_prefix("**")?)).collect();
    let numbers = 1..=rules.len().max(22) as u32;
    assert!(rules.iter().copied().eq(numbers), "rules keep their numbers: {rules:?}");
    let mut sources = sources(&root().join("crates"));
    sources.retain(|path| {
        !path.components().any(|part| {
            let part = Path::new(part.as_os_str());
            part.file_stem().is_some_and(|name| name == "tests")
        })
    });
    let named: BTreeSet<u32> = sources
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .flat_map(|text| text.split("// METHOD ").skip(1).filter_map(number).collect::<Vec<_>>())
        .collect();
    let unnamed: Vec<&u32> = rules.iter().filter(|rule| !named.contains(rule)).collect();
    assert!(unnamed.is_empty(), "no code keeps these rules: {unnamed:?}");
    let unknown: Vec<&u32> = named.iter().filter(|rule| !rules.contains(rule)).collect();
    assert!(unknown.is_empty(), "METHOD.md has no such rules: {unknown:?}");
}

#[test]
fn each_decision_says_when_to_open_it_again() {
    let decisions = documents(&root().join("docs/decisions"));
    for path in decisions.iter().filter(|path| !path.ends_with("README.md")) {
        let text = fs::read_to_string(path).unwrap();
        let status = text.split("\n\n").nth(1).unwrap();
        assert!(status.starts_with("Status: "), "{}", path.display());
        assert!(status.contains("Open again if"), "{}", path.display());
    }
}
