//! Sizes inside a cache, or beyond all of them.

use crate::prelude::*;
use costof_model::facts::Cache;

/// Sizes in KiB, as bytes.
pub(crate) const fn kib<const N: usize>(mut sizes: [u64; N]) -> [u64; N] {
    let mut position = 0;
    while position < N {
        sizes[position] <<= 10;
        position += 1;
    }
    sizes
}

/// A size well inside the cache that the CPU claims at a level; `None` if it claims none. A last
/// level is shared, and its outer part often with other programs: four times the level before is
/// far enough inside.
pub(crate) fn inside(facts: &Facts, level: u32) -> Option<u64> {
    inside_claims(level, |level| facts.claimed_cache(level))
}

/// The same for the caches of one CPU; on a hybrid machine, CPUs differ in them.
pub(crate) fn inside_of(facts: &Facts, level: u32, cpu: u32) -> Option<u64> {
    inside_claims(level, |level| facts.claimed_cache_of(level, cpu))
}

fn inside_claims<'f>(level: u32, cache: impl Fn(u32) -> Option<&'f Cache>) -> Option<u64> {
    let claimed = |level| cache(level).map(|cache| cache.size_bytes);
    let half = claimed(level)? / 2;
    let size = claimed(level - 1).map_or(half, |before| half.min(4 * before));
    Some(size.next_multiple_of(4096))
}

/// A size of which caches hold little.
pub(crate) fn beyond(facts: &Facts) -> u64 {
    facts.bytes_beyond_caches(64)
}

/// Whether this many bytes fit into the cache that the CPU claims at a level, with some of it left
/// for others.
pub(crate) fn fit_into_level(bytes: u64, facts: &Facts, level: u32) -> bool {
    let claimed = facts.claimed_cache(level);
    claimed.is_some_and(|cache| bytes as f64 <= 0.75 * cache.size_bytes as f64)
}
