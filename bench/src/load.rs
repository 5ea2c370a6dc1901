//! Loads of our own: this program again, as a child that ends when its standard input closes. So it
//! ends with the bench, however the bench ends, and it ends by itself after a while.
//!
//! A load that wants a share of a CPU wants it in turns of random length, as neighbours do: a fixed
//! period could beat with what is measured. The same seed gives the same turns, and they follow the
//! clock alone, so that all that is measured under one seed meets the same load.

use crate::bench::own_program;
use crate::error::{OrCannot, Result, failed};
use clap::Subcommand;
use costof_os::sched::affinity;
use costof_peers::caches::BeyondCaches;
use fastrand::Rng;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The longest that a load lasts.
const LIMIT: Duration = Duration::from_secs(120);
/// What it prints when it has begun.
const READY: &str = "loaded\n";
/// The shortest busy time, and by how many times the longest is longer.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST_OVER_SHORTEST: f64 = 100.0;
/// For how long what has ended may still be in a group.
const EMPTY_LIMIT: Duration = Duration::from_secs(30);
/// What is copied, at least.
const MIN_MIB: u64 = 128;

/// What a load does.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Load {
    /// Want a CPU for a share of the time
    Busy {
        /// Which CPU
        cpu: usize,
        /// Percent of the time, 1 to 100
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
        percent: u32,
        /// What the lengths of its turns are drawn from
        seed: u64,
    },
    /// Copy main memory
    Copy {
        /// On which CPU
        cpu: usize,
    },
    /// Remove a control group at the end
    Remove {
        /// Its folder
        group: PathBuf,
    },
}

/// A load that has begun, ended when dropped.
pub(crate) struct Running(Child);

impl Load {
    /// One that always wants a CPU.
    pub(crate) fn always(cpu: usize) -> Load {
        let (percent, seed) = (100, 0);
        Load::Busy { cpu, percent, seed }
    }

    /// Starts it, and returns when it has begun.
    ///
    /// Errors: it does not begin; it has then printed why on standard error.
    pub(crate) fn start(&self) -> Result<Running> {
        let action = format!("start the load {self:?}");
        let child = Command::new(own_program()?)
            .args(self.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the bench, which then ends its loads in order.
            .process_group(0)
            .spawn()
            .or_cannot(&action)?;
        let mut running = Running(child);
        let output = running.0.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        // It prints one line at once, or ends.
        BufReader::new(output).read_line(&mut line).or_cannot(&action)?;
        if line == READY {
            Ok(running)
        } else {
            Err(failed(format!("cannot {action}: it ended at once")))
        }
    }

    /// The command line of the child.
    fn words(&self) -> Vec<String> {
        let (name, rest) = match self {
            Load::Busy { cpu, percent, seed } => {
                ("busy", vec![cpu.to_string(), percent.to_string(), seed.to_string()])
            }
            Load::Copy { cpu } => ("copy", vec![cpu.to_string()]),
            Load::Remove { group } => ("remove", vec![group.display().to_string()]),
        };
        let mut words = ["load", name].map(str::to_owned).to_vec();
        words.extend(rest);
        words
    }

    /// The child's side: does it until standard input closes.
    pub(crate) fn execute(self) -> ExitCode {
        let end = Instant::now() + LIMIT;
        let done = match self {
            Load::Busy { cpu, percent, seed } => busy(cpu, turns(percent, seed), end),
            Load::Copy { cpu } => copy(cpu, end),
            Load::Remove { group } => {
                begin();
                wait_for_the_bench();
                remove_group(&group)
            }
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("costof-bench load: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

impl Running {
    /// Closes its standard input, and waits until it has ended by itself.
    pub(crate) fn finish(mut self) {
        // It is killed next where it cannot be waited for.
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself is past both.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a load is busy, and for how long: busy and idle turns, without end.
///
/// Busy turns last 1 to 100 ms, their logarithms being uniform; idle ones are drawn likewise and made as
/// much longer as the share asks for.
fn turns(percent: u32, seed: u64) -> impl Iterator<Item = (bool, Duration)> {
    let share = f64::from(percent) / 100.0;
    let mut random = Rng::with_seed(seed);
    let mut is_busy = random.f64() >= share;
    std::iter::repeat_with(move || {
        is_busy = !is_busy;
        let length = SHORTEST.mul_f64(LONGEST_OVER_SHORTEST.powf(random.f64()));
        let times = if is_busy { 1.0 } else { (1.0 - share) / share };
        (is_busy, length.mul_f64(times))
    })
}

fn busy(cpu: usize, turns: impl Iterator<Item = (bool, Duration)>, end: Instant) -> Result<()> {
    pin(cpu)?;
    begin();
    end_with_the_bench();
    let mut until = Instant::now();
    for (is_busy, length) in turns {
        until = (until + length).min(end);
        if is_busy {
            while Instant::now() < until {
                for _ in 0..1000 {
                    std::hint::black_box(());
                }
            }
        } else {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        if until == end {
            break;
        }
    }
    Ok(())
}

/// Copies one half of more memory than the caches hold into the other, over and over.
fn copy(cpu: usize, end: Instant) -> Result<()> {
    pin(cpu)?;
    let BeyondCaches { mib, lacks } = BeyondCaches::at_least(MIN_MIB);
    if let Some(why) = lacks {
        return Err(failed(why));
    }
    // Not zeroes, which may all be the same page.
    let mut memory = vec![1_u64; (mib as usize) << 17];
    let (from, to) = memory.split_at_mut((mib as usize) << 16);
    begin();
    end_with_the_bench();
    while Instant::now() < end {
        to.copy_from_slice(std::hint::black_box(from));
        std::hint::black_box(&mut *to);
    }
    Ok(())
}

fn pin(cpu: usize) -> Result<()> {
    affinity::pin(&[cpu]).or_cannot(format_args!("run on CPU {cpu}"))
}

fn begin() {
    print!("{READY}");
}

fn end_with_the_bench() {
    std::thread::spawn(|| {
        wait_for_the_bench();
        std::process::exit(0);
    });
}

fn wait_for_the_bench() {
    // Nothing is ever written to it: it reads its end when the bench is gone.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Removes a group, once all that was in it has ended.
///
/// Errors: something in it goes on.
fn remove_group(group: &Path) -> Result<()> {
    let end = Instant::now() + EMPTY_LIMIT;
    loop {
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other if Instant::now() > end => {
                return other.or_cannot(format_args!("remove {}", group.display()));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(subcommand)]
        load: Load,
    }

    /// Share of the time that is busy, over so many turns, and the shortest and longest busy one.
    fn share(percent: u32, seed: u64, count: usize) -> (f64, Duration, Duration) {
        let all: Vec<(bool, Duration)> = turns(percent, seed).take(count).collect();
        let busy: Vec<Duration> = all.iter().filter(|turn| turn.0).map(|turn| turn.1).collect();
        let whole: Duration = all.iter().map(|turn| turn.1).sum();
        (
            busy.iter().sum::<Duration>().div_duration_f64(whole),
            *busy.iter().min().unwrap(),
            *busy.iter().max().unwrap(),
        )
    }

    #[test]
    fn a_load_is_busy_for_its_share_in_turns_of_1_to_100_ms() {
        for percent in [25, 50, 100] {
            let (share, shortest, longest) = share(percent, 7, 100_000);
            assert!((share - f64::from(percent) / 100.0).abs() < 0.01, "{share}");
            assert!(shortest >= SHORTEST && shortest < Duration::from_millis(2));
            assert!(longest > Duration::from_millis(90) && longest <= Duration::from_millis(100));
        }
    }

    #[test]
    fn a_seed_gives_the_same_turns_again_and_another_seed_others() {
        let first = |seed| turns(50, seed).take(100).collect::<Vec<_>>();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
        let alternate = first(3).windows(2).all(|pair| pair[0].0 != pair[1].0);
        assert!(alternate);
    }

    #[test]
    fn a_load_begins_busy_as_often_as_it_is_busy() {
        let begins = |seed| turns(25, seed).next().is_some_and(|turn| turn.0);
        let busy = (0..1000).filter(|seed| begins(*seed)).count();
        assert!((200..300).contains(&busy), "{busy}");
    }

    #[test]
    fn a_child_is_told_what_its_load_is() {
        for load in [
            Load::Busy { cpu: 3, percent: 25, seed: 9 },
            Load::Copy { cpu: 2 },
            Load::Remove { group: "/a b/c".into() },
        ] {
            let read = Words::try_parse_from(load.words()).unwrap().load;
            assert_eq!(format!("{read:?}"), format!("{load:?}"));
        }
        assert!(Words::try_parse_from(["load", "busy", "0", "0", "1"]).is_err());
    }

    #[test]
    fn a_group_that_is_gone_is_removed() {
        assert!(remove_group(Path::new("/nowhere/at/all")).is_ok());
    }
}
