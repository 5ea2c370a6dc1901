//! Numbers that everybody knows, to hold a machine's own beside.
//!
//! Sources: J. Dean, "Designs, Lessons and Advice from Building Large Distributed Systems" (keynote,
//! LADIS 2009), "Numbers Everyone Should Know", which sends 2 KB in 20 µs; later copies of that list
//! added the SSD; a course's report that measured it (CS 739, mini-project 1, part 0 and 1).

use costof_model::link::Link;
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
    /// The probe that asks the same, and what its label says.
    probe: &'static str,
    label: &'static [&'static str],
    /// How many bytes it is about, where costof gives a rate.
    bytes: f64,
}

/// A probe, and what the label of its row says.
type Asks = (&'static str, &'static [&'static str]);

const fn of(
    by: &'static str,
    what: &'static str,
    (low_ns, high_ns): (f64, f64),
    (probe, label): Asks,
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

const L1: Asks = ("memory.latency", &["L1 cache"]);
const L2: Asks = ("memory.latency", &["L2 cache"]);
const MAIN: Asks = ("memory.latency", &["main memory"]);
const BRANCH: Asks = ("cpu.branch_miss", &["branch"]);
const MUTEX: Asks = ("sync.mutex", &["lock and unlock"]);
const SNAPPY: Asks = ("cpu.snappy", &["text"]);
const RANDOM_SNAPPY: Asks = ("cpu.snappy", &["random"]);
const READ: Asks = ("memory.bandwidth", &["bandwidth: read"]);
const LAN: Asks = ("net.rtt", &["round trip: TCP over lan"]);
const SEND: Asks = ("net.rtt", &["send 1 KiB over 1 Gb/s"]);
const WAN: Asks = ("net.ping", &["wan"]);
/// Files, whose labels say on what they lie: what a virtual disk hides is neither.
const SSD_RANDOM: Asks = ("file.read", &["read 4 KiB randomly", "(flash)"]);
const SSD_READ: Asks = ("file.read", &["read 1 MiB sequentially", "(flash)"]);
const DISK_READ: Asks = ("file.read", &["read 1 MiB sequentially", "(rotational)"]);
/// Nothing but a rotational disk has this row.
const SEEK: Asks = ("file.read", &["disk seek"]);

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
        "read 4 KB randomly from SSD (added later)",
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
        "read 1 MB sequentially from SSD (added later)",
        (1e6, 1e6),
        SSD_READ,
    ),
    of(DEAN, "disk seek", (10e6, 10e6), SEEK),
    of(
        DEAN,
        "read 1 MB sequentially from disk",
        (20e6, 20e6),
        DISK_READ,
    ),
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
        row.point.probe == self.probe
            && self.label.iter().all(|words| label.contains(words))
            && !other
    }
}

/// What was published of what a row of the latency table asks.
pub(crate) fn published(row: &PointRow) -> impl Iterator<Item = &'static Published> {
    PUBLISHED.iter().filter(|published| published.is_of(row))
}

/// Whether a row was measured over a link that was emulated, which holds packets up as long as it was
/// told to: its number is no answer to theirs.
pub(crate) fn is_emulated(row: &PointRow) -> bool {
    matches!(row.point.link.parse(), Ok(Link::Emulated { .. }))
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

    #[test]
    fn a_disk_is_held_beside_its_own_kind_alone() {
        let whats = |label: &str| {
            let mut row = row("file.read", 1, 5.0);
            row.label = Some(label.to_owned());
            published(&row).map(|known| known.what).collect::<Vec<_>>()
        };
        let flash = ["read 4 KB randomly from SSD (added later)"];
        assert_eq!(whats("read 4 KiB randomly from nvme0n1 (flash)"), flash);
        let flash = ["read 1 MB sequentially from SSD (added later)"];
        assert_eq!(whats("read 1 MiB sequentially from nvme0n1 (flash)"), flash);
        let turning = ["read 1 MB sequentially from disk"];
        assert_eq!(
            whats("read 1 MiB sequentially from sda (rotational)"),
            turning
        );
        assert_eq!(whats("disk seek"), ["disk seek"]);
        for label in [
            "read 4 KiB randomly from sda (rotational)",
            "read 4 KiB randomly from vda (virtual)",
            "read 1 MiB sequentially from vda (virtual)",
            "read 1 MiB sequentially from its disk",
        ] {
            assert_eq!(whats(label), [""; 0], "{label}");
        }
    }

    #[test]
    fn a_link_that_was_emulated_is_told() {
        let over = |link: &'static str| {
            let mut row = row("net.rtt", 1, 5.0);
            row.point.link = link.into();
            is_emulated(&row)
        };
        assert!(over("lan") && over("delay=10ms,loss=1%"));
        assert!(!over("remote") && !over("none") && !over("loopback"));
    }
}
