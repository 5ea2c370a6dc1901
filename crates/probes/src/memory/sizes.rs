//! Sizes that lie inside a cache or beyond all of them, and arenas of a size.

use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::unit::display_bytes;
use costof_os::arena::{Arena, PageSize, available_bytes};

/// A size well inside the cache that the processor claims at a level; none where
/// it claims none. A last level is shared, and its outer part often with
/// strangers: four times the level before is far enough into it.
pub(crate) fn inside(facts: &Facts, level: u32) -> Option<u64> {
    let claimed = |level| facts.claimed_cache(level).map(|cache| cache.size_bytes);
    let half = claimed(level)? / 2;
    let size = claimed(level - 1).map_or(half, |before| half.min(4 * before));
    Some(size.next_multiple_of(4096))
}

/// A size of which caches hold little: four times the last level.
pub(crate) fn beyond(facts: &Facts) -> u64 {
    let last = facts.last_level_cache().map(|cache| cache.size_bytes);
    last.map_or(256 << 20, |last| (4 * last).clamp(64 << 20, 4 << 30))
}

/// Whether that much memory can be had, and some is left to others and to the
/// kernel's page tables.
pub(crate) fn fits(bytes: u64) -> bool {
    bytes <= available_bytes().unwrap_or(u64::MAX) / 10 * 9
}

/// Why a point has no number that asks for more.
pub(crate) fn does_not_fit(bytes: u64) -> Failure {
    Failure::unsupported(format!(
        "{} do not fit into the {} MiB of memory that are available here",
        display_bytes(bytes),
        available_bytes().unwrap_or(0) >> 20
    ))
}

/// An arena of this size, which is to be on `4KiB` or `2MiB` pages; none of it
/// is in memory yet.
///
/// # Errors
/// Why there is none.
pub(crate) fn map(bytes: u64, pages: &str) -> Result<Arena, Failure> {
    let page_size = match pages {
        "2MiB" => PageSize::Huge,
        _ => PageSize::Base,
    };
    Arena::map(bytes as usize, page_size).map_err(|error| failed("map", bytes, pages, &error))
}

/// Whether an arena, all of it in memory, is on the pages asked for.
///
/// # Errors
/// Where less than nine tenths came on huge pages.
pub(crate) fn check_pages(arena: &Arena, pages: &str) -> Result<(), Failure> {
    if pages != "2MiB" {
        return Ok(());
    }
    let bytes = arena.len() as u64;
    let huge = arena
        .huge_bytes()
        .map_err(|error| failed("look at", bytes, pages, &error))?;
    if (huge as f64) < 0.9 * bytes as f64 {
        return Err(Failure::unsupported(format!(
            "only {} of {} came on huge pages: memory is fragmented, or \
             /sys/kernel/mm/transparent_hugepage/enabled says never",
            display_bytes(huge),
            display_bytes(bytes)
        )));
    }
    Ok(())
}

/// Why a point has no number whose arena cannot be had.
pub(crate) fn failed(what: &str, bytes: u64, pages: &str, error: &std::io::Error) -> Failure {
    Failure::unsupported(format!(
        "cannot {what} {} on {pages} pages: {error}",
        display_bytes(bytes)
    ))
}
