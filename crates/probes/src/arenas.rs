//! Memory for a point: whether there is enough, on which pages, and why not.

use crate::prelude::*;
use costof_measure::facts::available_bytes;
use costof_os::memory::numa;

words! {
    /// The pages under memory.
    pub(crate) enum Pages => PageSize {
        /// the smallest pages, so that the TLB is part of the cost as in most programs
        Base = "4KiB",
        /// transparent huge pages, which avoid most TLB misses
        Huge = "2MiB",
    }
}

impl Pages {
    /// The axis `pages`.
    pub(crate) fn axis() -> AxisOf<Pages> {
        words().about("the pages under the memory, seen in smaps")
    }
}

/// Whether that much memory is available, with some left for others and for the kernel's page
/// tables.
pub(crate) fn fits(bytes: u64) -> bool {
    bytes <= available_bytes().unwrap_or(u64::MAX) / 10 * 9
}

/// As [`fits`].
///
/// # Errors
/// If it does not fit.
pub(crate) fn ensure_fits(bytes: u64) -> Result {
    if fits(bytes) {
        return Ok(());
    }
    Err(does_not_fit(bytes))
}

/// The failure of a point that needs more memory.
pub(crate) fn does_not_fit(bytes: u64) -> Failure {
    Failure::unsupported(format!(
        "{} do not fit into the {} MiB of memory that are available here",
        display_bytes(bytes),
        available_bytes().unwrap_or(0) >> 20
    ))
}

/// An arena of this size for these pages; none of it is in memory yet.
///
/// # Errors
/// If it cannot be mapped.
pub(crate) fn map(bytes: u64, pages: Pages) -> Result<Arena> {
    Arena::map(bytes as usize, pages.into()).map_err(|error| failed("map", bytes, pages, &error))
}

/// An arena of this size, all of it in memory, on base pages or mostly on huge ones.
///
/// # Errors
/// If it cannot be had, or is on other pages.
pub(crate) fn in_memory(bytes: u64, pages: Pages) -> Result<Arena> {
    let mut arena = map(bytes, pages)?;
    arena.populate().map_err(|error| failed("touch", bytes, pages, &error))?;
    check(&arena, pages, MOSTLY)?;
    Ok(arena)
}

/// The share of an arena on huge pages from which on it counts as being on them.
pub(crate) const MOSTLY: f64 = 0.9;

/// Checks that an arena, all of it in memory, is on the requested pages: with huge pages, at least
/// the share `huge` of it.
///
/// # Errors
/// If it is not.
pub(crate) fn check(arena: &Arena, pages: Pages, huge: f64) -> Result {
    if pages == Pages::Base {
        return Ok(());
    }
    let bytes = arena.len() as u64;
    let came = arena.huge_bytes().map_err(|error| failed("look at", bytes, pages, &error))?;
    if (came as f64) < huge * bytes as f64 {
        return Err(not_huge(came, bytes));
    }
    Ok(())
}

/// Takes the pages of an arena, none of which is in memory yet, from a memory node.
///
/// # Errors
/// If the kernel refuses to place memory.
pub(crate) fn bind(arena: &Arena, node: u32) -> Result {
    let hint = "a container needs CAP_SYS_NICE for it, and a cpuset that has the node";
    numa::bind(arena, node).or_unsupported_hint(format_args!("memory node {node}"), hint)
}

/// The failure of a point that needs huge pages and got others.
pub(crate) fn not_huge(came: u64, bytes: u64) -> Failure {
    Failure::unsupported(format!(
        "only {} of {} came on huge pages: memory is fragmented or limited, or transparent huge \
         pages are off (/sys/kernel/mm/transparent_hugepage/enabled, PR_SET_THP_DISABLE)",
        display_bytes(came),
        display_bytes(bytes)
    ))
}

/// The failure of a point whose arena cannot be had.
pub(crate) fn failed(what: &str, bytes: u64, pages: Pages, error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "cannot {what} {} on {} pages: {error}",
        display_bytes(bytes),
        pages.word()
    ))
}
