//! Well-known published numbers to compare a machine with, from `tables.toml`.

use crate::tables::TABLES;
use costof_model::{PointRow, Unit};
use serde::Deserialize;

/// Jeff Dean's list.
pub(crate) const DEAN: &str = "Dean 2009";

/// A published number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Who published it.
    pub(crate) by: String,
    /// What it is about, in the author's words.
    pub(crate) what: String,
    /// The range in nanoseconds; both ends are the same if it is one number.
    pub(crate) ns: (f64, f64),
    /// The number of bytes that it is about, if costof measures a rate.
    bytes: Option<f64>,
    /// The probe whose headline measures the same.
    probe: String,
    label: String,
    /// The medium of the headline's file, which is the end of its label.
    medium: Option<String>,
}

impl Published {
    /// The range in the unit that costof measures.
    pub(crate) fn range(&self, unit: Unit) -> Option<(f64, f64)> {
        match (unit, self.bytes) {
            (Unit::Nanoseconds, _) => Some(self.ns),
            (Unit::BytesPerSecond, Some(bytes)) => {
                let rate = |ns: f64| bytes / ns * 1e9;
                Some((rate(self.ns.1), rate(self.ns.0)))
            }
            _ => None,
        }
    }

    fn asks_the_same(&self, row: &PointRow) -> bool {
        let label = row.label.as_deref().unwrap_or_default();
        let is_it = match &self.medium {
            None => label == self.label,
            Some(medium) => {
                label.starts_with(&self.label) && label.ends_with(&format!(" ({medium})"))
            }
        };
        row.point.probe == self.probe && is_it
    }
}

/// The published numbers for a row of the latency table.
pub(crate) fn published(row: &PointRow) -> impl Iterator<Item = &'static Published> {
    TABLES.published.iter().filter(|known| known.asks_the_same(row))
}

/// The numbers from Dean's list that none of these rows measures.
pub(crate) fn not_asked(rows: &[&PointRow]) -> Vec<&'static Published> {
    let by_dean = TABLES.published.iter().filter(|known| known.by == DEAN);
    let not_asked = by_dean.filter(|known| !rows.iter().any(|row| known.asks_the_same(row)));
    not_asked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::sized_row as row;

    #[test]
    fn a_number_stands_beside_what_asks_the_same() {
        let labelled = |probe: &'static str, label: &str| {
            let mut row = row(probe, 1, 5.0);
            row.label = Some(label.to_owned());
            row
        };
        let whats = |row: &PointRow| published(row).map(|known| &*known.what).collect::<Vec<_>>();
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
            published(&row).map(|known| &*known.what).collect::<Vec<_>>()
        };
        let flash = ["read 4 KB randomly from SSD (added later)"];
        assert_eq!(whats("read 4 KiB randomly from nvme0n1 (flash)"), flash);
        let flash = ["read 1 MB sequentially from SSD (added later)"];
        assert_eq!(whats("read 1 MiB sequentially from nvme0n1 (flash)"), flash);
        let turning = ["read 1 MB sequentially from disk"];
        assert_eq!(whats("read 1 MiB sequentially from sda (rotational)"), turning);
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
}
