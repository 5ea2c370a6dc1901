//! The processors: `/proc/cpuinfo` and `/sys/devices/system/cpu`.
//! Source: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst,
//! Documentation/arch/arm64/cpu-feature-registers.rst.

use std::collections::BTreeMap;

use costof_model::facts::{Advertised, CoreKind, Cpu, CpuSet};

use super::caches;
use super::cpuid::Cpuid;
use super::roots::{Roots, field, is_word_of};

const CPUS: &str = "/sys/devices/system/cpu";

/// Enough of `/proc/cpuinfo` for the first processors; on old kernels each further one is asked for
/// its clock by an interrupt.
const CPUINFO_BYTES: u64 = 16 << 10;

/// Extensions and properties that change what things cost or which instructions can be measured.
const FLAGS: &str = "\
    sse4_2 popcnt aes avx avx2 avx512f avx512bw avx512vl avx512_vnni avx10 amx_tile bmi2 sha_ni \
    vpclmulqdq clflushopt clwb clzero erms fsrm fzrm fsrs movdiri movdir64b constant_tsc \
    nonstop_tsc tsc_known_freq tsc_reliable tsc_deadline_timer rdtscp rdpid rdpru aperfmperf hwp \
    ida cpb arat monitor mwaitx waitpkg pcid invpcid invlpgb pdpe1gb la57 smap fred pti ibrs \
    ibrs_enhanced ibpb stibp arch_perfmon perfctr_core perfmon_v2 hypervisor \
    asimd atomics crc32 dcpop ecv lrcpc mops sha2 sve sve2 wfxt";

/// Everything about the processors.
pub(super) fn cpu(roots: &Roots, cpuid: &Cpuid) -> Cpu {
    let info = roots
        .start("/proc/cpuinfo", CPUINFO_BYTES)
        .unwrap_or_default();
    let mut cpu = identity(&info);
    cpu.online = roots.set(&format!("{CPUS}/online"));
    cpu.isolated = roots.set(&format!("{CPUS}/isolated"));
    cpu.tickless = roots.set(&format!("{CPUS}/nohz_full"));
    cpu.smt_active = roots.flag(&format!("{CPUS}/smt/active"));
    cpu.smt_control = roots.text(&format!("{CPUS}/smt/control"));
    cpu.cores = groups(
        roots,
        &cpu.online,
        &["core_cpus_list", "thread_siblings_list"],
    );
    cpu.sockets = groups(
        roots,
        &cpu.online,
        &["package_cpus_list", "core_siblings_list"],
    );
    let count = |len: usize| u32::try_from(len).ok().filter(|&count| count > 0);
    cpu.logical_count = count(cpu.online.len());
    cpu.physical_count = count(cpu.cores.len());
    cpu.socket_count = count(cpu.sockets.len());
    cpu.core_kinds = core_kinds(roots, &cpu.online);
    cpu.caches = caches::caches(roots, &cpu.online);
    if cpu.caches.is_empty() {
        cpu.caches = cpuid.caches.clone();
    }
    cpu.tsc_invariant = cpu.tsc_invariant.or(cpuid.tsc_invariant);
    cpu.tsc = roots
        .value::<u64>(&format!("{CPUS}/cpu0/tsc_freq_khz"))
        .map(|khz| advertised(khz * 1000, "sysfs tsc_freq_khz"))
        .or_else(|| cpuid.tsc.clone())
        .or_else(|| bogus_mips(&info));
    cpu.base = base(roots)
        .or_else(|| cpuid.base.clone())
        .or_else(|| named_clock(&cpu));
    cpu.max = roots
        .value::<u64>(&format!("{CPUS}/cpu0/cpufreq/cpuinfo_max_freq"))
        .map(|khz| advertised(khz * 1000, "cpufreq cpuinfo_max_freq"))
        .or_else(|| cpuid.max.clone());
    cpu.vulnerabilities = vulnerabilities(roots);
    cpu
}

/// Who the first processor says that it is.
fn identity(info: &str) -> Cpu {
    let first = info.split("\n\n").next().unwrap_or("");
    let text = |name| {
        field(first, name, ':')
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
    };
    let number = |name| text(name)?.parse().ok();
    let hexadecimal = |name| {
        let value = text(name)?;
        u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()
    };
    let flags = flags(
        &text("flags")
            .or_else(|| text("Features"))
            .unwrap_or_default(),
    );
    if let (Some(implementer), Some(part)) =
        (hexadecimal("CPU implementer"), hexadecimal("CPU part"))
    {
        return Cpu {
            vendor: Some(arm_implementer(implementer)),
            model_name: text("model name").or_else(|| arm_part(implementer, part)),
            model: Some(part),
            stepping: number("CPU revision"),
            // The generic timer runs at one rate by definition (Arm ARM, section D12).
            tsc_invariant: Some(true),
            flags,
            ..Cpu::default()
        };
    }
    let all_flags = text("flags").unwrap_or_default();
    let has = |flag: &str| is_word_of(&all_flags, flag);
    Cpu {
        vendor: text("vendor_id"),
        model_name: text("model name"),
        family: number("cpu family"),
        model: number("model"),
        stepping: number("stepping"),
        microcode: text("microcode"),
        tsc_invariant: (!all_flags.is_empty()).then(|| has("constant_tsc") && has("nonstop_tsc")),
        flags,
        ..Cpu::default()
    }
}

fn flags(all: &str) -> Vec<String> {
    FLAGS
        .split_whitespace()
        .filter(|flag| is_word_of(all, flag))
        .map(str::to_owned)
        .collect()
}

/// The distinct sets of processors that a topology file tells, by the first of its names that is
/// there.
fn groups(roots: &Roots, online: &CpuSet, files: &[&str]) -> Vec<CpuSet> {
    let mut seen = CpuSet::default();
    let mut groups = Vec::new();
    for cpu in online.iter() {
        if seen.contains(cpu) {
            continue;
        }
        let group = files
            .iter()
            .map(|file| roots.set(&format!("{CPUS}/cpu{cpu}/topology/{file}")))
            .find(|group| !group.is_empty());
        if let Some(group) = group {
            seen.extend(&group);
            groups.push(group);
        }
    }
    groups
}

/// The kinds of cores where there are several: Intel's from the names of their performance
/// monitoring units, others' from part number and capacity.
fn core_kinds(roots: &Roots, online: &CpuSet) -> Vec<CoreKind> {
    let intel: Vec<CoreKind> = ["core", "atom", "lowpower"]
        .iter()
        .filter_map(|name| {
            let unit = format!("cpu_{name}");
            let cpus = roots.set(&format!("/sys/bus/event_source/devices/{unit}/cpus"));
            let capacity = roots.value(&format!("{CPUS}/cpu{}/cpu_capacity", cpus.first()?));
            let performance_unit = Some(unit);
            Some(CoreKind {
                name: (*name).to_owned(),
                cpus,
                performance_unit,
                capacity,
            })
        })
        .collect();
    if intel.len() > 1 {
        return intel;
    }
    let mut kinds: BTreeMap<(Option<u64>, Option<u32>), CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}");
        let identification = roots
            .text(&format!("{folder}/regs/identification/midr_el1"))
            .and_then(|text| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok());
        let capacity = roots.value(&format!("{folder}/cpu_capacity"));
        let kind = kinds.entry((identification, capacity)).or_default();
        kind.extend(&CpuSet::from_iter([cpu]));
    }
    if kinds.len() < 2 {
        return Vec::new();
    }
    let units = performance_units_of(roots);
    kinds
        .into_iter()
        .rev()
        .map(|((identification, capacity), cpus)| CoreKind {
            name: identification
                .and_then(part_of)
                .or_else(|| Some(format!("capacity {}", capacity?)))
                .unwrap_or_else(|| "unnamed".to_owned()),
            performance_unit: units
                .iter()
                .find(|(_, counted)| cpus.iter().all(|cpu| counted.contains(cpu)))
                .map(|(unit, _)| unit.clone()),
            cpus,
            capacity,
        })
        .collect()
}

/// The units that count on cores, and on which: they say so in a file `cpus`, unlike those beside
/// the cores, which have a `cpumask`.
fn performance_units_of(roots: &Roots) -> Vec<(String, CpuSet)> {
    let folder = "/sys/bus/event_source/devices";
    roots
        .names(folder)
        .into_iter()
        .map(|unit| {
            let cpus = roots.set(&format!("{folder}/{unit}/cpus"));
            (unit, cpus)
        })
        .filter(|(_, cpus)| !cpus.is_empty())
        .collect()
}

/// The part that an aarch64 main identification register names: implementer in bits 31 to 24, part
/// in bits 15 to 4. Source: Arm ARM, MIDR_EL1.
fn part_of(identification: u64) -> Option<String> {
    let implementer = ((identification >> 24) & 0xff) as u32;
    let part = ((identification >> 4) & 0xfff) as u32;
    Some(arm_part(implementer, part).unwrap_or_else(|| format!("part {implementer:#x}/{part:#x}")))
}

fn arm_implementer(implementer: u32) -> String {
    let name = match implementer {
        0x41 => "ARM",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        other => return format!("implementer {other:#x}"),
    };
    name.to_owned()
}

/// The parts that one meets in servers and boards. Source: the kernel's
/// `arch/arm64/include/asm/cputype.h`.
fn arm_part(implementer: u32, part: u32) -> Option<String> {
    let name = match (implementer, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse-N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd40) => "Neoverse-V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd49) => "Neoverse-N2",
        (0x41, 0xd4f) => "Neoverse-V2",
        (0x41, 0xd84) => "Neoverse-V3",
        (0x41, 0xd8e) => "Neoverse-N3",
        (0x61, 0x22) => "Apple M1 Icestorm",
        (0x61, 0x23) => "Apple M1 Firestorm",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1A",
        _ => return None,
    };
    Some(name.to_owned())
}

fn advertised(hz: u64, source: &str) -> Advertised {
    Advertised {
        hz,
        source: source.to_owned(),
    }
}

/// The kernel's delay loop counts TSC ticks (aarch64: ticks of the generic timer), and prints twice
/// their rate. Source: `tsc_init` in arch/x86/kernel/tsc.c, `time_init` in arch/arm64/kernel/time.c.
fn bogus_mips(info: &str) -> Option<Advertised> {
    let text = field(info, "bogomips", ':').or_else(|| field(info, "BogoMIPS", ':'))?;
    let millions: f64 = text.parse().ok()?;
    let hz = millions / 2.0 * 1e6;
    (1e6..1e11)
        .contains(&hz)
        .then(|| advertised(hz as u64, "half of BogoMIPS"))
}

fn base(roots: &Roots) -> Option<Advertised> {
    let cpufreq = roots
        .value::<u64>(&format!("{CPUS}/cpu0/cpufreq/base_frequency"))
        .map(|khz| advertised(khz * 1000, "cpufreq base_frequency"));
    cpufreq.or_else(|| {
        let mhz: u64 = roots.value(&format!("{CPUS}/cpu0/acpi_cppc/nominal_freq"))?;
        (mhz > 0).then(|| advertised(mhz * 1_000_000, "ACPI CPPC nominal_freq"))
    })
}

/// `Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz`.
fn named_clock(cpu: &Cpu) -> Option<Advertised> {
    let (_, clock) = cpu.model_name.as_ref()?.rsplit_once('@')?;
    let ghz: f64 = clock.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (ghz > 0.0 && ghz < 100.0).then(|| advertised((ghz * 1e9).round() as u64, "model name"))
}

fn vulnerabilities(roots: &Roots) -> BTreeMap<String, String> {
    let folder = format!("{CPUS}/vulnerabilities");
    let names = roots.names(&folder);
    let told = |name: String| Some((name.clone(), roots.text(&format!("{folder}/{name}"))?));
    names.into_iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_clocks_come_from_where_they_are_printed() {
        let cpu = identity("model name\t: Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz\n");
        assert_eq!(named_clock(&cpu).unwrap().hz, 2_400_000_000);
        assert_eq!(
            bogus_mips("bogomips\t: 5192.26\n").unwrap().hz,
            2_596_130_000
        );
        assert_eq!(bogus_mips("BogoMIPS\t: 108.00\n").unwrap().hz, 54_000_000);
        assert_eq!(bogus_mips("bogomips : NaN"), None);
        assert_eq!(named_clock(&identity("model name : @ GHz")), None);
    }

    #[test]
    fn an_unknown_part_is_told_by_its_number() {
        assert_eq!(part_of(0x410f_d083).as_deref(), Some("Cortex-A72"));
        assert_eq!(part_of(0x7700_1230).as_deref(), Some("part 0x77/0x123"));
    }
}
