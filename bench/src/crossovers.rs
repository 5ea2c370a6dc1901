//! From which size on sends without a copy pay: three runs of the same, into a sink over
//! TCP, for messages that are in the caches or not and lie on small pages or large ones.
//!
//! Where to look is found beforehand, by few sizes far apart and then by some around what those
//! say; each run measures such, and says where the next one is to look. costof's own findings say from
//! which size on, and how surely.

use crate::bench::Bench;
use crate::costof::failures;
use crate::error::Result;
use crate::machine::{self, Watch};
use crate::rounds;
use crate::verdict::Verdict;
use costof_findings::crossover::Crossover;
use costof_findings::send_crossover::send_crossovers;
use costof_model::run_file::Run;
use std::fmt;
use std::time::Duration;

/// The end of an interval over its beginning, and the largest crossover of all runs over
/// the smallest, at most.
const FACTOR: f64 = 1.5;
const RUNS: usize = 3;
/// The sizes by which it is found where to look, in KiB.
const FAR_APART_KIB: [u64; 6] = [4, 16, 32, 64, 256, 1024];
/// The sizes of a nearer look, in those of the crossover that the first look saw. That sees it too
/// high: from some 40 KiB on a message is two packets, where the curve bends (docs/copies.md).
const NEARER: [f64; 7] = [0.5, 0.6, 0.71, 0.84, 1.0, 1.17, 1.38];
/// The sizes that are then measured.
const AROUND: [f64; 7] = [0.5, 0.61, 0.74, 0.9, 1.1, 1.33, 1.6];
/// First looks are by a quick run's six launches, of which the interval leaves out none.
const FIRST: &str = "--quick";
/// Then by as long ones as a full run's. Where messages lie in memory differs from launch to launch, and
/// with it what they cost: by fifteen launches one of twelve intervals was too wide or had no end.
const THEN: &str = "--full --launches 40";
/// How long a run may take: 40 launches of 14 points, each some 100 ms and the pages of its messages.
const LIMIT: Duration = Duration::from_secs(900);
/// Sizes are multiples of this, so that fields begin as they do at other sizes.
const STEP_BYTES: f64 = 512.0;

/// Where the messages are before.
#[derive(Clone, Copy, Debug)]
struct Messages {
    source: &'static str,
    pages: &'static str,
}

const MESSAGES: [Messages; 4] = [
    Messages::new("hot", "4KiB"),
    Messages::new("hot", "2MiB"),
    Messages::new("cold", "4KiB"),
    Messages::new("cold", "2MiB"),
];

/// A crossover, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    low: f64,
    about: f64,
    high: f64,
}

/// What a run found, or why it has found none.
type Outcome = std::result::Result<Found, String>;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(&format!(
        "from which size on msg_zerocopy takes the sender less CPU time than copy_and_send, by TCP \
         into a sink, on processor {}",
        bench.cpu
    ));
    let watch = Watch::start();
    let mut all: Vec<Vec<Outcome>> = vec![Vec::new(); MESSAGES.len()];
    let mut begun = Vec::new();
    for messages in MESSAGES {
        let far_apart = FAR_APART_KIB.map(|kib| kib << 10);
        let first = messages.measure(bench, "first", FIRST, &far_apart)?;
        println!("{messages}: first sizes: {}", Shown(&outcome(&first)));
        let Some(about) = next(&first) else {
            begun.push(None);
            continue;
        };
        let nearer = messages.measure(bench, "second", FIRST, &around(about, &NEARER))?;
        println!("{messages}: nearer sizes: {}", Shown(&outcome(&nearer)));
        begun.push(next(&nearer).or(Some(about)));
    }
    println!();
    rounds::shuffled(bench.rounds(RUNS), MESSAGES.len(), |round, place| {
        let Some(about) = begun[place] else {
            return Ok(());
        };
        let (messages, name) = (MESSAGES[place], (round + 1).to_string());
        let run = messages.measure(bench, &name, THEN, &around(about, &AROUND))?;
        let found = outcome(&run);
        println!("{messages}, run {name}: {}", Shown(&found));
        // Nearer than the first sizes have come.
        begun[place] = next(&run).or(Some(about));
        all[place].push(found);
        Ok(())
    })?;
    println!();
    let quiet = machine::was_quiet(&watch);
    let verdicts = MESSAGES.iter().zip(&all).map(|(messages, runs)| {
        judge(runs).refuted_only_if_quiet(quiet).report(&messages.to_string())
    });
    Ok(verdicts.collect())
}

impl Messages {
    const fn new(source: &'static str, pages: &'static str) -> Messages {
        Messages { source, pages }
    }

    /// A run of these sizes.
    fn measure(self, bench: &Bench, name: &str, precision: &str, sizes: &[u64]) -> Result<Run> {
        let Messages { source, pages } = self;
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        // The kernel's own congestion control may pace, which would be most of what sending takes.
        let arguments = format!(
            "copy.send --link sink --cpu {} {precision} --set primitive=copy_and_send,msg_zerocopy \
             --set size={} --set source={source} --set pages={pages} \
             --set congestion_control=reno",
            bench.cpu_list(),
            sizes.join(",")
        );
        let name = format!("{source}-{pages}-{name}.jsonl");
        bench.run_within(&name, &arguments, LIMIT)
    }
}

/// The crossover of a run of one kind of messages.
fn crossed(run: &Run) -> Option<Crossover> {
    let found = send_crossovers(run).into_iter().find(|found| {
        (found.better, found.other, found.metric) == ("msg_zerocopy", "copy_and_send", "cpu_sender")
    });
    found.map(|found| found.crossover)
}

/// Where it is to be looked for after a run, however sure that run is: where it seems to lie, else at
/// the end of what was measured that is nearest to it.
fn next(run: &Run) -> Option<f64> {
    Some(match crossed(run)? {
        Crossover::From { about, high, .. } => about.unwrap_or(high),
        Crossover::Unknown { low, high } => (low * high).sqrt(),
        Crossover::Everywhere { from } => from,
        Crossover::Nowhere { up_to } => up_to,
        Crossover::Only { from, .. } => from,
    })
}

/// What a run of one kind of messages found.
fn outcome(run: &Run) -> Outcome {
    match crossed(run) {
        Some(Crossover::From { low: Some(low), about: Some(about), high }) => {
            Ok(Found { low, about, high })
        }
        Some(other) => Err(format!("no interval with two ends: {other:?}")),
        None => Err(format!("too few sizes for which the CPUs were free{}", failures(run))),
    }
}

/// The sizes around a crossover.
fn around(about: f64, times: &[f64; 7]) -> [u64; 7] {
    times.map(|times| ((about * times / STEP_BYTES).round().max(1.0) * STEP_BYTES) as u64)
}

/// Whether each interval is narrow enough, and all runs say the same.
fn judge(runs: &[Outcome]) -> Verdict {
    let found: Vec<Found> = runs.iter().filter_map(|run| run.clone().ok()).collect();
    if runs.len() < 2 || found.len() < runs.len() {
        return Verdict::Undecided(format!(
            "{} of {} runs have found one",
            found.len(),
            runs.len()
        ));
    }
    let abouts = || found.iter().map(|found| found.about);
    let apart = abouts().fold(0.0, f64::max) / abouts().fold(f64::INFINITY, f64::min);
    let are_narrow = found.iter().all(|found| found.high / found.low <= FACTOR);
    Verdict::from(are_narrow && apart <= FACTOR)
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source={} pages={}", self.source, self.pages)
    }
}

/// In words.
struct Shown<'a>(&'a Outcome);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(Found { low, about, high }) => write!(
                f,
                "from about {} on ({} to {}, a factor {:.2})",
                kib(*about),
                kib(*low),
                kib(*high),
                high / low
            ),
            Err(why) => f.write_str(why),
        }
    }
}

fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(low: f64, about: f64, high: f64) -> Outcome {
        Ok(Found { low, about, high })
    }

    #[test]
    fn narrow_intervals_that_agree_hold() {
        let runs =
            [found(90.0, 100.0, 120.0), found(100.0, 120.0, 140.0), found(110.0, 140.0, 160.0)];
        assert_eq!(judge(&runs), Verdict::Holds);
    }

    #[test]
    fn a_wide_interval_and_runs_that_differ_do_not() {
        let narrow = found(90.0, 100.0, 120.0);
        let wide = found(80.0, 100.0, 130.0);
        let other = found(150.0, 160.0, 170.0);
        assert_eq!(judge(&[narrow.clone(), wide]), Verdict::DoesNotHold);
        assert_eq!(judge(&[narrow, other]), Verdict::DoesNotHold);
    }

    #[test]
    fn a_run_without_a_crossover_tells_nothing() {
        let narrow = found(90.0, 100.0, 120.0);
        let none: Outcome = Err("none".to_owned());
        for runs in [vec![], vec![narrow.clone()], vec![narrow, none]] {
            assert!(matches!(judge(&runs), Verdict::Undecided(_)), "{runs:?}");
        }
    }

    #[test]
    fn sizes_lie_on_both_sides() {
        let sizes = around(65_536.0, &AROUND);
        assert!(sizes[3] < 65_536 && sizes[4] > 65_536);
        assert!(sizes.iter().all(|size| size % 512 == 0));
        assert_eq!(around(100.0, &NEARER)[0], 512);
        assert!(sizes.is_sorted());
    }
}
