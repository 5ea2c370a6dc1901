//! What a page fault should cost.

use super::Kind;
use crate::os::syscall;
use crate::prelude::*;
use costof_model::facts::DiskKind;
use costof_model::unit::display_bytes;

/// Entering the kernel by an exception and its handler: so many system calls.
const HANDLER_CALLS: (f64, f64) = (1.0, 4.0);
/// Bytes a cycle when a page is cleared or copied: fast, and slow.
const BYTES_PER_CYCLE: (f64, f64) = (32.0, 8.0);

pub(super) fn predict(kind: Kind, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    match kind {
        Kind::Huge => huge(facts),
        Kind::Major => from_the_device(facts),
        Kind::MinorFile => minor(known, "find and map it", (50.0, 300.0), 0.0, "clear"),
        Kind::CopyOnWrite => minor(known, "find an empty one", (50.0, 400.0), 4096.0, "copy"),
        Kind::MinorAnonymous => minor(known, "find an empty one", (50.0, 400.0), 4096.0, "clear"),
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

/// An exception and its handler, a page to find, and to fill.
fn minor(
    known: &Known<'_>,
    finding: &str,
    finding_ns: (f64, f64),
    bytes: f64,
    filling: &str,
) -> Option<Prediction> {
    let call_ns = syscall::one_thread_ns(known, syscall::Call::Getppid)?;
    let ns_per_cycle = 1e9 / known.primary("cpu.frequency", &[])?;
    let fill_ns = |bytes_per_cycle: f64| bytes / bytes_per_cycle * ns_per_cycle;
    let (fast, slow) = (fill_ns(BYTES_PER_CYCLE.0), fill_ns(BYTES_PER_CYCLE.1));
    let filled = if bytes > 0.0 {
        format!("; {fast:.0} to {slow:.0} ns to {filling} 4 KiB")
    } else {
        String::new()
    };
    cost_ns(
        HANDLER_CALLS.0 * call_ns + finding_ns.0 + fast,
        HANDLER_CALLS.1 * call_ns + finding_ns.1 + slow,
        format!(
            "an exception and its handler like {} to {} system calls of {call_ns:.0} ns; {:.0} to \
             {:.0} ns to {finding}{filled}",
            HANDLER_CALLS.0, HANDLER_CALLS.1, finding_ns.0, finding_ns.1
        ),
    )
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
