//! What a page fault should cost.

use super::Kind;
use crate::expect::cycles;
use crate::os::syscall;
use crate::prelude::*;
use costof_model::facts::DiskKind;
use costof_model::unit::display_bytes;

pub(super) fn predict(kind: Kind, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    match kind {
        Kind::Huge => huge(facts),
        Kind::Major => from_the_device(facts),
        Kind::MinorFile => minor(
            known,
            "to find and map a page",
            (50.0, 300.0),
            0.0,
            "clearing 4 KiB",
        ),
        Kind::CopyOnWrite => minor(
            known,
            "to find an empty page",
            (50.0, 400.0),
            4096.0,
            "copying 4 KiB",
        ),
        Kind::MinorAnonymous => minor(
            known,
            "to find an empty page",
            (50.0, 400.0),
            4096.0,
            "clearing 4 KiB",
        ),
    }
}

/// A page of this machine's size, which clearing takes all of the time of.
fn huge(facts: &Facts) -> Option<Prediction> {
    let bytes = facts.huge_pages.transparent_size_bytes?;
    cost_ns(
        bytes as f64 / 30.0,
        bytes as f64 / 5.0,
        format!(
            "{} cleared at 5 to 30 GB/s, as main memory takes it",
            display_bytes(bytes)
        ),
    )
}

/// An exception and its handler, a page to find, and to fill: fast and slow.
fn minor(
    known: &Known<'_>,
    finding: &str,
    finding_ns: (f64, f64),
    bytes: f64,
    filling: &str,
) -> Option<Prediction> {
    // An exception and its handler.
    let handler = syscall::measured(known, syscall::Call::Getppid)? * (1.0, 4.0);
    let filled = cycles(known, (bytes / 32.0, bytes / 8.0), filling)?;
    (handler + Cost::new(finding_ns, finding) + filled).predict("cost")
}

/// By the kinds of the disks under the file systems; none where they differ.
fn from_the_device(facts: &Facts) -> Option<Prediction> {
    let rotational: Vec<bool> = facts
        .disks
        .iter()
        .filter(|disk| !matches!(disk.kind, DiskKind::Memory | DiskKind::Loop))
        .map(|disk| disk.kind == DiskKind::Rotational)
        .collect();
    match (rotational.contains(&true), rotational.contains(&false)) {
        (true, false) => cost_ns(4e6, 15e6, "4 to 15 ms for a seek and half a turn of a disk"),
        (false, true) => cost_ns(
            20e3,
            200e3,
            "20 to 200 µs for a read of flash or of a virtual disk",
        ),
        _ => None,
    }
}
