//! `os.syscall call=getppid` beside `perf bench syscall basic`: the same call in
//! a loop, through the same C library, on the same processor.

use crate::bench::Bench;
use crate::costof::{Costof, the_only_cost};
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::process::{self, pinned};
use crate::rounds::{self, Round};
use crate::verdict::{Bounds, Verdict};
use std::process::Command;
use std::time::Duration;

const ROUNDS: usize = 15;
const BOUNDS: Bounds = Bounds {
    low: 0.0,
    high: 1.05,
};
/// Ten million calls take a second where a call takes 100 ns.
const PERF_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let version = process::finish(
        Command::new("perf").arg("--version"),
        PERF_LIMIT,
        &bench.interrupt,
    )?;
    let cpu = bench.cpu;
    bench.introduce(&format!(
        "os.syscall call=getppid beside perf bench syscall basic ({}), both on processor {cpu}",
        version.output.trim()
    ));
    let watch = Watch::start();
    let mut costof_means_ns = Vec::new();
    let mut costof_ns = |round: usize| {
        let run = Costof::run(
            bench,
            &format!("syscall-{}.jsonl", round + 1),
            &[
                "os.syscall",
                "--set",
                "call=getppid",
                "--quick",
                "--cpu",
                &cpu.to_string(),
            ],
        )?;
        let cost = the_only_cost(&run)?;
        costof_means_ns.push(cost.mean);
        Ok(cost.median)
    };
    let mut perf_ns = |_| {
        let mut command = pinned(cpu, "perf");
        command.args(["bench", "syscall", "basic"]);
        let finished = process::finish(&mut command, PERF_LIMIT, &bench.interrupt)?;
        parse_perf_ns(&finished.output)
    };
    let rounds = rounds::interleave(
        bench.rounds(ROUNDS),
        &mut fastrand::Rng::new(),
        "perf",
        &mut costof_ns,
        &mut perf_ns,
    )?;
    let verdict = rounds::judge(&rounds, "perf", BOUNDS);
    // perf divides one long time by its calls, interruptions and all, which
    // costof's median leaves out.
    let perf_ns: Vec<f64> = rounds.iter().map(|round: &Round| round.peer_ns).collect();
    println!(
        "by costof's mean, which holds interruptions as perf's does: {}",
        rounds::ratio(&costof_means_ns, &perf_ns)
    );
    let verdict = verdict.only_if_quiet(machine::was_quiet(&watch));
    println!("verdict: {verdict}\n");
    bench.conclude();
    Ok(vec![verdict])
}

/// The cost of a call from perf's words: `0.110355 usecs/op`.
fn parse_perf_ns(output: &str) -> Result<f64> {
    output
        .lines()
        .find_map(|line| line.trim().strip_suffix("usecs/op"))
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|us| us.is_finite() && *us > 0.0)
        .map(|us| us * 1000.0)
        .ok_or_else(|| {
            failed(format!(
                "perf bench syscall basic printed no usecs/op, but: {}",
                output.trim()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_output_is_read() {
        let output = "# Running 'syscall/basic' benchmark:\n\
                      # Executed 10000000 getppid() calls\n     \
                      Total time: 1.103 [sec]\n\n       \
                      0.110355 usecs/op\n        9061672 ops/sec\n";
        let ns = parse_perf_ns(output).unwrap();
        assert!((ns - 110.355).abs() < 1e-9);
    }

    #[test]
    fn other_output_is_an_error_that_shows_it() {
        for output in ["", "Total time: 1.1 [sec]", "zero usecs/op", "0 usecs/op"] {
            let error = parse_perf_ns(output).unwrap_err().to_string();
            assert!(error.contains("usecs/op") && error.contains(output));
        }
    }
}
