//! `file.contention`: what a read of a disk costs while other processes read it too.

mod role;

use super::{axes, expect};
use crate::prelude::*;
use role::Contended;

/// Reads whose latency is measured in a launch, as in the study.
const READS: u64 = 1000;

pub(crate) static PROBE: Probe = Probe::new::<Contention>();

point! {
    /// What does a 4 KiB read of a disk cost while other processes read it too?
    ///
    /// Random direct reads of a file without a name are stamped one by one, while each contender
    /// reads its own file from the beginning to the end again and again, a block at a time, by
    /// pread(2) with O_DIRECT. Contenders run on the other CPUs of the run, if there are any: on
    /// the measured one they would take its time too. Nothing is measured before each contender has
    /// read a block. They are children of the measuring process, and the kernel ends them when it
    /// ends, for whatever reason.
    ///
    /// # Predicted from
    /// the longer of one read of the same device (file.read or os.page_fault, else by its kind) and
    /// one read for each process, each as long as with 16 in flight (file.read); where that was not
    /// measured, from one read to one for each process
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 4 KB reads, 1,000 times, while 0 to 9 processes
    ///   each reread a 64 KB file of their own, cache off
    /// - open(2) on O_DIRECT; Linux Documentation/block/ioprio.rst, bfq-iosched.rst
    ///
    /// # Needs
    /// - a folder on a file system with O_DIRECT (--set dir=)
    pub(crate) struct Contention of "file.contention" {
        /// other processes that each reread a file of their own, of 64 KiB, or of one block where
        /// that is more
        contenders: u64 = count(0..=64, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        block: u64 = axes::block(&[4 << 10]),
        size: u64 = axes::size(&[64 << 20]),
        dir: Text = axes::dir(),
    }
}

impl Measure for Contention {
    const METRICS: &'static [Metric] = metrics! {
        /// a direct read, from its request until it is complete: 1,000 per launch
        latency: Nanoseconds Lower,
        /// reads per second of each contender, on average
        rate: One Higher,
        /// reads per second of all processes together, including the measured one
        rate_all: One Higher,
        /// bytes that came from the device, divided by those that the measured process read
        device_share: One Neither,
    };
    const AFTER: NameList = &["os.page_fault", "file.read"];
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["size", "dir"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(5, 15, 30));
    const ROLES: &'static [StartRole] = &[|launch| role::<Contention>(Contended::start(launch))];

    fn disk_bytes(point: &At<Self>) -> u64 {
        point.size + point.contenders * role::CONTENDER_BYTES.max(point.block)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        READS as f64 * 100e3 * (1.0 + point.contenders as f64 / 2.0)
    }

    fn processors(point: &At<Self>) -> usize {
        1 + point.contenders as usize
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let blocks = expect::Blocks { dir: &point.dir, block: point.block, jump: true };
        let all = 1.0 + point.contenders as f64;
        let requests = expect::contended_request(blocks, all, facts, measured)?;
        (requests + expect::bytes(blocks, facts)?).predict("latency")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::read::Read;
    use crate::testing::{at, measured};
    use costof_model::facts::DiskKind;
    use costof_model::testing::facts_with_disk;

    #[test]
    fn contenders_are_predicted_by_what_several_reads_in_flight_take() {
        let rows = [
            measured(at::<Read>("cache=direct"), 45e3),
            measured(at::<Read>("cache=direct engine=io_uring depth=16"), 14e3),
        ];
        let facts = facts_with_disk(DiskKind::Virtual);
        let spans = |contenders, rows| {
            let point = Contention { contenders, ..Contention::default() };
            let found = Contention::predict(&At::from(point), &facts, &MeasuredRows::new(rows));
            let Prediction { low, high, .. } = found.unwrap();
            (low, high)
        };
        assert_eq!(spans(0, &rows), (18e3, 112.5e3));
        assert_eq!(spans(9, &rows), (70e3, 280e3));
        let (low, high) = spans(9, &rows[..1]);
        assert!(high > 10.0 * low, "{low} to {high} is not scored");
    }
}
