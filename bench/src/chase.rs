//! `memory.latency` beside a chase that was written independently in C: one
//! random cycle through 512 MiB on 4 KiB pages, a word every 64 bytes.

use crate::bench::Bench;
use crate::costof::{Costof, the_only_cost};
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::process::{self, pinned};
use crate::rounds;
use crate::verdict::{Bounds, Verdict};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 9;
const BOUNDS: Bounds = Bounds {
    low: 0.9,
    high: 1.1,
};
const SOURCE: &str = include_str!("chase.c");
const SIZE_BYTES: u64 = 512 << 20;
const STRIDE_BYTES: u64 = 64;
const LAPS: u64 = 2;
const COMPILE_LIMIT: Duration = Duration::from_secs(60);
const CHASE_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let chase = compile(bench)?;
    let cpu = bench.cpu;
    bench.introduce(&format!(
        "memory.latency size=512MiB pages=4KiB pattern=random stride=64B beside bench/src/chase.c, \
         both on processor {cpu}"
    ));
    let watch = Watch::start();
    let mut random = fastrand::Rng::new();
    let mut seeds = random.fork();
    let mut costof_ns = |round: usize| {
        let run = Costof::run(
            bench,
            &format!("chase-{}.jsonl", round + 1),
            &[
                "memory.latency",
                "--set",
                "size=512MiB",
                "--set",
                "pages=4KiB",
                "--set",
                "pattern=random",
                "--set",
                "stride=64",
                "--quick",
                "--cpu",
                &cpu.to_string(),
            ],
        )?;
        Ok(the_only_cost(&run)?.median)
    };
    let mut chase_ns = |_| {
        let mut command = pinned(cpu, &chase.to_string_lossy());
        command.args([SIZE_BYTES, STRIDE_BYTES, seeds.u64(..), LAPS].map(|word| word.to_string()));
        let finished = process::finish(&mut command, CHASE_LIMIT, &bench.interrupt)?;
        parse_chase_ns(&finished.output)
    };
    let rounds = rounds::interleave(
        bench.rounds(ROUNDS),
        &mut random,
        "chase.c",
        &mut costof_ns,
        &mut chase_ns,
    )?;
    let verdict = rounds::judge(&rounds, "chase.c", BOUNDS);
    // Both sides are medians of short stretches, which a noisy machine moves alike.
    machine::was_quiet(&watch);
    println!("verdict: {verdict}\n");
    bench.conclude();
    Ok(vec![verdict])
}

/// The chase as a program of this machine.
fn compile(bench: &Bench) -> Result<PathBuf> {
    let source = bench.file("chase.c");
    fs::write(&source, SOURCE)
        .map_err(|error| failed(format!("cannot write {}: {error}", source.display())))?;
    let program = bench.file("chase");
    process::finish(
        Command::new("cc")
            .args(["-O2", "-Wall", "-Werror", "-o"])
            .args([&program, &source]),
        COMPILE_LIMIT,
        &bench.interrupt,
    )?;
    Ok(program)
}

fn parse_chase_ns(output: &str) -> Result<f64> {
    output
        .trim()
        .strip_suffix("ns per load")
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|ns| ns.is_finite() && *ns > 0.0)
        .ok_or_else(|| failed(format!("chase.c printed no cost, but: {}", output.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chases_output_is_read() {
        assert_eq!(parse_chase_ns("141.2530 ns per load\n").unwrap(), 141.253);
        for output in ["", "fast", "0 ns per load", "inf ns per load"] {
            let error = parse_chase_ns(output).unwrap_err().to_string();
            assert!(error.contains(output));
        }
    }
}
