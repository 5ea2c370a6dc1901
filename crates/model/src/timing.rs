//! What `costof time` found: each run of each command, and what follows from them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An estimate with its 95 % interval, in the unit that its field says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// A number that is known exactly.
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// So many times as much; `factor` is not negative.
    pub fn times(self, factor: f64) -> Estimate {
        let Estimate { value, low, high } = self;
        Estimate { value: value * factor, low: low * factor, high: high * factor }
    }
}

/// In which state a command's core was, by readings of its gauge while the command ran: shares, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreShares {
    /// Nothing else used the core.
    pub alone: f64,
    /// Another hardware thread used the core.
    pub shared: f64,
    /// How many readings.
    pub readings: u32,
    /// Its clock meanwhile; absent with fewer than two readings of one core.
    pub clock: Option<CoreClock>,
}

/// A core's clock by readings of its gauge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoreClock {
    /// Core cycles per tick of the machine's counter: the mean of the readings.
    pub cycles_per_tick: f64,
    /// The standard error of that.
    pub error: f64,
}

impl CoreShares {
    /// The share of the time in which the core was shared. Half of what is neither counts: the state changed meanwhile.
    pub fn shared_time(&self) -> f64 {
        (self.shared + (1.0 - self.alone - self.shared) / 2.0).clamp(0.0, 1.0)
    }
}

/// A number that a command prints itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnValue {
    /// The number.
    pub value: f64,
    /// Its unit as the command writes it; empty if it writes none.
    pub unit: String,
}

/// One run of a command. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimedRun {
    /// From start to end, without what reading the gauge took.
    pub wall_ns: u64,
    /// User and system CPU time of the command and of the children that it waited for.
    pub user_ns: u64,
    /// See `user_ns`.
    pub system_ns: u64,
    /// The largest resident set of one of its processes, bytes.
    pub max_rss_bytes: u64,
    /// Whether that is the command's own: otherwise it may be costof's, which the kernel counts to what costof starts.
    pub is_own_peak: bool,
    /// Page faults without and with input or output.
    pub minor_faults: u64,
    /// See `minor_faults`.
    pub major_faults: u64,
    /// Context switches because it waited, and because something else got the CPU.
    pub voluntary_switches: u64,
    /// See `voluntary_switches`.
    pub involuntary_switches: u64,
    /// How long it was ready and waited for a CPU; only known of a command with one thread.
    pub run_queue_ns: Option<u64>,
    /// Core cycles and instructions, where the machine counts them.
    pub cycles: Option<u64>,
    /// See `cycles`.
    pub instructions: Option<u64>,
    /// The CPUs that it could use.
    pub cpus: Vec<usize>,
    /// The state of these CPUs' cores; absent where the gauge does not work.
    pub core: Option<CoreShares>,
    /// CPU time that reading the gauge took on these CPUs meanwhile.
    pub gauge_ns: u64,
    /// Whether its first thread used nearly all of its CPU time, if the kernel reports it.
    pub is_one_thread: Option<bool>,
    /// The exit code; absent if a signal killed it.
    pub exit_code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Processes that it left running, which were ended.
    pub left: usize,
    /// What it printed itself, by name.
    pub own: BTreeMap<String, OwnValue>,
}

impl TimedRun {
    /// User and system time.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// How many CPUs it used on average.
    pub fn parallelism(&self) -> f64 {
        self.cpu_ns() as f64 / self.wall_ns.max(1) as f64
    }

    /// The share of its time, 0 to 1, in which it neither ran nor was ready to; `None` if it is not known how long it was
    /// ready, as of several threads.
    pub fn waiting(&self) -> Option<f64> {
        let busy = self.cpu_ns() + self.run_queue_ns?;
        Some((1.0 - busy as f64 / self.wall_ns.max(1) as f64).max(0.0))
    }
}

/// One command with all its runs, in the order of the turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimedCommand {
    /// Its name, or the command itself.
    pub name: String,
    /// The command line, after parameters.
    pub command: String,
    /// The shell that ran it; absent if it was started directly.
    pub shell: Option<String>,
    /// Wall time of the shell, or of an empty process, that does nothing, in the same turns; absent where it does not count.
    pub start_ns: Option<Estimate>,
    /// Parameters with this command's values.
    pub parameters: BTreeMap<String, String>,
    /// The runs that count.
    pub runs: Vec<TimedRun>,
    /// Wall time as it ran.
    pub wall_ns: Option<Estimate>,
    /// CPU time as it ran.
    pub cpu_ns: Option<Estimate>,
    /// CPU time with the core alone.
    pub alone_ns: Option<Estimate>,
    /// Why that cannot be known.
    pub alone_unknown: Option<String>,
    /// Why it is not compared with the first command; absent if it is.
    pub not_compared: Option<String>,
    /// How many times as long it takes on a shared core, if that is known.
    pub slowdown: Option<f64>,
    /// Its own numbers.
    pub own: BTreeMap<String, Estimate>,
    /// What a reader should know of it.
    pub notes: Vec<String>,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeMetric {
    /// CPU time with the core in the same state.
    Alone,
    /// CPU time as it ran.
    Cpu,
    /// Wall time as it ran.
    Wall,
    /// A command's own number.
    Own(String),
}

/// A command compared with the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeComparison {
    /// The second command's value over the first one's.
    pub ratio: Estimate,
    /// The smallest change, as a share, that would have been found in nine of ten tries.
    pub visible: f64,
    /// Against the threshold, if there is one.
    pub judgement: Option<Judgement>,
}

/// The result of one comparison against a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// At most the threshold worse, for certain.
    Within,
    /// More than the threshold worse, for certain.
    Worse,
    /// Neither.
    #[serde(rename = "inconclusive")]
    Undecided,
}

impl TimeComparison {
    /// Compares the interval with a threshold, a share.
    pub fn judge(&mut self, threshold: f64, higher_is_better: bool) {
        let Estimate { low, high, .. } = self.ratio;
        let (low, high) = match higher_is_better {
            true => (1.0 / high, 1.0 / low),
            false => (low, high),
        };
        self.judgement = Some(if low > 1.0 + threshold {
            Judgement::Worse
        } else if high <= 1.0 + threshold {
            Judgement::Within
        } else {
            Judgement::Undecided
        });
    }
}

/// All that one `costof time` found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// The class of the machine: [`machine_class`](crate::facts::Facts::machine_class).
    pub machine: String,
    /// The seed of the order within each turn.
    pub seed: u64,
    /// The floor of the gauge, core cycles per addition; absent where the gauge does not work.
    pub gauge_floor: Option<f64>,
    /// The commands, in the order of the command line.
    pub commands: Vec<TimedCommand>,
    /// What is compared.
    pub metric: TimeMetric,
    /// By how much a command may be worse than the first, as a share.
    pub threshold: Option<f64>,
    /// Each command but the first, compared with the first; absent where its values do not allow that.
    pub comparisons: Vec<Option<TimeComparison>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_within_worse_or_undecided() {
        let judged = |low, high, higher_is_better| {
            let ratio = Estimate { value: f64::midpoint(low, high), low, high };
            let mut comparison = TimeComparison { ratio, visible: 0.0, judgement: None };
            comparison.judge(0.02, higher_is_better);
            comparison.judgement.unwrap()
        };
        assert_eq!(judged(0.9, 1.02, false), Judgement::Within);
        assert_eq!(judged(1.021, 1.1, false), Judgement::Worse);
        assert_eq!(judged(0.9, 1.021, false), Judgement::Undecided);
        // A rate that is a tenth lower.
        assert_eq!(judged(0.89, 0.91, true), Judgement::Worse);
        assert_eq!(judged(1.021, 1.1, true), Judgement::Within);
    }

    #[test]
    fn a_change_of_state_counts_half() {
        let shares =
            |alone, shared| CoreShares { alone, shared, readings: 10, clock: None }.shared_time();
        assert_eq!(shares(1.0, 0.0), 0.0);
        assert_eq!(shares(0.25, 0.25), 0.5);
        assert_eq!(shares(0.0, 1.0), 1.0);
    }
}
