//! `costof compare --interleave` itself: how often it sees a difference where there is none, and how often
//! one that was planted.

use crate::bench::{Bench, own_program};
use crate::child;
use crate::costof;
use crate::error::{Error, Result, failed};
use crate::machine::{self, Watch};
use crate::share::Share;
use crate::verdict::Verdict;
use clap::ValueEnum;
use costof_peers::agreement::Band;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is asked of it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// costof beside itself, seventeen cheap rows a try: at most 5 % of tries raise a false alarm
    Same,
    /// The same with every row of the latency table
    Headlines,
    /// 5 % that are planted in one of both: found in at least 90 % of tries
    Planted,
    /// costof beside itself an hour later, as two run files: whatever that shows
    Apart,
}

/// So many tries without one false alarm show that it comes in less than one of twenty.
const SAME_TRIES: usize = 75;
const HEADLINE_TRIES: usize = 20;
/// So many that all find it show that nine in ten do.
const PLANTED_TRIES: usize = 36;
const APART_TRIES: usize = 1;
const APART: Duration = Duration::from_secs(3600);

const FALSE_ALARMS: Band = crate::verdict::at_most(0.05);
const FOUND: Band = crate::verdict::at_least(0.9);
const PLANTED_PERCENT: u32 = 5;

/// How long one comparison may take.
const LIMIT: Duration = Duration::from_secs(180);

/// Headline rows that take little: on the core, in the kernel, between processes, in the first cache.
const CHEAP: &str = "cpu.clock os.syscall os.context_switch cpu.memcpy memory.latency \
                     --set size=16KiB --set cpus=same --only";

pub(crate) fn compare(bench: &Bench, part: Option<Part>) -> Result<Vec<Verdict>> {
    let parts = match part {
        Some(part) => vec![part],
        None => vec![Part::Same, Part::Planted],
    };
    let mut verdicts = Vec::new();
    for part in parts {
        let watch = Watch::start();
        let began = Instant::now();
        let judged = match part {
            Part::Same => same(bench, CHEAP, bench.rounds(SAME_TRIES)),
            Part::Headlines => same(bench, "", bench.rounds(HEADLINE_TRIES)),
            Part::Planted => planted(bench),
            Part::Apart => apart(bench),
        }?;
        println!("{:.0} s", began.elapsed().as_secs_f64());
        machine::was_quiet(&watch);
        for (what, verdict) in judged {
            println!("{what}: {verdict}");
            verdicts.push(verdict);
        }
        println!();
    }
    Ok(verdicts)
}

/// Bounds with their names.
type Judged = Vec<(String, Verdict)>;

/// costof beside itself, again and again.
fn same(bench: &Bench, what: &str, tries: usize) -> Result<Judged> {
    bench.introduce(&format!(
        "costof compare --interleave local local {what} --quick on CPU {}: a difference is a false alarm",
        bench.cpu
    ));
    let cpus = bench.cpu_list();
    let mut alarms = Share::default();
    let mut rows = Share::default();
    for number in 1..=tries {
        let mut words = vec!["compare", "--interleave", "local", "local"];
        words.extend(what.split_whitespace());
        words.extend(["--quick", "--cpu", &cpus]);
        let found = compared(bench, bench.costof.path(), &words, &format!("same-{number}"))?;
        let seen: Vec<&Row> = found.iter().filter(|row| row.differs()).collect();
        for row in &seen {
            println!("try {number}: {}", row.shown());
        }
        alarms.add(!seen.is_empty());
        found.iter().for_each(|row| rows.add(row.differs()));
    }
    println!("\ntries with a false alarm: {alarms}; rows: {rows}");
    let verdict = alarms.judge(FALSE_ALARMS);
    Ok(vec![("at most 5 % of tries".to_owned(), verdict)])
}

/// What is 5 % slower beside what is not, at first sight and by ten launches of each.
fn planted(bench: &Bench) -> Result<Judged> {
    bench.introduce(&format!(
        "bench.planted beside itself with {PLANTED_PERCENT} % more work on CPU {}",
        bench.cpu
    ));
    let program = program()?;
    let host = |percent: u32| {
        format!("exec:COSTOF_PLANTED_PERCENT={percent} exec '{}' worker", program.display())
    };
    let (plain, slower) = (host(0), host(PLANTED_PERCENT));
    let cpus = bench.cpu_list();
    let mut judged = Vec::new();
    let tries = bench.rounds(PLANTED_TRIES);
    // By quick ones it is printed only.
    for (precision, options, tries) in [
        ("--quick", &["--quick"][..], tries.div_ceil(2)),
        ("--launches 10", &["--launches", "10"], tries),
    ] {
        let mut shares: BTreeMap<String, (u64, Share)> = BTreeMap::new();
        for number in 1..=tries {
            let mut words = vec!["compare", "--interleave", &plain, &slower, "bench.planted"];
            words.extend(["--set", "of=core,kernel,memory", "--cpu", &cpus]);
            words.extend(options);
            let name = format!("planted{}-{number}", options.concat());
            for row in compared(bench, &program, &words, &name)? {
                let is_found = row.verdict == "worse";
                if !is_found {
                    println!("{precision}, try {number}: {}", row.shown());
                }
                let first = (row.launches, Share::default());
                shares.entry(row.name).or_insert(first).1.add(is_found);
            }
        }
        for (name, (launches, share)) in shares {
            println!("{name}, {precision} ({launches} launches of each): found in {share}");
            if precision != "--quick" {
                judged.push((format!("{name}, found in at least 90 %"), share.judge(FOUND)));
            }
        }
    }
    Ok(judged)
}

/// The same twice, an hour apart: no bound is set to what comes of it.
fn apart(bench: &Bench) -> Result<Judged> {
    bench.introduce(&format!(
        "costof run {CHEAP} --quick twice, an hour apart, on CPU {}",
        bench.cpu
    ));
    let cpus = bench.cpu_list();
    let run = |name: &str| -> Result<PathBuf> {
        bench.run(name, &format!("{CHEAP} --quick --cpu {cpus}"))?;
        Ok(bench.file(name))
    };
    let mut before = run("apart-0.jsonl")?;
    for number in 1..=bench.rounds(APART_TRIES) {
        wait(bench, APART)?;
        let after = run(&format!("apart-{number}.jsonl"))?;
        let files = [&before, &after].map(|path| path.display().to_string());
        let words = ["compare", &files[0], &files[1]];
        println!("{}", output(bench, bench.costof.path(), &words)?);
        before = after;
    }
    Ok(Vec::new())
}

fn wait(bench: &Bench, time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if bench.interrupt.is_set() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// The costof with the planted probe, beside this program, brought up to date where Cargo has started it.
fn program() -> Result<PathBuf> {
    let own = own_program()?;
    let program = own.with_file_name("costof-planted");
    costof::build_planted(&own)?;
    if !program.is_file() {
        return Err(failed(format!(
            "there is no {} (cargo build --release --package costof-bench --bins, then the bench from \
             there)",
            program.display()
        )));
    }
    Ok(program)
}

/// The words for a row without a difference; the last one is that of costof 0.2.
const ALIKE: [&str; 3] = ["no_difference", "inconclusive", "cannot_tell"];

/// The result of a comparison for a row.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    verdict: String,
    ratio: f64,
    ends: [f64; 2],
    /// Of each side.
    launches: u64,
}

impl Row {
    fn differs(&self) -> bool {
        !ALIKE.contains(&self.verdict.as_str())
    }

    fn shown(&self) -> String {
        let [low, high] = self.ends;
        format!("{}: {} {:.3} ({low:.3} to {high:.3})", self.name, self.verdict, self.ratio)
    }
}

/// The rows that `costof compare --json` prints; the runs go into a folder of this name.
fn compared(bench: &Bench, program: &Path, words: &[&str], name: &str) -> Result<Vec<Row>> {
    let folder = bench.file(name).display().to_string();
    let words = [words, &["--json", "--out", &folder]].concat();
    rows(&output(bench, program, &words)?)
}

fn output(bench: &Bench, program: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    let ended = child::finish(command.args(words), LIMIT, &bench.interrupt)?;
    Ok(ended.output)
}

fn rows(json: &str) -> Result<Vec<Row>> {
    let misfit = || failed(format!("costof compare --json printed `{json}`"));
    let json: Value = serde_json::from_str(json.trim()).map_err(|_| misfit())?;
    let rows = json["comparison"]["rows"].as_array().ok_or_else(misfit)?;
    let row = |row: &Value| {
        let axes = row["axes"].as_object()?.iter().map(|(axis, value)| match value.as_str() {
            Some(word) => format!(" {axis}={word}"),
            None => format!(" {axis}={value}"),
        });
        Some(Row {
            name: format!("{}{}", row["probe"].as_str()?, axes.collect::<String>()),
            verdict: row["verdict"].as_str()?.to_owned(),
            ratio: row["ratio"].as_f64()?,
            ends: [row["ci95"][0].as_f64()?, row["ci95"][1].as_f64()?],
            launches: row["after"][1].as_u64()?,
        })
    };
    let rows: Option<Vec<Row>> = rows.iter().map(row).collect();
    match rows {
        Some(rows) if !rows.is_empty() => Ok(rows),
        _ => Err(misfit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_what_costof_says() {
        let json = r#"{"before":"a","after":"b","comparison":{"in_turns":true,"rows":[{"probe":"a.x",
            "axes":{"size":64,"way":"one"},"link":"none","metric":"cost","ratio":1.05,"ci95":[1.04,1.06],
            "before":[1.0,6],"after":[1.05,6],"verdict":"worse"}]}}"#;
        let rows = rows(json).unwrap();
        assert_eq!(rows[0].name, "a.x size=64 way=one");
        assert_eq!((rows[0].verdict.as_str(), rows[0].launches), ("worse", 6));
        assert_eq!(rows[0].shown(), "a.x size=64 way=one: worse 1.050 (1.040 to 1.060)");
    }

    #[test]
    fn what_is_no_comparison_is_an_error() {
        for json in ["", "{}", r#"{"comparison":{"rows":[]}}"#, r#"{"comparison":{"rows":[{}]}}"#] {
            assert!(rows(json).is_err(), "{json}");
        }
    }
}
