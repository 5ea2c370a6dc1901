//! `copy.parts`: the pieces of a send with one copy or none.

mod sending;

use crate::prelude::*;
use sending::Sending;

const FIELDS: usize = 8;
/// The first is the default.
const SIZES: &[usize] = &[4 << 10, 64, 1 << 10, 16 << 10, 64_000];
/// Sends between two reapings of completions. The first is the default.
const BATCHES: &[u64] = &[16, 1, 4, 64];

words! {
    pub(crate) enum Part {
        /// an I/O vector of eight entries instead of one buffer: sendmsg less send
        Iovec = "iovec",
        /// reading the completions of zero-copy sends from the error queue
        Reap = "reap",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Parts>();

point! {
    /// What does each piece of a send with fewer copies cost?
    ///
    /// iovec: a message of 8 fields is sent by sendmsg, and one of as many bytes in one field by
    /// send, into a Unix datagram socket. A receive of one byte takes each out. The difference of
    /// the two medians of a launch is the message header, its 8 entries, which the kernel reads and
    /// checks, and 8 copies instead of one. The socket and the copied bytes are in both, and
    /// cancel.
    /// reap: 256 UDP sockets have each sent a number of datagrams with MSG_ZEROCOPY. The timed part
    /// reads their error queues by recvmsg until they are empty. The kernel merges neighbouring
    /// completions, so a batch takes two calls. The cost is a batch's time divided by its sends.
    /// The copies of the fields into one buffer are cpu.memcpy's (shape=message), and what a registered buffer saves shows
    /// copy.send (buffers=registered).
    ///
    /// # Predicted from
    /// reap: system calls (os.syscall); iovec: a header in system calls, and cycles per entry
    /// (cpu.frequency)
    ///
    /// # Sources
    /// - sendmsg(2), unix(7)
    /// - Documentation/networking/msg_zerocopy.rst of the kernel, on merged completions
    /// - Network I/O primitives, a course report, 2026, which states without a measurement: 50 to
    ///   100 ns for eight entries, 1 to 2 µs for a batch of the error queue
    ///
    /// # Needs
    /// - part=reap: zero-copy sends over UDP (Linux 5.0), and 300 file descriptors (ulimit -n)
    pub(crate) struct Parts of "copy.parts" {
        /// the piece
        part: Part = words(),
        /// bytes of a message
        size: usize = bytes(64..=64_000, &[4 << 10]),
        /// for reap: sends between two reapings
        batch: u64 = count(1..=128, &[16]),
    }
}

impl Measure for Parts {
    const METRICS: &'static [Metric] = metrics! {
        /// what the piece adds to one message
        cost: Nanoseconds Lower,
        /// for iovec: a message with the piece; the cost is a difference
        with_part: Nanoseconds Lower,
        /// for iovec: a message without the piece
        without_part: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency", "os.syscall"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<Parts, Sending>];

    headlines! {
        "8 iovec entries instead of one buffer, 4 KiB": {},
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        Planned::all(more_points())
    }

    fn check_axes(point: &At<Self>) -> Result {
        point.check()
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        4 * point.size as u64 + (8 << 20)
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let read = || syscall::measured_cost(measured, syscall::Call::Read);
        let cost = match point.part {
            // A batch takes two calls. One of them copies a control message to user space.
            Part::Reap => read()? * (2.0, 10.0) * (1.0 / point.batch() as f64),
            Part::Iovec => {
                let entries = FIELDS as f64;
                let cycles = (30.0 * entries, 90.0 * entries);
                expect::cycles(measured, cycles, "entries to read, check and start a copy for")?
                    + (read()? * (0.3, 1.0)).named("the message's header")
            }
        };
        cost.predict("cost")
    }

    /// The difference, or a batch's cost per send.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        derived::divide_cost(&mut report, point.batch());
        if let Some(ns) = derived::difference_ns(&report, "with_part", "without_part") {
            derived::add(&mut report, "cost", ns);
        }
        report
    }
}

fn more_points() -> impl Iterator<Item = Parts> {
    let sized = SIZES.iter().map(|&size| Parts { size, ..Parts::default() });
    let reaped = BATCHES.iter().map(|&batch| Parts { part: Part::Reap, batch, ..Parts::default() });
    sized.chain(reaped)
}

impl Parts {
    /// Sends per timed operation.
    fn batch(&self) -> u64 {
        match self.part {
            Part::Reap => self.batch,
            Part::Iovec => 1,
        }
    }

    fn check(&self) -> Result {
        if self.part != Part::Reap && self.batch != Parts::default().batch {
            unsupported!("only part=reap has batches (--set part=reap, or leave batch out)");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::{self, data, measured, measured_call, report, samples};
    use costof_model::metric::Data;

    fn at(part: Part) -> At<Parts> {
        At::from(Parts { part, ..Parts::default() })
    }

    fn derived_cost(point: &At<Parts>, metrics: &[(&'static str, f64)]) -> Vec<f64> {
        let metrics = metrics.iter().map(|(name, ns)| samples(name, &[(1, *ns), (2, 2.0 * ns)]));
        let report = Parts::derive(point, vec![report(metrics.collect())]);
        data(&report, "cost").map_or(Vec::new(), Data::costs)
    }

    #[test]
    fn a_part_is_a_difference_or_a_share_of_a_batch() {
        let both = [("with_part", 900.0), ("without_part", 700.0)];
        assert_eq!(derived_cost(&at(Part::Iovec), &both), [200.0]);
        assert!(derived_cost(&at(Part::Iovec), &both[..1]).is_empty());
        assert_eq!(derived_cost(&at(Part::Reap), &[("cost", 1600.0)]), [100.0; 2]);
    }

    #[test]
    fn the_plan_has_no_point_that_cannot_be() {
        assert_eq!(more_points().count(), SIZES.len() + BATCHES.len());
        for point in more_points() {
            assert_eq!(point.check(), Ok(()));
        }
        let batched: Parts = testing::at("batch=1");
        let refused = batched.check().unwrap_err();
        assert!(refused.reason.contains("part=reap"), "{refused}");
    }

    #[test]
    fn a_part_is_expected_from_simpler_costs() {
        let rows = [measured_call(syscall::Call::Read, 100.0), measured(Frequency {}, 4e9)];
        let range = |point: At<Parts>| {
            let expected =
                Parts::predict(&point, &Facts::default(), &MeasuredRows::new(&rows)).unwrap();
            (expected.low.round(), expected.high.round())
        };
        // 240 to 720 cycles and a header; two calls for 16 sends.
        assert_eq!(range(at(Part::Iovec)), (90.0, 280.0));
        assert_eq!(range(at(Part::Reap)), (13.0, 63.0));
        for &part in Part::ALL {
            let nothing = Parts::predict(&at(part), &Facts::default(), &MeasuredRows::new(&[]));
            assert_eq!(nothing, None);
        }
    }
}
