//! Main memory and huge pages. Source: proc_meminfo(5),
//! Documentation/admin-guide/mm/transhuge.rst and hugetlbpage.rst.

use costof_model::facts::{Dimm, HugePagePool, HugePages, Memory};

use super::dmi;
use super::roots::{Roots, bytes_of, field};

/// What the kernel manages, and the modules that the firmware tells of.
pub(super) fn memory(roots: &Roots) -> Memory {
    let info = roots.text("/proc/meminfo").unwrap_or_default();
    let amount = |name| bytes_of(field(&info, name, ':')?);
    let dimms = roots
        .bytes("/sys/firmware/dmi/tables/DMI")
        .map(|table| dmi::dimms(&table))
        .unwrap_or_default();
    Memory {
        total_bytes: amount("MemTotal"),
        available_bytes: amount("MemAvailable"),
        page_bytes: page_bytes(roots),
        swap_total_bytes: amount("SwapTotal"),
        swap_free_bytes: amount("SwapFree"),
        channel_count: channel_count(&dimms),
        dimms,
    }
}

/// `AT_PAGESZ` of the vector that the kernel gave this process: pairs of words. Source: getauxval(3).
fn page_bytes(roots: &Roots) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let vector = roots.bytes("/proc/self/auxv")?;
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
        .collect();
    words
        .chunks_exact(2)
        .find(|pair| pair[0] == AT_PAGESZ)
        .map(|pair| pair[1])
}

/// The channels with a module in them: `P0 CHANNEL A`, `ChannelB-DIMM0`. Only places that say
/// "channel" count; names such as `DIMM_A1` mean a different thing with each maker.
fn channel_count(dimms: &[Dimm]) -> Option<u32> {
    let mut channels: Vec<String> = dimms.iter().filter_map(channel).collect();
    if channels.len() < dimms.len() {
        return None;
    }
    channels.sort_unstable();
    channels.dedup();
    u32::try_from(channels.len())
        .ok()
        .filter(|&count| count > 0)
}

/// What stands before and just after the word "channel", in the bank or else in the place.
fn channel(dimm: &Dimm) -> Option<String> {
    [&dimm.bank, &dimm.place]
        .into_iter()
        .flatten()
        .find_map(|name| {
            let name = name.to_ascii_uppercase();
            let (before, after) = name.split_once("CHANNEL")?;
            let letter: String = after
                .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect();
            (!letter.is_empty()).then(|| format!("{before}{letter}"))
        })
}

/// Transparent huge pages and the reserved pools.
pub(super) fn huge_pages(roots: &Roots) -> HugePages {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let sleep_ms: Option<u64> = roots.value(&format!("{folder}/khugepaged/scan_sleep_millisecs"));
    HugePages {
        transparent: roots.chosen(&format!("{folder}/enabled"), '[', ']'),
        transparent_defrag: roots.chosen(&format!("{folder}/defrag"), '[', ']'),
        transparent_shared: roots.chosen(&format!("{folder}/shmem_enabled"), '[', ']'),
        transparent_size_bytes: roots.value(&format!("{folder}/hpage_pmd_size")),
        khugepaged_defrag: roots.flag(&format!("{folder}/khugepaged/defrag")),
        khugepaged_sleep_ns: sleep_ms.and_then(|ms| ms.checked_mul(1_000_000)),
        pools: pools(roots),
    }
}

fn pools(roots: &Roots) -> Vec<HugePagePool> {
    let folder = "/sys/kernel/mm/hugepages";
    roots
        .names(folder)
        .iter()
        .filter_map(|name| {
            let file = |file: &str| roots.value(&format!("{folder}/{name}/{file}"));
            Some(HugePagePool {
                page_bytes: bytes_of(name.strip_prefix("hugepages-")?)?,
                total: file("nr_hugepages"),
                free: file("free_hugepages"),
                overcommit: file("nr_overcommit_hugepages"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_count_only_where_each_place_names_one() {
        let dimm = |bank: &str, place: &str| Dimm {
            bank: Some(bank.to_owned()),
            place: Some(place.to_owned()),
            ..Dimm::default()
        };
        let server = [
            dimm("P0 CHANNEL A", "DIMM 0"),
            dimm("P0 CHANNEL A", "DIMM 1"),
            dimm("P0 CHANNEL B", "DIMM 0"),
            dimm("P1 CHANNEL A", "DIMM 0"),
        ];
        assert_eq!(channel_count(&server), Some(3));
        let laptop = [
            dimm("BANK 0", "Controller0-ChannelA-DIMM0"),
            dimm("BANK 0", "Controller1-ChannelA-DIMM0"),
        ];
        assert_eq!(channel_count(&laptop), Some(2));
        assert_eq!(channel_count(&[dimm("BANK 0", "DIMM_A1")]), None);
        assert_eq!(channel_count(&[]), None);
    }
}
