//! `cpu.hiccup`: interruptions of a thread that has the CPU to itself.

use crate::prelude::*;
use costof_measure::gaps::{GAP_NS, READINGS_PER_GAP, Watch};
use costof_measure::schedule::MIN_LAUNCHES;

/// How long a launch watches the clock, whatever the point's time. Interrupts come some hundred
/// times a second, rarer events once; even the fewest launches watch for a second together.
const WATCH_NS: f64 = 1e9 / MIN_LAUNCHES as f64;

pub(crate) static PROBE: Probe = Probe::new::<Hiccup>();

point! {
    /// How much of each second does a thread lose that has the CPU to itself?
    ///
    /// A thread only reads the clock for a third of a second in each launch, a second or more in
    /// all, and looks for gaps of more than a microsecond between two readings. In a gap the thread
    /// did not run, because of interrupts (mostly the timer's), the hypervisor, or the firmware. A
    /// reading takes some 20 ns, and the shortest interrupt about a microsecond. Gaps in which the
    /// kernel counts a switch to another thread are reported separately. The loss is a time and not
    /// a share, because the share is below a thousandth on most machines; the longest gap is what
    /// matters for a deadline.
    ///
    /// # Predicted from
    /// the kernel's timer interrupts per second (CONFIG_HZ), each a few microseconds; not in a
    /// virtual machine, where it depends on what else the hypervisor runs
    ///
    /// # Sources
    /// - Linux Documentation/trace/osnoise-tracer.rst, whose threshold for a gap is 1 µs since
    ///   Linux 6.11
    /// - D. Riddoch, sysjitter; G. Tene, jHiccup
    ///
    /// # Needs
    /// - a clock that is read in less than 200 ns
    pub(crate) struct Hiccup of "cpu.hiccup" {}
}

impl Measure for Hiccup {
    const METRICS: &'static [Metric] = metrics! {
        /// the sum of all gaps, per second in which no other thread ran
        lost: Nanoseconds Lower,
        /// gaps per second in which no other thread ran
        rate: Hertz Lower,
        /// the longest gap of a launch, which lasts a third of a second
        longest: Nanoseconds Lower,
        /// the duration of a gap
        gap: Nanoseconds Lower,
        /// the sum of the gaps in which another thread ran, per second watched; the other metrics
        /// exclude them
        lost_to_threads: Nanoseconds Neither,
    };
    const ROLES: &'static [StartRole] = &[|_| role::<Hiccup>(run)];

    fn least_ns(_: &At<Self>) -> f64 {
        WATCH_NS
    }

    headlines! {
        "OS noise: time lost per second": {},
    }

    fn predict(_: &At<Self>, facts: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        let hz = facts.kernel.ticks_per_second();
        let hz = hz.map_or(Range(100.0, 1000.0), |hz| hz.into());
        // A hypervisor takes more than its part of the timer's interrupts, and how much more depends on
        // what else it runs.
        if facts.virtualization.virtual_machine == Some(true) {
            return None;
        }
        let interrupt = Cost::new((1_500.0, 5_000.0), "in the kernel");
        (interrupt.named("timer interrupts a second") * hz).predict("lost")
    }
}

/// What was observed; times are in nanoseconds.
#[derive(Default)]
struct Seen {
    gaps: u64,
    lost: f64,
    longest: f64,
    preempted: f64,
}

fn run(_: &At<Hiccup>, meter: &mut Meter<'_>) -> Result {
    let clock = meter.clock();
    if clock.read_ns() > GAP_NS / READINGS_PER_GAP {
        unsupported!(
            "reading the clock takes {:.0} ns here, too long to see gaps of {GAP_NS:.0} ns (costof doctor says why it is not the TSC)",
            clock.read_ns()
        );
    }
    let mut seen = Seen::default();
    let mut watch = Watch::begin(clock, WATCH_NS);
    let mut switches = usage::thread().involuntary_switches;
    meter.open_loop("gap", |_| {
        loop {
            let gap_ns = watch.next()?;
            let now = usage::thread().involuntary_switches;
            if now == switches {
                seen.gaps += 1;
                seen.lost += gap_ns;
                seen.longest = seen.longest.max(gap_ns);
                return Some(gap_ns);
            }
            switches = now;
            seen.preempted += gap_ns;
        }
    });
    let watched_ns = watch.watched_ns();
    let own_seconds = (watched_ns - seen.preempted) / 1e9;
    meter.value("lost", seen.lost / own_seconds);
    meter.value("rate", seen.gaps as f64 / own_seconds);
    meter.value("longest", seen.longest);
    meter.value("lost_to_threads", seen.preempted / watched_ns * 1e9);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prediction_is_ticks_times_what_one_takes() {
        let mut facts = Facts::default();
        facts.kernel.config.insert("HZ".to_owned(), "250".to_owned());
        let prediction =
            Hiccup::predict(&Hiccup {}.into(), &facts, &MeasuredRows::new(&[])).unwrap();
        assert_eq!((prediction.low, prediction.high), (375e3, 1250e3));
        assert!(prediction.because.contains("250 × timer interrupts"));
    }
}
