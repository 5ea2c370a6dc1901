//! What `costof time` answers on commands of special kinds, how soon the first answer comes, and what its sampler takes.

use super::timed::Timed;
use super::{Commands, Kind, MILLISECONDS, Size, percent};
use crate::bench::Bench;
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::child;
use costof_stats::median;
use std::time::Duration;

const ROUNDS: usize = 5;
const FIRST_ANSWER: Duration = Duration::from_secs(3);
const SAMPLER: f64 = 0.01;

pub(super) fn compare(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    let milliseconds = size.milliseconds.unwrap_or(MILLISECONDS);
    bench.introduce("the first answer, the sampler, and commands of special kinds");
    let mut longest = Duration::ZERO;
    for _ in 0..bench.rounds(ROUNDS) {
        let mut command = bench.costof.command(&["time", "ls"]);
        longest = longest.max(child::finish(&mut command, super::LIMIT, &bench.interrupt)?.wall);
    }
    let commands = Commands::new(bench, milliseconds)?;
    let mut costs = Vec::new();
    let mut timed = |name: &str, command: String, options: &str| -> Result<Timed> {
        let timed = commands.time(Kind::Core, options, &[command])?;
        println!("{name}: {}", answer(&timed));
        costs.push(timed.sampler_cost(0));
        Ok(timed)
    };
    let work = commands.work(Kind::Core, milliseconds)?;
    let awk = |kind, n| commands.command(kind, n);
    timed("CPU-bound", awk(Kind::Core, work.n), "")?;
    timed("a twentieth of that", awk(Kind::Core, (work.n / 20).max(1)), "")?;
    timed("twenty times that", awk(Kind::Core, work.n * 20), "--runs 5")?;
    let memory = commands.work(Kind::Memory, milliseconds)?;
    timed("memory", awk(Kind::Memory, memory.n), "")?;
    timed("sleeps", "sleep 0.05".to_owned(), "--runs 10")?;
    timed("forks", "sh -c 'for i in 1 2 3 4 5; do awk 1 /dev/null; done'".to_owned(), "")?;
    let one = awk(Kind::Core, (work.n / 8).max(1)).replace('\'', "'\\''");
    let eight = format!("sh -c '{}wait'", format!("{one} & ").repeat(8));
    timed("eight processes", eight, "--runs 10")?;
    println!();
    let cost = median(&costs).unwrap_or(f64::NAN);
    Ok(vec![
        Verdict::from(longest <= FIRST_ANSWER).end_line(&format!(
            "costof time ls: {:.2} s at most; 3 s are allowed",
            longest.as_secs_f64()
        )),
        Verdict::from(cost <= SAMPLER)
            .end_line(&format!("the sampler takes {} of a CPU; 1 % is allowed", percent(cost))),
    ])
}

/// The time alone, or why it is not known, and the notes.
fn answer(timed: &Timed) -> String {
    let command = &timed.commands[0];
    let known = match (&command.alone_ns, &command.alone_unknown) {
        (Some(alone), _) => {
            let [value, low, high] = [alone.value, alone.low, alone.high].map(|ns| ns / 1e6);
            format!("{value:.2} ms ({low:.2} to {high:.2}) of CPU time with the core alone")
        }
        (None, why) => {
            let cpu = timed.cpu_ns(0) / 1e6;
            let why = why.as_deref().unwrap_or("no reason");
            format!("{cpu:.2} ms of CPU time as it ran; alone: {why}")
        }
    };
    [&[known][..], &command.notes].concat().join("; ")
}
