//! What a page fault should cost.

use super::Kind;
use crate::expect::cycles;
use crate::prelude::*;
use costof_model::facts::DiskKind;

pub(super) fn predict(
    kind: Kind,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let empty_page = Cost::new((50.0, 400.0), "to find an empty page");
    let (found, filled) = match kind {
        Kind::Huge => return huge(facts),
        Kind::Major => return from_the_device(facts),
        Kind::MinorFile => {
            let mapped = Cost::new((50.0, 300.0), "to find and map a page");
            (mapped, Cost::default())
        }
        Kind::CopyOnWrite => (empty_page, filled(measured, "copying 4 KiB")?),
        Kind::MinorAnonymous => (empty_page, filled(measured, "clearing 4 KiB")?),
    };
    // An exception and its handler.
    let handler = syscall::measured_cost(measured, syscall::Call::Getppid)? * (1.0, 4.0);
    (handler + found + filled).predict("cost")
}

/// A page of 4 KiB, at 8 to 32 bytes a cycle.
fn filled(measured: &MeasuredRows<'_>, name: &str) -> Option<Cost> {
    cycles(measured, (4096.0 / 32.0, 4096.0 / 8.0), name)
}

/// A page of this machine's size, which clearing takes all of the time of.
fn huge(facts: &Facts) -> Option<Prediction> {
    let bytes = facts.huge_pages.transparent_size_bytes?;
    let because = format!(
        "{} cleared at 5 to 30 GB/s, as main memory takes it",
        display_bytes(bytes)
    );
    cost_ns((bytes as f64 / 30.0, bytes as f64 / 5.0), because)
}

/// By the kinds of the disks under the file systems; `None` if they differ.
fn from_the_device(facts: &Facts) -> Option<Prediction> {
    let rotational: Vec<bool> = facts
        .disks
        .iter()
        .filter(|disk| !matches!(disk.kind, DiskKind::Memory | DiskKind::Loop))
        .map(|disk| disk.kind == DiskKind::Rotational)
        .collect();
    match (rotational.contains(&true), rotational.contains(&false)) {
        (true, false) => {
            let because = "4 to 15 ms for a seek and half a turn of a disk";
            cost_ns((4e6, 15e6), because)
        }
        (false, true) => {
            let because = "20 to 200 µs for a read of flash or of a virtual disk";
            cost_ns((20e3, 200e3), because)
        }
        (true, true) | (false, false) => None,
    }
}
