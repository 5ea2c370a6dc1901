//! The CPUs: `/proc/cpuinfo` and `/sys/devices/system/cpu`.
//! Source: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst,
//! Documentation/arch/arm64/cpu-feature-registers.rst.

use std::collections::BTreeMap;

use costof_model::CpuSet;
use costof_model::facts::{Advertised, CoreKind, Cpu};

use super::caches;
use super::cpuid::Cpuid;
use super::folder::{Folder, field, is_word_of};

/// Where the kernel describes the CPUs.
const CPUS: &str = "/sys/devices/system/cpu";
/// Where the kernel describes its performance monitoring units.
const UNITS: &str = "/sys/bus/event_source/devices";

/// Enough of `/proc/cpuinfo` for the first CPUs. For each further CPU, old kernels send an
/// interrupt to ask for its clock.
const CPUINFO_BYTES: u64 = 16 << 10;

/// Extensions and properties that change costs, or which instructions can be measured.
const FLAGS: &str = "\
    sse4_2 popcnt aes avx avx2 avx512f avx512bw avx512vl avx512_vnni avx_vnni avx10 amx_tile bmi2 sha_ni \
    vpclmulqdq clflushopt clwb clzero erms fsrm fzrm fsrs movdiri movdir64b constant_tsc \
    nonstop_tsc tsc_known_freq tsc_reliable tsc_deadline_timer rdtscp rdpid rdpru aperfmperf hwp \
    ida cpb arat monitor mwaitx waitpkg pcid invpcid invlpgb pdpe1gb la57 smap fred pti ibrs \
    ibrs_enhanced ibpb stibp arch_perfmon perfctr_core perfmon_v2 hypervisor \
    asimd atomics crc32 dcpop ecv lrcpc mops sha2 sve sve2 wfxt";

/// Everything about the CPUs.
pub(super) fn cpu(root: &Folder, cpuid: &Cpuid) -> Cpu {
    let info = root.start("/proc/cpuinfo", CPUINFO_BYTES).unwrap_or_default();
    let folder = root.folder(CPUS);
    let cpu0 = folder.folder("cpu0");
    let khz = |file: &str, source| Some(advertised(cpu0.scaled(file, 1000)?, source));
    let count = |len: usize| u32::try_from(len).ok().filter(|&count| count > 0);
    let mut cpu = identity(&info);
    cpu.vendor = cpu.vendor.or_else(|| cpuid.vendor.clone());
    cpu.model_name = cpu.model_name.or_else(|| cpuid.model_name.clone());
    cpu.online = folder.set("online");
    cpu.smt_active = folder.flag("smt/active");
    cpu.smt_control = folder.text("smt/control");
    cpu.cores = groups(&folder, &cpu.online, "core_cpus_list", "thread_siblings_list");
    cpu.sockets = groups(&folder, &cpu.online, "package_cpus_list", "core_siblings_list");
    cpu.logical_count = count(cpu.online.len());
    cpu.physical_count = count(cpu.cores.len());
    cpu.socket_count = count(cpu.sockets.len());
    cpu.core_kinds = core_kinds(root, &cpu.online);
    cpu.caches = caches::caches(root, &cpu.online);
    if cpu.caches.is_empty() {
        cpu.caches = cpuid.caches.clone();
    }
    cpu.tsc_invariant = cpu.tsc_invariant.or(cpuid.tsc_invariant);
    cpu.tsc = khz("tsc_freq_khz", "sysfs tsc_freq_khz")
        .or_else(|| cpuid.tsc.clone())
        .or_else(|| bogus_mips(&info));
    cpu.base = khz("cpufreq/base_frequency", "cpufreq base_frequency")
        .or_else(|| nominal(&cpu0))
        .or_else(|| cpuid.base.clone())
        .or_else(|| named_clock(&cpu));
    cpu.max =
        khz("cpufreq/cpuinfo_max_freq", "cpufreq cpuinfo_max_freq").or_else(|| cpuid.max.clone());
    cpu.vulnerabilities = vulnerabilities(&folder.folder("vulnerabilities"));
    cpu
}

/// The identity of the first CPU.
fn identity(info: &str) -> Cpu {
    let first = info.split("\n\n").next().unwrap_or("");
    let text = |name| field(first, name, ':').filter(|value| !value.is_empty()).map(str::to_owned);
    let number = |name| text(name)?.parse().ok();
    let arm = |name| u32::try_from(hexadecimal(&text(name)?)?).ok();
    let flags = flags(&text("flags").or_else(|| text("Features")).unwrap_or_default());
    if let (Some(implementer), Some(part)) = (arm("CPU implementer"), arm("CPU part")) {
        return Cpu {
            vendor: Some(arm_implementer(implementer)),
            model_name: text("model name").or_else(|| arm_part(implementer, part)),
            model: Some(part),
            stepping: number("CPU revision"),
            // The generic timer runs at a constant rate by definition (Arm ARM, section D12).
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
    FLAGS.split_whitespace().filter(|flag| is_word_of(all, flag)).map(str::to_owned).collect()
}

/// The distinct sets of CPUs in a topology file, or in the file with its name on older kernels.
fn groups(cpus: &Folder, online: &CpuSet, file: &str, older: &str) -> Vec<CpuSet> {
    let mut seen = CpuSet::default();
    let mut groups = Vec::new();
    for cpu in online.iter() {
        if seen.contains(cpu) {
            continue;
        }
        let topology = cpus.folder(&format!("cpu{cpu}/topology"));
        let group = [file, older].map(|file| topology.set(file));
        if let Some(group) = group.into_iter().find(|group| !group.is_empty()) {
            seen.extend(&group);
            groups.push(group);
        }
    }
    groups
}

/// The kinds of cores, if there are several: on Intel from the names of their performance
/// monitoring units, on others from part number and capacity.
fn core_kinds(root: &Folder, online: &CpuSet) -> Vec<CoreKind> {
    let intel = ["core", "atom", "lowpower"].map(|name| intel_kind(root, name));
    let intel: Vec<CoreKind> = intel.into_iter().flatten().collect();
    if intel.len() > 1 {
        return intel;
    }
    let mut kinds: BTreeMap<(Option<u64>, Option<u32>), CpuSet> = BTreeMap::new();
    for cpu in online.iter() {
        let folder = root.folder(&format!("{CPUS}/cpu{cpu}"));
        let identification =
            folder.text("regs/identification/midr_el1").and_then(|text| hexadecimal(&text));
        let kind = (identification, folder.value("cpu_capacity"));
        let cpus = kinds.entry(kind).or_default();
        cpus.extend(&CpuSet::from_iter([cpu]));
    }
    if kinds.len() < 2 {
        return Vec::new();
    }
    let kinds = kinds.into_iter().rev();
    kinds
        .map(|((identification, capacity), cpus)| CoreKind {
            name: identification
                .and_then(part_of)
                .or_else(|| Some(format!("capacity {}", capacity?)))
                .unwrap_or_else(|| "unnamed".to_owned()),
            cpus,
            capacity,
        })
        .collect()
}

fn intel_kind(root: &Folder, name: &str) -> Option<CoreKind> {
    let cpus = root.set(&format!("{UNITS}/cpu_{name}/cpus"));
    let capacity = root.value(&format!("{CPUS}/cpu{}/cpu_capacity", cpus.first()?));
    Some(CoreKind { name: name.to_owned(), cpus, capacity })
}

/// `0x41`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The part in an aarch64 main identification register: the implementer in bits 31 to 24, the part
/// number in bits 15 to 4. Source: Arm ARM, MIDR_EL1.
fn part_of(identification: u64) -> Option<String> {
    let implementer = ((identification >> 24) & 0xff) as u32;
    let part = ((identification >> 4) & 0xfff) as u32;
    Some(arm_part(implementer, part).unwrap_or_else(|| format!("part {implementer:#x}/{part:#x}")))
}

fn arm_implementer(implementer: u32) -> String {
    arm_name(&format!("{implementer:#x}"))
        .unwrap_or_else(|| format!("implementer {implementer:#x}"))
}

fn arm_part(implementer: u32, part: u32) -> Option<String> {
    arm_name(&format!("{implementer:#x}/{part:#x}"))
}

/// Of an implementer, or of a part that is common in servers and boards. Source: the kernel's
/// `arch/arm64/include/asm/cputype.h`.
fn arm_name(number: &str) -> Option<String> {
    let mut names = include_str!("arm.txt").lines().filter_map(|line| line.split_once(' '));
    names.find(|(known, _)| *known == number).map(|(_, name)| name.to_owned())
}

fn advertised(hz: u64, source: &str) -> Advertised {
    Advertised { hz, source: source.to_owned() }
}

/// The kernel's delay loop counts TSC ticks (on aarch64 ticks of the generic timer), and the kernel
/// prints twice their rate. Source: `tsc_init` in arch/x86/kernel/tsc.c, `time_init` in
/// arch/arm64/kernel/time.c.
fn bogus_mips(info: &str) -> Option<Advertised> {
    let text = field(info, "bogomips", ':').or_else(|| field(info, "BogoMIPS", ':'))?;
    let millions: f64 = text.parse().ok()?;
    let hz = millions / 2.0 * 1e6;
    (1e6..1e11).contains(&hz).then(|| advertised(hz as u64, "half of BogoMIPS"))
}

fn nominal(cpu: &Folder) -> Option<Advertised> {
    let hz = cpu.scaled("acpi_cppc/nominal_freq", 1_000_000)?;
    (hz > 0).then(|| advertised(hz, "ACPI CPPC nominal_freq"))
}

/// `Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz`.
fn named_clock(cpu: &Cpu) -> Option<Advertised> {
    let (_, clock) = cpu.model_name.as_ref()?.rsplit_once('@')?;
    let ghz: f64 = clock.trim().strip_suffix("GHz")?.trim().parse().ok()?;
    (ghz > 0.0 && ghz < 100.0).then(|| advertised((ghz * 1e9).round() as u64, "model name"))
}

fn vulnerabilities(folder: &Folder) -> BTreeMap<String, String> {
    let names = folder.names().into_iter();
    let state = |name: String| folder.text(&name).map(|state| (name, state));
    names.filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_clocks_come_from_where_they_are_printed() {
        let cpu = identity("model name\t: Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz\n");
        assert_eq!(named_clock(&cpu).unwrap().hz, 2_400_000_000);
        assert_eq!(bogus_mips("bogomips\t: 5192.26\n").unwrap().hz, 2_596_130_000);
        assert_eq!(bogus_mips("BogoMIPS\t: 108.00\n").unwrap().hz, 54_000_000);
        assert_eq!(bogus_mips("bogomips : NaN"), None);
        assert_eq!(named_clock(&identity("model name : @ GHz")), None);
    }

    #[test]
    fn an_unknown_part_has_its_number() {
        assert_eq!(part_of(0x410f_d083).as_deref(), Some("Cortex-A72"));
        assert_eq!(part_of(0x7700_1230).as_deref(), Some("part 0x77/0x123"));
    }
}
