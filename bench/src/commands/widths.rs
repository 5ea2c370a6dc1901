//! How wide the interval of a ratio is after a budget, with the gauge and by the same runs without it.

use super::{Commands, Kind, MILLISECONDS, Size, percent};
use crate::bench::Bench;
use crate::error::Result;
use crate::verdict::Verdict;
use costof_stats::median;

const ROUNDS: usize = 5;
/// Half of the interval, as a share of the ratio.
const HALF: f64 = 0.015;
/// How wide it may be compared with the same runs without the gauge.
const PART: f64 = 1.0 / 3.0;

pub(super) fn compare(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    let (rounds, milliseconds) = (bench.rounds(ROUNDS), size.milliseconds.unwrap_or(MILLISECONDS));
    bench.introduce(&format!(
        "two equal commands of {milliseconds} ms for {} s, {rounds} rounds of each kind",
        size.seconds
    ));
    let commands = Commands::new(bench, milliseconds)?;
    let mut halves = Kind::ALL.map(|_| [Vec::new(), Vec::new()]);
    let works = Kind::ALL.map(|kind| commands.work(kind, milliseconds));
    let works = works.into_iter().collect::<Result<Vec<_>>>()?;
    for _ in 0..rounds {
        for (work, halves) in works.iter().zip(&mut halves) {
            let same = commands.command(work.kind, work.n);
            let budget = format!("--budget {}s", size.seconds);
            let timed = commands.time(work.kind, &budget, &[same.clone(), same])?;
            let [cpu, _] = timed.without_gauge(1);
            for (halves, answer) in halves.iter_mut().zip([timed.answer(1), cpu]) {
                let interval = answer.and_then(|answer| answer.interval);
                halves.extend(interval.map(|(low, high)| (high - low) / 2.0));
            }
        }
    }
    println!(
        "| commands | half the 95 % interval | by CPU time without the gauge | the first over the second |"
    );
    println!("|---|---|---|---|");
    let verdicts = works.iter().zip(&halves).map(|(work, halves)| {
        let [with, without] = halves.each_ref().map(|halves| median(halves));
        let [Some(with), Some(without)] = [with, without] else {
            let why = format!("{}: there was no comparison", work.kind.name());
            return Verdict::Undecided(why);
        };
        println!(
            "| {} | {} | {} | {:.2} |",
            work.kind.name(),
            percent(with),
            percent(without),
            with / without
        );
        judge(with, without)
    });
    let verdicts: Vec<Verdict> = verdicts.collect();
    println!();
    let named = Kind::ALL.into_iter().zip(verdicts).map(|(kind, verdict)| {
        verdict.end_line(&format!(
            "{}: at most {} and a third of the interval without the gauge",
            kind.name(),
            percent(HALF)
        ))
    });
    Ok(named.collect())
}

/// Both bounds; where the runs hardly differ without the gauge, nothing can be made narrower.
fn judge(with: f64, without: f64) -> Verdict {
    Verdict::from(with <= HALF && (with <= PART * without || without <= HALF * PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_narrow_and_narrower() {
        assert_eq!(judge(0.0149, 0.045), Verdict::Holds);
        assert_eq!(judge(0.016, 0.1), Verdict::DoesNotHold);
        assert_eq!(judge(0.01, 0.02), Verdict::DoesNotHold);
        assert_eq!(judge(0.004, 0.0045), Verdict::Holds);
    }
}
