//! What every released version wrote, this one reads: `tests/released/VERSION` has its run files, made by
//! `tools/fixture`, and what its worker says first.

use crate::common::{Place, assert_contains, assert_contains_all};
use costof_findings::Finding;
use costof_findings::all::findings;
use costof_findings::noise::{BEYOND_NOISE, Withheld};
use costof_measure::probe::find;
use costof_model::axis::Axis;
use costof_model::names::Names;
use costof_model::noise::Grade;
use costof_model::run_file::{self, Run};
use costof_probes::TABLE;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each run must go through; RUN is its file. A pair has numbers to compare, a study its tables.
const COMMANDS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "show RUN --notes --ids",
            "report RUN --html page.html --svg plots/ --csv values/ --markdown",
            "fleet RUN",
            "history RUN",
            "export RUN --anonymous",
            "export RUN --format csv",
            "export RUN --format csv-launches --out values/",
            "export RUN --format markdown --anonymous",
            "export RUN --format svg --out plots/",
            "export RUN --format prometheus --all-metrics",
            "export RUN --format bencher",
            "export RUN --format github-action-benchmark --out series/",
            "export RUN --format otava --out otava/",
            "export RUN --format superbench",
            "export RUN --format reframe",
        ],
    ),
    ("run", &["estimate --run RUN 2*os.syscall(call=getppid)"]),
    ("after", &["compare before.jsonl RUN"]),
    ("study", &["study latency-numbers --run RUN --out study"]),
];

/// The folders of `tests/released`.
pub(crate) fn releases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

/// A place with the files of a release, and the names of its runs.
pub(crate) fn unpacked(release: &Path) -> (Place, Vec<String>) {
    let place = Place::new();
    let mut runs = Vec::new();
    for entry in fs::read_dir(release).unwrap() {
        let packed = entry.unwrap().path();
        let name = packed.file_stem().unwrap().to_str().unwrap();
        let mut gunzip = Command::new("gunzip");
        gunzip.arg("--stdout").arg(&packed);
        gunzip.stdout(File::create(place.path(name)).unwrap());
        assert!(gunzip.status().unwrap().success(), "{}", packed.display());
        runs.extend(name.strip_suffix(".jsonl").map(str::to_owned));
    }
    runs.retain(|name| name != "worker");
    (place, runs)
}

/// The objects of a text of JSON lines that have this `type`.
fn rows(text: &str, kind: &str) -> Vec<Value> {
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.filter(|row: &Value| row["type"] == kind).collect()
}

/// The name and median of each metric of each point.
fn medians(text: &str) -> Vec<(String, f64)> {
    let points = rows(text, "point");
    let metrics = points.iter().flat_map(|point| point["metrics"].as_array().unwrap());
    metrics
        .map(|metric| {
            let name = metric["name"].as_str().unwrap();
            (name.to_owned(), metric["median"].as_f64().unwrap())
        })
        .collect()
}

/// No row is skipped as unknown, and `show` has each number that the file has.
fn expect_all_is_read(place: &Place, name: &str) {
    let text = fs::read_to_string(place.path(name)).unwrap();
    let run = run_file::read(text.as_bytes()).unwrap();
    let read = [
        ("probe", run.probes.len()),
        ("attempt", run.attempts.len()),
        ("prediction", run.predictions.len()),
        ("launch", run.launches.len()),
        ("failure", run.failures.len()),
        ("point", run.points.len()),
    ];
    for (kind, count) in read {
        assert_eq!(rows(&text, kind).len(), count, "{kind} in {name}");
    }
    let shown = place.run(&format!("show {name} --json")).expect_code(0).out;
    let (written, shown) = (medians(&text), medians(&shown));
    assert!(!written.is_empty(), "{name}");
    for median in written {
        assert!(shown.contains(&median), "{median:?} of {name} is lost");
    }
}

#[test]
fn run_files_of_every_release_are_read() {
    for release in releases() {
        let (place, runs) = unpacked(&release);
        for run in &runs {
            expect_all_is_read(&place, &format!("{run}.jsonl"));
            for (of, commands) in COMMANDS {
                for command in *commands {
                    if of.is_empty() || of == run {
                        let line = command.replace("RUN", &format!("{run}.jsonl"));
                        assert!(
                            !place.run(&line).expect_code(0).err.contains("left out"),
                            "{line}"
                        );
                    }
                }
            }
        }
    }
}

/// Points get the defaults of axes that their costof did not know, and ids leave defaults out: so a default stays.
#[test]
fn points_of_every_release_are_points_of_today() {
    let names = Names::new(TABLE.iter().map(|probe| &*probe.info));
    let mut other_points = BTreeSet::new();
    for release in releases() {
        let (place, runs) = unpacked(&release);
        for name in &runs {
            let text = fs::read(place.path(&format!("{name}.jsonl"))).unwrap();
            let mut run = run_file::read(&text[..]).unwrap();
            for then in &run.probes {
                let now =
                    find(TABLE, &then.id).into_iter().flat_map(|probe| probe.info.axes.iter());
                for now in now {
                    let then = then.axes.iter().find(|axis| axis.name == now.name);
                    let default = then.map_or(now.default(), Axis::default);
                    assert_eq!(default, now.default(), "{} in {}", now.name, release.display());
                }
            }
            names.apply(&mut run);
            for point in run.run.plan.points() {
                let probe = find(TABLE, &point.probe);
                if !probe.is_some_and(|probe| probe.info.allows(&point.axes)) {
                    other_points.insert(point.to_string());
                }
            }
        }
    }
    assert_eq!(other_points, BTreeSet::new());
}

/// The findings of a run as sentences.
fn sentences(run: &Run) -> Vec<String> {
    findings(run).into_iter().map(|it| it.sentence).collect()
}

/// Recorded runs, as they are and with every second row disturbed: what one finding denies, no other says, and what
/// noise withholds is not said.
#[test]
fn no_two_findings_of_a_recorded_run_contradict_each_other() {
    for release in releases() {
        let (place, runs) = unpacked(&release);
        for name in &runs {
            let mut run = place.read(&format!("{name}.jsonl"));
            for busy in [false, true] {
                for row in run.points.iter_mut().step_by(2).filter(|_| busy) {
                    row.grade = Grade::D;
                }
                let said = sentences(&run);
                for denied in said.iter().filter(|it| it.contains("shows no level for it")) {
                    let (_, cache) = denied.split_once("iB of ").unwrap();
                    let end = format!("the {} at ", &cache[..2]);
                    let pages = if denied.contains("2MiB pages") { "2MiB" } else { "4KiB" };
                    let mut others = said.iter().filter(|it| it.contains(pages));
                    assert!(!others.any(|it| it.contains(&end)), "{said:#?}");
                }
                let findings = findings(&run);
                let withheld = Withheld::new(&run);
                for found in &findings {
                    let same = |other: &Finding| other == found;
                    let needs = found.evidence.iter().filter_map(|point| {
                        let row = run.points.iter().find(|row| row.point == *point);
                        row.filter(|row| !row.is_sound())
                    });
                    let rests_on_noise = needs.count() > 0;
                    let is_of_times = !BEYOND_NOISE.contains(&found.kind);
                    assert!(!(rests_on_noise && is_of_times), "{}", found.sentence);
                    assert!(rests_on_noise || withheld.why(same).is_none(), "{}", found.sentence);
                }
            }
        }
    }
}

/// Copies of one run, as if of six hosts and days.
#[test]
fn runs_of_every_release_are_a_fleet_and_a_history() {
    for release in releases() {
        let (place, _) = unpacked(&release);
        let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
        let run = &rows(&text, "run")[0];
        let host = &rows(&text, "attempt")[0]["hosts"]["only"]["host_name"];
        fs::create_dir(place.path("runs")).unwrap();
        for number in 1..=6 {
            let other = text
                .replace(&host.to_string(), &format!(r#""node{number}""#))
                .replace(&run["started"].to_string(), &format!(r#""2026-01-0{number}T00:00:00Z""#));
            fs::write(place.path(&format!("runs/{number}.jsonl")), other).unwrap();
        }
        for (command, says) in [("fleet", "none is odd"), ("history", "no lasting change")] {
            let out = place.run(&format!("{command} runs")).expect_code(0).out;
            assert_contains(&out, says);
            assert!(!out.contains(" 0 rows"), "{out}");
        }
    }
}

/// How a run ends on a worker that repeats what a released one said, with this protocol, and then what it is asked.
fn run_on_released_worker(release: &Path, protocol: &str) -> String {
    let (place, _) = unpacked(release);
    let host = format!(
        r#"exec:sed s/\"protocol\":1/\"protocol\":{protocol}/ worker.jsonl; head --lines=2 >&2"#
    );
    let line = format!("run --only harness.null --on '{host}' --out none.jsonl");
    place.run(&line).expect_code(3).err
}

#[test]
fn the_worker_of_every_release_is_understood_or_refused_by_its_version() {
    for release in releases() {
        let version = release.file_name().unwrap().to_str().unwrap();
        let understood = run_on_released_worker(&release, "1");
        assert_contains(&understood, r#"{"do":"hold"}"#);
        let refused = run_on_released_worker(&release, "9");
        let own = env!("CARGO_PKG_VERSION");
        let says = [
            &format!("(costof {version}) speaks protocol 9"),
            &format!("this controller (costof {own}) protocol 1"),
            "same release",
        ];
        assert_contains_all(&refused, &says.map(|part| part as &str));
    }
}
