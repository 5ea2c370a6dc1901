//! `costof time` on commands whose true difference is known, beside hyperfine on the same commands in the same minutes.
//!
//! More work is planted by a number in the command: loops of awk, blocks that dd copies. What a command takes to start is
//! measured, and is no part of that work.

mod answers;
mod timed;
mod truths;
mod widths;

use crate::bench::Bench;
use crate::error::{OrCannot, Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::Verdict;
use clap::{Args, ValueEnum};
use costof_peers::child;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use timed::Timed;

/// What is asked.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// 0 to 10 % planted: how often intervals hold the truth, false alarms, planted 2 % found
    Truths,
    /// Half the interval of a ratio after 10 s of commands of 100 ms, with and without the gauge
    Widths,
    /// The first answer, the sampler's cost, commands that wait, fork, are short
    Answers,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Size {
    /// CPU time of each command, milliseconds; without, 30 in `truths`, else 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    milliseconds: Option<u32>,
    /// Runs of each command in a try of `truths`
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(4..))]
    runs: u32,
    /// Seconds of a comparison in `widths`
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u32,
}

/// CPU time of each command where nothing else is asked.
const MILLISECONDS: u32 = 100;
/// How long one `costof time` or hyperfine may take.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of the cached file for each millisecond of a command that reads it.
const FILE_BYTES_PER_MS: u64 = 8 << 20;
const BLOCK_BYTES: u64 = 64 << 10;
/// Enough for a command that is ten per cent longer.
const FILE_SPARE: f64 = 1.15;

/// A kind of command, whose work a number decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Core,
    Memory,
    Calls,
    Processes,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Core, Kind::Memory, Kind::Calls, Kind::Processes];

    fn name(self) -> &'static str {
        match self {
            Kind::Core => "CPU-bound (awk)",
            Kind::Memory => "memory (dd of a cached file)",
            Kind::Calls => "system calls (dd of 64 B)",
            Kind::Processes => "two processes (awk)",
        }
    }
}

/// Where commands of all kinds find what they read.
struct Commands<'a> {
    bench: &'a Bench,
    file: PathBuf,
    blocks: u64,
}

impl<'a> Commands<'a> {
    /// For commands of so many milliseconds.
    fn new(bench: &'a Bench, milliseconds: u32) -> Result<Commands<'a>> {
        let file = bench.file("cached");
        let blocks = u64::from(milliseconds) * FILE_BYTES_PER_MS / BLOCK_BYTES;
        let mut written = File::create(&file).or_cannot(format_args!("make {}", file.display()))?;
        for number in 0..blocks {
            let block = [number as u8 | 1; BLOCK_BYTES as usize];
            written.write_all(&block).or_cannot(format_args!("write {}", file.display()))?;
        }
        Ok(Commands { bench, file, blocks })
    }

    fn command(&self, kind: Kind, n: u64) -> String {
        let awk = format!("awk 'BEGIN {{ for (i = 0; i < {n}; i++) s += i * i }}'");
        match kind {
            Kind::Core => awk,
            Kind::Memory => format!("dd if={} of=/dev/null bs=64K count={n}", self.file.display()),
            Kind::Calls => format!("dd if=/dev/zero of=/dev/null bs=64 count={n}"),
            Kind::Processes => {
                let awk = awk.replace('\'', "'\\''");
                format!("sh -c '{awk} & {awk}; wait'")
            }
        }
    }

    /// The CPUs of a kind, for both programs; `None` for where they choose.
    fn cpus(&self, kind: Kind) -> Result<Option<String>> {
        match kind {
            Kind::Processes => {
                let [a, b] = self.bench.two_cpus()?;
                Ok(Some(format!("{a},{b}")))
            }
            _ => Ok(None),
        }
    }

    /// `costof time --json` of these commands.
    fn time(&self, kind: Kind, options: &str, commands: &[String]) -> Result<Timed> {
        let mut words = vec!["time", "--json", "--shell", "none"];
        words.extend(options.split_whitespace());
        let cpus = self.cpus(kind)?;
        if let Some(cpus) = &cpus {
            words.extend(["--cpu", cpus]);
        }
        words.extend(commands.iter().map(String::as_str));
        let mut command = self.bench.costof.command(&words);
        let ended = child::finish(&mut command, LIMIT, &self.bench.interrupt)?;
        Timed::parse(&ended.output)
    }

    /// How much work of a kind takes so much CPU time, and the share of it that is the start.
    fn work(&self, kind: Kind, milliseconds: u32) -> Result<Work> {
        let processes = if kind == Kind::Processes { 2.0 } else { 1.0 };
        let wanted_ns = processes * 1e6 * f64::from(milliseconds);
        let most = match kind {
            Kind::Memory => (self.blocks as f64 / FILE_SPARE) as u64,
            _ => u64::MAX,
        };
        let mut n = 1000_u64.min(most);
        loop {
            let commands = [1, n].map(|n| self.command(kind, n));
            let timed = self.time(kind, "--runs 5", &commands)?;
            let [start_ns, all_ns] = [0, 1].map(|number| timed.cpu_ns(number));
            let work_ns = (all_ns - start_ns).max(1.0);
            // On a busy machine the start alone may have taken as long as all.
            let factor = ((wanted_ns - start_ns) / work_ns).clamp(0.01, 10.0);
            if all_ns > 0.7 * wanted_ns || n == most {
                // Commands that start in a moment are longer than their start all the same.
                let start = (start_ns / (start_ns + work_ns * factor)).min(0.9);
                let n = ((n as f64 * factor) as u64).clamp(1, most);
                return Ok(Work { kind, n, start });
            }
            n = ((n as f64 * factor.max(1.5)) as u64).clamp(1, most);
        }
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// A command of a kind.
#[derive(Clone, Copy, Debug)]
struct Work {
    kind: Kind,
    n: u64,
    /// The share of its CPU time that is its start.
    start: f64,
}

impl Work {
    /// The number for so much more work, a share, and the true ratio of CPU times.
    fn planted(&self, more: f64) -> (u64, f64) {
        let n = (self.n as f64 * (1.0 + more)).round() as u64;
        (n, 1.0 + (1.0 - self.start) * (n as f64 / self.n as f64 - 1.0))
    }
}

pub(crate) fn compare(bench: &Bench, part: Option<Part>, size: Size) -> Result<Vec<Verdict>> {
    for program in ["awk", "dd"] {
        if costof_peers::packages::find(program).is_none() {
            return Err(failed(costof_peers::packages::missing(program)));
        }
    }
    let parts = part.map_or(vec![Part::Truths, Part::Widths, Part::Answers], |part| vec![part]);
    let mut verdicts = Vec::new();
    for part in parts {
        let (watch, began) = (Watch::start(), Instant::now());
        verdicts.extend(match part {
            Part::Truths => truths::compare(bench, size)?,
            Part::Widths => widths::compare(bench, size)?,
            Part::Answers => answers::compare(bench, size)?,
        });
        println!("{:.0} s", began.elapsed().as_secs_f64());
        machine::was_quiet(&watch);
        println!();
    }
    Ok(verdicts)
}

/// A share as a table shows it.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planted_is_not_the_start() {
        let work = Work { kind: Kind::Core, n: 1000, start: 0.1 };
        let (n, truth) = work.planted(0.02);
        assert_eq!(n, 1020);
        assert!((truth - 1.018).abs() < 1e-12, "{truth}");
        assert_eq!(work.planted(0.0), (1000, 1.0));
    }
}
