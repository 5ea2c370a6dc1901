//! How much memory is more than the caches hold.

use std::fs;

/// Times the last cache.
const LAST_CACHES: u64 = 4;

/// So many MiB that no cache helps, at least `least_mib`: a power of two, which sysbench asks for.
pub fn beyond_caches_mib(least_mib: u64) -> u64 {
    let last_mib = last_cache_bytes().unwrap_or(0) >> 20;
    least_mib.max(LAST_CACHES * last_mib).next_power_of_two()
}

/// The size of the last cache of processor 0; `None` where the kernel does not tell.
pub fn last_cache_bytes() -> Option<u64> {
    (0..10)
        .map_while(|index| {
            let size = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            let text = fs::read_to_string(size).ok()?;
            let kib: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
            Some(kib * 1024)
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_holds_a_quarter_of_it() {
        let mib = beyond_caches_mib(96);
        assert!(mib.is_power_of_two() && mib >= 128);
        assert!(last_cache_bytes().is_none_or(|last| mib << 20 >= 4 * (last >> 20 << 20)));
    }
}
