//! What the CPUID instruction reports, for facts that the kernel's files do not give.
//!
//! Each CPUID exits to the hypervisor, which takes microseconds. So it is read once per gathering
//! of facts, and never during a measurement. Source: Intel SDM volume 2A "CPUID"; AMD APM volume 3
//! appendix E.

use costof_model::facts::{Advertised, Cache};

/// The leaves that matter here, as plain data; empty if the CPU has no CPUID.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cpuid {
    /// The name in leaf 40000000h.
    pub(super) hypervisor: Option<String>,
    /// Leaf 80000007h, EDX bit 8.
    pub(super) tsc_invariant: Option<bool>,
    /// Leaf 15h, or the hypervisor's 40000010h.
    pub(super) tsc: Option<Advertised>,
    /// Leaf 16h.
    pub(super) base: Option<Advertised>,
    /// Leaf 16h.
    pub(super) max: Option<Advertised>,
    /// Leaf 4 or 8000001Dh, of the CPU on which this ran.
    pub(super) caches: Vec<Cache>,
}

#[cfg(not(target_arch = "x86_64"))]
impl Cpuid {
    /// Empty: only x86 has the instruction.
    pub(super) fn read() -> Self {
        Self::default()
    }
}

#[cfg(target_arch = "x86_64")]
impl Cpuid {
    /// Queries the CPU on which this runs.
    pub(super) fn read() -> Self {
        let cpuid = raw_cpuid::CpuId::new();
        let hypervisor = cpuid.get_hypervisor_info();
        let advertised = |hz: u64, source: &str| {
            (hz > 0).then(|| Advertised {
                hz,
                source: source.to_owned(),
            })
        };
        let frequency = cpuid.get_processor_frequency_info();
        let mhz = |mhz: u16| advertised(u64::from(mhz) * 1_000_000, "CPUID leaf 16h");
        Self {
            tsc_invariant: cpuid
                .get_advanced_power_mgmt_info()
                .map(|power| power.has_invariant_tsc()),
            tsc: cpuid
                .get_tsc_info()
                .and_then(|tsc| advertised(tsc.tsc_frequency()?, "CPUID leaf 15h"))
                .or_else(|| {
                    let khz = hypervisor.as_ref()?.tsc_frequency()?;
                    advertised(u64::from(khz) * 1000, "CPUID leaf 40000010h")
                }),
            base: frequency
                .as_ref()
                .and_then(|clock| mhz(clock.processor_base_frequency())),
            max: frequency
                .as_ref()
                .and_then(|clock| mhz(clock.processor_max_frequency())),
            caches: caches(&cpuid),
            hypervisor: hypervisor.map(|hypervisor| name(&hypervisor.identify())),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn name(hypervisor: &raw_cpuid::Hypervisor) -> String {
    use raw_cpuid::Hypervisor;
    match hypervisor {
        Hypervisor::KVM => "KVM".to_owned(),
        Hypervisor::VMware => "VMware".to_owned(),
        Hypervisor::HyperV => "Hyper-V".to_owned(),
        Hypervisor::Xen => "Xen".to_owned(),
        Hypervisor::Bhyve => "bhyve".to_owned(),
        Hypervisor::QEMU => "QEMU without KVM".to_owned(),
        Hypervisor::QNX => "QNX".to_owned(),
        Hypervisor::ACRN => "ACRN".to_owned(),
        Hypervisor::Unknown(b, c, d) => {
            let letters: Vec<u8> = [b, c, d]
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            let name = String::from_utf8_lossy(&letters);
            name.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace())
                .to_owned()
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn caches(cpuid: &raw_cpuid::CpuId<raw_cpuid::CpuIdReaderNative>) -> Vec<Cache> {
    use costof_model::facts::{CacheKind, CacheSource};
    use raw_cpuid::CacheType;
    let Some(caches) = cpuid.get_cache_parameters() else {
        return Vec::new();
    };
    let small = |count: usize| u32::try_from(count).ok();
    caches
        .map(|cache| Cache {
            level: u32::from(cache.level()),
            kind: match cache.cache_type() {
                CacheType::Data => CacheKind::Data,
                CacheType::Instruction => CacheKind::Instruction,
                CacheType::Unified => CacheKind::Unified,
                _ => CacheKind::Unknown,
            },
            size_bytes: [
                cache.associativity(),
                cache.physical_line_partitions(),
                cache.coherency_line_size(),
                cache.sets(),
            ]
            .iter()
            .fold(1u64, |size, &factor| size.saturating_mul(factor as u64)),
            line_bytes: small(cache.coherency_line_size()),
            ways: small(cache.associativity()),
            shared_by: Vec::new(),
            source: CacheSource::Cpuid,
        })
        .collect()
}
