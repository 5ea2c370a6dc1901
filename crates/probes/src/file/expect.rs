//! The terms of what files should cost: calls, copies, and requests to a device, by its kind or by what
//! has been measured of it.

use super::axes::TEMPORARY;
use super::target_file::medium;
use crate::copy::by_size::memcpy_ns;
use crate::cpu::memcpy::Source;
use crate::prelude::*;

const PAGE_BYTES: f64 = 4096.0;
/// A call that finds a file and a page, compared with one that reads a byte.
const CALLS: Range = Range(0.8, 2.5);
/// Another request to the same device, compared with a fault that read a page.
const OF_A_FAULT: Range = Range(0.5, 1.4);
/// A read while several processes read, compared with one of several in flight of one process.
const IN_A_QUEUE: Range = Range(0.5, 2.0);
/// A write, compared with a read.
const OF_A_READ: Range = Range(0.4, 2.5);

/// Finding a page of the page cache: in a large folio, or alone.
const FIND_PAGE_NS: Range = Range(5.0, 150.0);

/// Blocks that are read from a device, or written to it.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a> {
    /// The folder of their file.
    pub(super) dir: &'a str,
    pub(super) block: u64,
    /// Whether a block does not follow the one before.
    pub(super) jump: bool,
}

/// A system call that reads or writes a file.
pub(super) fn call(measured: &MeasuredRows<'_>) -> Option<Cost> {
    Some(syscall::measured_cost(measured, syscall::Call::Read)? * CALLS)
}

/// A block of the page cache that a call finds and copies.
pub(super) fn cached(measured: &MeasuredRows<'_>, block: f64) -> Option<Cost> {
    Some(call(measured)? + find(block) + copy(measured, block)?)
}

/// Finding a block's pages in the page cache.
pub(super) fn find(block: f64) -> Cost {
    Cost::new(FIND_PAGE_NS * pages(block), "to find pages")
}

/// How many pages of the page cache a block has.
pub(super) fn pages(block: f64) -> f64 {
    (block / PAGE_BYTES).max(1.0)
}

/// A copy from a cached source, or from one in memory, with TLB misses.
pub(super) fn copy(measured: &MeasuredRows<'_>, block: f64) -> Option<Cost> {
    let hot = memcpy_ns(measured, block, Source::Hot)?;
    let cold = memcpy_ns(measured, block, Source::Cold).unwrap_or(4.0 * hot);
    let range = (hot.min(cold), 2.0 * cold.max(hot) + 100.0);
    Some(Cost::new(range, "to copy the block"))
}

/// A small request to the device under the folder: by a direct read or a page fault that was
/// measured on the same device, else by its kind. None where neither is known.
pub(super) fn request(
    blocks: Blocks<'_>,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    let from_runs = || measured_read(measured).or_else(|| measured_fault(measured));
    request_as_measured(blocks, facts, from_runs)
}

/// The same while `all` readers read, each one block at a time: by the direct reads measured on the
/// same device with a full queue, else anything from all at once to one after the other.
pub(super) fn contended_request(
    blocks: Blocks<'_>,
    all: f64,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    let alone = request(blocks, facts, measured)?;
    let in_turn = (blocks.dir == TEMPORARY).then(|| measured_in_a_full_queue(measured));
    Some(match in_turn.flatten() {
        Some(each) => alone.max(each * IN_A_QUEUE * all),
        None => alone * (1.0, all),
    })
}

/// The same for file.read itself, without its own measurements.
pub(super) fn read_request(
    blocks: Blocks<'_>,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    request_as_measured(blocks, facts, || measured_fault(measured))
}

fn request_as_measured(
    blocks: Blocks<'_>,
    facts: &Facts,
    from_runs: impl FnOnce() -> Option<Cost>,
) -> Option<Cost> {
    let (by_kind, name) = match (medium(blocks.dir, facts), blocks.jump) {
        (Medium::Rotational, true) => (Range(3e6, 20e6), "for a seek and half a turn of a disk"),
        (Medium::Rotational, false) => (Range(20e3, 500e3), "for a request to a disk"),
        (Medium::Flash, _) => (Range(8e3, 200e3), "for a request to flash"),
        (Medium::Virtual, _) => (Range(15e3, 400e3), "for a request to a virtual disk"),
        (Medium::Memory | Medium::File | Medium::Unknown, _) => return None,
    };
    // Both are measured in the temporary folder.
    let measured = (blocks.dir == TEMPORARY).then(from_runs).flatten();
    Some(measured.unwrap_or_else(|| Cost::new(by_kind, name)))
}

fn measured_read(measured: &MeasuredRows<'_>) -> Option<Cost> {
    let ns = measured_direct(measured, "1")?;
    Some(Cost::new(ns, "for a direct read (file.read)") * OF_A_READ)
}

fn measured_in_a_full_queue(measured: &MeasuredRows<'_>) -> Option<Cost> {
    let ns = measured_direct(measured, "16")?;
    Some(Cost::new(ns, "for each of 16 direct reads in flight (file.read)"))
}

/// Duration of a direct read of a random page with that many in flight, in nanoseconds.
fn measured_direct(measured: &MeasuredRows<'_>, depth: &str) -> Option<f64> {
    let direct = [("cache", "direct"), ("pattern", "random"), ("block", "4096"), ("depth", depth)];
    measured.primary("file.read", &direct)
}

fn measured_fault(measured: &MeasuredRows<'_>) -> Option<Cost> {
    let ns = measured.primary("os.page_fault", &[("kind", "major")])?;
    Some(Cost::new(ns, "for a page fault that read (os.page_fault)") * OF_A_FAULT)
}

/// Bytes per nanosecond of the device under the folder, slow and fast, by its kind.
pub(super) fn rates(dir: &str, facts: &Facts) -> Option<(f64, f64)> {
    match medium(dir, facts) {
        Medium::Rotational => Some((0.08, 0.3)),
        Medium::Flash | Medium::Virtual => Some((0.3, 8.0)),
        Medium::Memory | Medium::File | Medium::Unknown => None,
    }
}

/// The bytes of a block beyond its first page, which the request includes.
pub(super) fn bytes(blocks: Blocks<'_>, facts: &Facts) -> Option<Cost> {
    let more = (blocks.block as f64 - PAGE_BYTES).max(0.0);
    Some(Cost::bytes(more, rates(blocks.dir, facts)?, "more"))
}
