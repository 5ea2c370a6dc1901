//! Finds a memory size that is larger than the caches.

use costof_measure::facts;

/// How many times the size of the last cache.
const LAST_CACHES: u64 = 4;
/// One part in this many of the available memory is used: a copy needs it twice, and neither swapping nor a
/// memory limit may be near.
const SHARE: u64 = 4;

/// A size so large that no cache helps.
#[derive(Clone, Debug, PartialEq)]
pub struct BeyondCaches {
    /// The size in MiB. It is a power of two because sysbench requires that.
    pub mib: u64,
    /// Why this machine cannot spare this much; none if it can.
    pub lacks: Option<String>,
}

impl BeyondCaches {
    /// A size of at least `least_mib`, if the available memory allows that.
    pub fn at_least(least_mib: u64) -> BeyondCaches {
        let last_mib = last_cache_bytes().map(|bytes| bytes.div_ceil(1 << 20));
        // If the kernel does not report the available memory, nothing else bounds the size.
        let free_mib = facts::available_bytes().map_or(u64::MAX, |bytes| bytes >> 20);
        BeyondCaches::new(least_mib, last_mib, free_mib)
    }

    fn new(least_mib: u64, last_mib: Option<u64>, free_mib: u64) -> BeyondCaches {
        let beyond_mib = last_mib.map_or(least_mib, |last| LAST_CACHES * last);
        let wanted_mib = least_mib.max(beyond_mib).next_power_of_two();
        let spare_mib = free_mib / SHARE;
        let mib = match spare_mib.checked_ilog2() {
            Some(power) => wanted_mib.min(1 << power),
            None => 0,
        };
        if mib >= beyond_mib.max(1) {
            return BeyondCaches { mib, lacks: None };
        }
        let needs_mib = beyond_mib.next_power_of_two();
        BeyondCaches {
            mib: needs_mib,
            lacks: Some(format!(
                "it needs {needs_mib} MiB, more than the caches hold, and a quarter of the free memory is {spare_mib} MiB"
            )),
        }
    }
}

/// The size of the largest cache of CPU 0; `None` if nothing reports it.
pub fn last_cache_bytes() -> Option<u64> {
    facts::caches_of(0).iter().map(|cache| cache.size_bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_holds_a_quarter_of_it() {
        for (last_mib, mib) in [(Some(16), 128), (Some(33), 256), (Some(260), 2048), (None, 128)] {
            let found = BeyondCaches::new(128, last_mib, 64 << 10);
            assert_eq!(found, BeyondCaches { mib, lacks: None });
        }
        assert!(BeyondCaches::at_least(96).mib.is_power_of_two());
    }

    #[test]
    fn it_is_no_more_than_a_quarter_of_what_is_free() {
        let found = |last_mib, free_mib| BeyondCaches::new(512, last_mib, free_mib);
        assert_eq!(found(Some(16), 1000), BeyondCaches { mib: 128, lacks: None });
        assert_eq!(found(Some(260), 8191).mib, 2048);
        for (last_mib, free_mib, needs) in [
            (Some(260), 4096, "needs 2048 MiB"),
            (Some(32), 300, "needs 128 MiB"),
            (None, 1000, "needs 512 MiB"),
            (Some(0), 0, "needs 1 MiB"),
        ] {
            let lacks = found(last_mib, free_mib).lacks.unwrap();
            assert!(lacks.contains(needs), "{lacks}");
        }
    }
}
