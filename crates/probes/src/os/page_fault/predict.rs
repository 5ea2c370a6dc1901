//! What a page fault should cost.

use super::Kind;
use crate::prelude::*;
use costof_model::facts::{Disk, DiskKind};

pub(super) fn predict(
    kind: Kind,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let entry = |range, name| cycles(measured, range, name);
    let (code, filled) = match kind {
        Kind::Huge => return huge(facts),
        Kind::Major => return from_the_device(facts),
        Kind::MinorFile => (MAP, Cost::default()),
        Kind::MinorAround => (MAP, entry((600.0, 12_000.0), "to find and map 15 more pages")?),
        Kind::CopyOnWrite => {
            let flushed = entry((100.0, 500.0), "to flush an entry of the TLB")?;
            (ALLOCATE, filled(measured, "copying 4 KiB")? + flushed)
        }
        Kind::MinorAnonymous => (ALLOCATE, filled(measured, "clearing 4 KiB")?),
    };
    let exception = entry(EXCEPTION, "for an exception, its return and two misses of the TLB")?;
    let open = syscall::measured_cost(measured, syscall::Call::Open)?;
    (exception + open * code + filled).predict("cost")
}

/// The exception and its return, and the page walks before and after it, with nested ones in a
/// virtual machine, in cycles: mitigations do not change these.
const EXCEPTION: (f64, f64) = (500.0, 1_500.0);
/// The kernel's code, compared with opening and closing a file: both take locks, look something up
/// in a tree, and allocate or find an object that a memory control group is charged for.
const ALLOCATE: (f64, f64) = (0.25, 0.6);
const MAP: (f64, f64) = (0.2, 0.45);

/// A page of 4 KiB, at 8 to 32 bytes a cycle.
fn filled(measured: &MeasuredRows<'_>, name: &str) -> Option<Cost> {
    cycles(measured, (4096.0 / 32.0, 4096.0 / 8.0), name)
}

/// A page of this machine's size, which clearing takes all of the time of.
fn huge(facts: &Facts) -> Option<Prediction> {
    let bytes = facts.huge_pages.transparent_size_bytes?;
    let because =
        format!("{} cleared at 6 to 20 GB/s, as one core writes main memory", display_bytes(bytes));
    cost_ns((bytes as f64 / 20.0, bytes as f64 / 6.0), because)
}

/// By the kinds of the disks under the file systems; `None` if they differ.
fn from_the_device(facts: &Facts) -> Option<Prediction> {
    let kind = |disk: &Disk| match disk.kind {
        DiskKind::Memory | DiskKind::Loop | DiskKind::Raid | DiskKind::Mapped => None,
        DiskKind::Rotational => Some(("a seek and half a turn of a disk", (4e6, 15e6))),
        DiskKind::Virtual => {
            Some(("two exits or more to a host that reads flash or its own cache", (30e3, 110e3)))
        }
        _ => Some(("a read of flash", (40e3, 140e3))),
    };
    let mut kinds = facts.disks.iter().filter_map(kind);
    let (because, range) = kinds.next()?;
    kinds.all(|(other, _)| other == because).then(|| cost_ns(range, because))?
}
