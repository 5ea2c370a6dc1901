//! Numbers that everybody knows, to hold a machine's own beside.
//!
//! Sources: J. Dean, "Designs, Lessons and Advice from Building Large Distributed Systems" (keynote,
//! LADIS 2009), "Numbers Everyone Should Know"; a course's report that measured the same list (CS 739,
//! mini-project 1).

use costof_model::rows::PointRow;
use costof_model::unit::Unit;

/// Jeff Dean's list.
pub(crate) const DEAN: &str = "Dean 2009";
/// A course that measured it.
pub(crate) const COURSE: &str = "a course's report";

/// What somebody published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Published {
    /// Who.
    pub(crate) by: &'static str,
    /// What, as they call it.
    pub(crate) what: &'static str,
    /// From here, in nanoseconds.
    pub(crate) low_ns: f64,
    /// To there; the same where it is one number.
    pub(crate) high_ns: f64,
    /// The probe that asks the same, and words of its label.
    probe: &'static str,
    label: &'static str,
    /// How many bytes it is about, where costof gives a rate.
    bytes: f64,
}

const fn of(
    by: &'static str,
    what: &'static str,
    (low_ns, high_ns): (f64, f64),
    (probe, label): (&'static str, &'static str),
) -> Published {
    Published {
        by,
        what,
        low_ns,
        high_ns,
        probe,
        label,
        bytes: 0.0,
    }
}

const fn transfer(published: Published, bytes: f64) -> Published {
    Published { bytes, ..published }
}

const L1: (&str, &str) = ("memory.latency", "L1 cache");
const L2: (&str, &str) = ("memory.latency", "L2 cache");
const MAIN: (&str, &str) = ("memory.latency", "main memory");
const BRANCH: (&str, &str) = ("cpu.branch_miss", "branch");
const MUTEX: (&str, &str) = ("sync.mutex", "lock and unlock");
const SNAPPY: (&str, &str) = ("cpu.snappy", "text");
const RANDOM_SNAPPY: (&str, &str) = ("cpu.snappy", "random");
const READ: (&str, &str) = ("memory.bandwidth", "bandwidth: read");
const LAN: (&str, &str) = ("net.rtt", "round trip: TCP over lan");
const SEND: (&str, &str) = ("net.rtt", "send 1 KiB over 1 Gb/s");
const WAN: (&str, &str) = ("net.ping", "wan");
/// Files and disks, whose probes have these labels where they are measured.
const SSD_RANDOM: (&str, &str) = ("file", "4 KiB randomly");
const SSD_READ: (&str, &str) = ("file", "1 MiB sequentially");
const DISK: (&str, &str) = ("disk", "");

/// All of it.
const PUBLISHED: &[Published] = &[
    of(DEAN, "L1 cache reference", (0.5, 0.5), L1),
    of(DEAN, "branch mispredict", (5.0, 5.0), BRANCH),
    of(DEAN, "L2 cache reference", (7.0, 7.0), L2),
    of(DEAN, "mutex lock or unlock", (25.0, 25.0), MUTEX),
    of(DEAN, "main memory reference", (100.0, 100.0), MAIN),
    of(
        DEAN,
        "compress 1 KB with a cheap algorithm",
        (3e3, 3e3),
        SNAPPY,
    ),
    of(DEAN, "send 1 KB over a 1 Gb/s network", (10e3, 10e3), SEND),
    of(
        DEAN,
        "read 4 KB randomly from SSD",
        (150e3, 150e3),
        SSD_RANDOM,
    ),
    transfer(
        of(
            DEAN,
            "read 1 MB sequentially from memory",
            (250e3, 250e3),
            READ,
        ),
        1e6,
    ),
    of(DEAN, "round trip within a data centre", (500e3, 500e3), LAN),
    of(
        DEAN,
        "read 1 MB sequentially from SSD",
        (1e6, 1e6),
        SSD_READ,
    ),
    of(DEAN, "disk seek", (10e6, 10e6), DISK),
    of(DEAN, "read 1 MB sequentially from disk", (20e6, 20e6), DISK),
    of(
        DEAN,
        "packet California-Netherlands-California",
        (150e6, 150e6),
        WAN,
    ),
    of(COURSE, "L1 cache reference", (1.0, 5.0), L1),
    of(
        COURSE,
        "branch misprediction (looked up)",
        (4.0, 6.0),
        BRANCH,
    ),
    of(COURSE, "L2 cache reference", (2.0, 10.0), L2),
    of(COURSE, "mutex lock and unlock", (10.0, 20.0), MUTEX),
    of(COURSE, "main memory reference", (100.0, 120.0), MAIN),
    of(
        COURSE,
        "compress 1 KB of random bytes with Snappy",
        (3e3, 3e3),
        RANDOM_SNAPPY,
    ),
    transfer(
        of(
            COURSE,
            "read 1 MB sequentially from memory",
            (97e3, 97e3),
            READ,
        ),
        1e6,
    ),
    of(
        COURSE,
        "round trip in a data centre (ping)",
        (240e3, 240e3),
        LAN,
    ),
    of(
        COURSE,
        "packet Madison-Netherlands-Madison",
        (95e6, 95e6),
        WAN,
    ),
];

impl Published {
    /// From where to where, in the unit of what costof measured of it.
    pub(crate) fn range(&self, unit: Unit) -> Option<(f64, f64)> {
        match unit {
            Unit::Nanoseconds => Some((self.low_ns, self.high_ns)),
            Unit::BytesPerSecond if self.bytes > 0.0 => {
                let rate = |ns: f64| self.bytes / ns * 1e9;
                Some((rate(self.high_ns), rate(self.low_ns)))
            }
            _ => None,
        }
    }

    fn is_of(&self, row: &PointRow) -> bool {
        let label = row.label.as_deref().unwrap_or_default();
        // Two threads that contend, and what is cached, are other questions.
        let other = ["contend", "cached"]
            .iter()
            .any(|word| label.contains(word));
        let layer = row.point.probe.split('.').next();
        (row.point.probe == self.probe || layer == Some(self.probe))
            && !label.is_empty()
            && label.contains(self.label)
            && !other
    }
}

/// What was published of what a row of the latency table asks.
pub(crate) fn published(row: &PointRow) -> impl Iterator<Item = &'static Published> {
    PUBLISHED.iter().filter(|published| published.is_of(row))
}

/// What Dean published that none of these rows asks.
pub(crate) fn not_asked(rows: &[&PointRow]) -> Vec<&'static Published> {
    let of_dean = PUBLISHED.iter().filter(|published| published.by == DEAN);
    of_dean
        .filter(|published| !rows.iter().any(|row| published.is_of(row)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::row;

    #[test]
    fn a_number_stands_beside_what_asks_the_same() {
        let labelled = |probe: &'static str, label: &str| {
            let mut row = row(probe, 1, 5.0);
            row.label = Some(label.to_owned());
            row
        };
        let whats = |row: &PointRow| published(row).map(|known| known.what).collect::<Vec<_>>();
        let main = labelled("memory.latency", "main memory reference");
        assert_eq!(whats(&main), ["main memory reference"; 2]);
        let contended = labelled("sync.mutex", "mutex: lock and unlock, two threads contend");
        assert_eq!(whats(&contended), [""; 0]);
        let read = labelled("memory.bandwidth", "memory bandwidth: read");
        let rate = published(&read).next().unwrap().range(Unit::BytesPerSecond);
        assert_eq!(rate, Some((4e9, 4e9)));
        assert_eq!(not_asked(&[&main]).len(), 13);
    }
}
