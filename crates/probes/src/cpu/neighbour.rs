//! `cpu.neighbour`: other use of the core.

use crate::prelude::*;
use costof_measure::visits;
use costof_model::metric::CoreShare;

/// How long a launch reads the gauge, whatever the point's time. Visits last from tens of
/// microseconds to seconds, and even the fewest launches watch for three quarters of a second
/// together.
const WATCH_NS: f64 = 250e6;
/// By how much the neighbour may have changed since an earlier row: it comes and goes within
/// seconds.
const TIMES: f64 = 2.0;

pub(crate) static PROBE: Probe = Probe::new::<Neighbour>();

point! {
    /// How much of the time does something else use this core?
    ///
    /// Each launch reads the gauge of the core continuously for a quarter of a second. A reading
    /// takes two to three microseconds: it is the number of core cycles per independent addition,
    /// with the core clock from a chain of dependent multiplications. While the core is alone,
    /// readings stay at a floor. Another hardware thread takes execution slots from the additions
    /// and does not slow the chain. A visit begins with the first of two readings in a row that are
    /// at least 1.15 times the floor, and ends before the first of two in a row that are not.
    /// Interrupted readings (2.5 times as long as the shortest, or below the floor) do not count:
    /// time that the kernel, the hypervisor or a preemption took is neither watched time nor part
    /// of a visit. The metric taken is 1 minus the floor over the median reading of visits. A
    /// neighbour that waits for memory takes few slots, and is not detected.
    ///
    /// # Predicted from
    /// the share of the run's earlier batches during which the core was shared; 0 on a bare machine
    /// whose cores run one thread
    ///
    /// # Sources
    /// - Intel 64 and IA-32 Architectures Optimization Reference Manual, Hyper-Threading
    ///   Technology: shared execution resources
    /// - AMD Software Optimization Guide for the Zen 4 Microarchitecture, publication 57647:
    ///   Simultaneous Multi-Threading
    /// - D. Tullsen, S. Eggers, H. Levy, Simultaneous Multithreading: Maximizing On-Chip
    ///   Parallelism, ISCA 1995
    /// - docs/decisions/2026-11-23-core-gauge.md
    ///
    /// # Needs
    /// - a gauge with a known floor: a core design that costof knows, or a core that was alone at
    ///   times
    pub(crate) struct Neighbour of "cpu.neighbour" {}
}

impl Measure for Neighbour {
    const METRICS: &'static [Metric] = metrics! {
        /// the share of the time in which something else used the core, from 0 to 1
        shared: One Lower,
        /// the duration of a visit; at most a launch's quarter of a second of it is observed
        visit: Nanoseconds Lower,
        /// the longest visit of a launch, as far as it was observed
        longest: Nanoseconds Lower,
        /// the share of the core's execution slots that a visit takes, from 0 to 1
        taken: One Lower,
        /// visits that begin per second
        rate: Hertz Lower,
    };
    const IS_OF_ONE_CPU: bool = true;
    const AFTER: NameList = &["cpu.loop", "cpu.call"];
    const ROLES: &'static [StartRole] = &[|_| role::<Neighbour>(run)];

    fn least_ns(_: &At<Self>) -> f64 {
        WATCH_NS
    }

    headlines! {
        "core shared with another thread": {},
    }

    fn predict(_: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let is_bare = facts.virtualization.virtual_machine == Some(false);
        if is_bare && facts.cpu.smt_active == Some(false) {
            let because =
                "each core of this machine runs one thread, and no other virtual machine shares it";
            return expect::between("shared", (0.0, 0.01), because);
        }
        let before: Vec<CoreShare> =
            measured.rows(|_| true).filter_map(|row| row.primary()?.core).collect();
        let mean =
            |of: fn(&CoreShare) -> f64| before.iter().map(of).sum::<f64>() / before.len() as f64;
        if before.is_empty() {
            return None;
        }
        // Mixed batches had a neighbour for part of their time.
        let (least, most) = (mean(|core| core.shared), mean(|core| 1.0 - core.alone));
        let low = (least / TIMES).max(0.001);
        let high = (most * TIMES).clamp(2.0 * low, 1.0);
        // Between never and always, nothing is predicted.
        if high - low > 0.8 {
            return None;
        }
        expect::between(
            "shared",
            (low, high),
            format!(
                "of the batches of {} earlier points, {:.1} % were shared and {:.1} % not alone; \
                 half to twice that, since a neighbour comes and goes",
                before.len(),
                100.0 * least,
                100.0 * most,
            ),
        )
    }
}

fn run(_: &At<Neighbour>, meter: &mut Meter<'_>) -> Result {
    let Some(gauge) = meter.gauge() else {
        unsupported!(
            "the floor of the core's gauge is not known: its readings varied too much when the \
             run began, and costof does not know this core design"
        );
    };
    let mut longest_ns: f64 = 0.0;
    let visits = visits::watch(gauge, meter.clock(), WATCH_NS, |ns| {
        longest_ns = longest_ns.max(ns);
        meter.latency("visit", ns);
    });
    let Some(shared) = visits.shared() else {
        fail!("every reading of the gauge was interrupted: no reading of the core is left");
    };
    meter.value("shared", shared);
    meter.value("longest", longest_ns);
    meter.value("rate", visits.begun as f64 / visits.watched_ns * 1e9);
    if let Some(taken) = visits.taken() {
        meter.value("taken", taken);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::loops::Loop;
    use crate::testing::measured;
    use costof_model::metric::Selection;

    #[test]
    fn the_prediction_is_what_earlier_batches_met() {
        let point = Neighbour {}.into();
        let row = |alone, shared| {
            let mut row = measured(Loop::default(), 1.0);
            row.metrics[0].core = Some(CoreShare {
                selection: Selection::Alone,
                alone,
                shared,
                shared_median: None,
                alone_by_ratio: None,
            });
            row
        };
        let facts = Facts::default();
        let rows = [row(0.8, 0.1), row(0.6, 0.3)];
        let prediction = Neighbour::predict(&point, &facts, &MeasuredRows::new(&rows)).unwrap();
        assert!((prediction.low - 0.1).abs() < 1e-9, "{prediction:?}");
        assert!((prediction.high - 0.6).abs() < 1e-9, "{prediction:?}");
        assert!(prediction.because.contains("20.0 % were shared"));
        let busy =
            Neighbour::predict(&point, &facts, &MeasuredRows::new(&[row(0.0, 0.9)])).unwrap();
        assert_eq!(busy.high, 1.0);
        let quiet =
            Neighbour::predict(&point, &facts, &MeasuredRows::new(&[row(1.0, 0.0)])).unwrap();
        assert!(quiet.low > 0.0 && quiet.low < quiet.high, "{quiet:?}");
        assert_eq!(Neighbour::predict(&point, &facts, &MeasuredRows::new(&[])), None);
    }

    #[test]
    fn a_core_of_one_thread_is_not_shared() {
        let point = Neighbour {}.into();
        let mut facts = Facts::default();
        facts.virtualization.virtual_machine = Some(false);
        facts.cpu.smt_active = Some(false);
        let prediction = Neighbour::predict(&point, &facts, &MeasuredRows::new(&[])).unwrap();
        assert_eq!((prediction.low, prediction.high), (0.0, 0.01));
    }
}
