//! What the CPUID instruction reports, for facts that the kernel's files do not give.
//!
//! Each CPUID exits to the hypervisor, which takes microseconds. So it is read once per gathering
//! of facts, and never during a measurement. Source: Intel SDM volume 2A "CPUID"; AMD APM volume 3
//! appendix E.

use costof_model::facts::{Advertised, Cache};
#[cfg(target_arch = "x86_64")]
use raw_cpuid::{CpuId, CpuIdReader};

/// The leaves that matter here, as plain data; empty if the CPU has no CPUID.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cpuid {
    /// Leaf 0.
    pub(super) vendor: Option<String>,
    /// Leaves 80000002h to 80000004h, spelt as the kernel does, with single blanks.
    pub(super) model_name: Option<String>,
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
        Self::read_from(&CpuId::new())
    }

    fn read_from<R: CpuIdReader>(cpuid: &CpuId<R>) -> Self {
        let hypervisor = cpuid.get_hypervisor_info();
        let advertised =
            |hz: u64, source: &str| (hz > 0).then(|| Advertised { hz, source: source.to_owned() });
        let frequency = cpuid.get_processor_frequency_info();
        let mhz = |mhz: u16| advertised(u64::from(mhz) * 1_000_000, "CPUID leaf 16h");
        let brand = cpuid.get_processor_brand_string();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            vendor: (cpuid.get_vendor_info())
                .map(|vendor| vendor.as_str().trim_matches('\0').to_owned())
                .filter(|vendor| !vendor.is_empty()),
            model_name: (brand.map(|brand| words(brand.as_str()))).filter(|name| !name.is_empty()),
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
            base: frequency.as_ref().and_then(|clock| mhz(clock.processor_base_frequency())),
            max: frequency.as_ref().and_then(|clock| mhz(clock.processor_max_frequency())),
            caches: caches(cpuid),
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
            let letters: Vec<u8> = [b, c, d].iter().flat_map(|word| word.to_le_bytes()).collect();
            let name = String::from_utf8_lossy(&letters);
            name.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace()).to_owned()
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn caches<R: CpuIdReader>(cpuid: &CpuId<R>) -> Vec<Cache> {
    use costof_model::facts::{CacheKind, CacheSource};
    use raw_cpuid::CacheType;
    let Some(caches) = cpuid.get_cache_parameters() else {
        return Vec::new();
    };
    let small = |count: usize| u32::try_from(count).ok();
    caches
        // No CPU has as many; a hypervisor that answers each subleaf alike would never end.
        .take(16)
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

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use raw_cpuid::CpuIdResult;

    /// What a CPU answers, by lines of LEAF.SUBLEAF EAX EBX ECX EDX; zeros to what is not there.
    fn answering(text: &'static str) -> Cpuid {
        let answer = move |leaf: u32, subleaf: u32| {
            let asked = format!("{leaf:x}.{subleaf:x} ");
            let any = format!("{leaf:x}.* ");
            let mut lines = text.lines().map(str::trim);
            let found = lines
                .find_map(|line| line.strip_prefix(&asked).or_else(|| line.strip_prefix(&any)));
            let mut registers = found
                .unwrap_or("0 0 0 0")
                .split(' ')
                .map(|register| u32::from_str_radix(register, 16).unwrap());
            let mut next = || registers.next().unwrap();
            CpuIdResult { eax: next(), ebx: next(), ecx: next(), edx: next() }
        };
        Cpuid::read_from(&CpuId::with_cpuid_reader(answer))
    }

    fn caches_of(cpuid: &Cpuid) -> Vec<(u32, u64, u32)> {
        let caches = cpuid.caches.iter();
        caches.map(|cache| (cache.level, cache.size_bytes >> 10, cache.ways.unwrap())).collect()
    }

    /// Recorded on a Xeon of the fifth generation, under KVM, which answers neither leaf 15h nor 16h.
    #[test]
    fn a_server_under_kvm() {
        let cpuid = answering(
            "0.0 0000001c 756e6547 6c65746e 49656e69
            1.0 000c06f2 01020800 fffa3203 1f8bfbff
            4.0 04000121 02c0003f 0000003f 00000000
            4.1 04000122 01c0003f 0000003f 00000000
            4.2 04000143 03c0003f 000007ff 00000000
            4.3 04004163 04c0003f 00033fff 00000000
            40000000.0 40000001 4b4d564b 564b4d56 0000004d
            40000001.0 01007efb 00000000 00000000 00000000
            80000000.0 80000021 00000000 00000000 00000000
            80000007.0 00000000 00000000 00000000 00000100",
        );
        assert_eq!(cpuid.hypervisor.as_deref(), Some("KVM"));
        assert_eq!(cpuid.tsc_invariant, Some(true));
        assert_eq!((cpuid.tsc.clone(), cpuid.base.clone()), (None, None));
        let expected = [(1, 48, 12), (1, 32, 8), (2, 2048, 16), (3, 260 << 10, 20)];
        assert_eq!(caches_of(&cpuid), expected);
    }

    /// As Intel's manual encodes what a hybrid desktop has: a crystal of 38.4 MHz, 3.2 to 5.2 GHz.
    #[test]
    fn a_hybrid_desktop_without_a_hypervisor() {
        let cpuid = answering(
            "0.0 20 756e6547 6c65746e 49656e69
            1.0 90672 100800 7ffafbbf bfebfbff
            4.0 fc004121 2c0003f 3f 0
            4.1 fc004122 1c0003f 3f 0
            4.2 fc01c143 240003f 7ff 0
            4.3 fc1fc163 2c0003f 9fff 4
            15.0 2 a6 249f000 0
            16.0 c80 1450 64 0
            80000000.0 80000008 0 0 0
            80000007.0 0 0 0 100",
        );
        assert_eq!(cpuid.hypervisor, None);
        let hz = |clock: &Option<Advertised>| clock.as_ref().map(|clock| clock.hz);
        assert_eq!(hz(&cpuid.tsc), Some(3_187_200_000));
        assert_eq!(hz(&cpuid.base), Some(3_200_000_000));
        assert_eq!(hz(&cpuid.max), Some(5_200_000_000));
        let expected = [(1, 48, 12), (1, 32, 8), (2, 1280, 10), (3, 30 << 10, 12)];
        assert_eq!(caches_of(&cpuid), expected);
    }

    /// As AMD's manual encodes a server of the fourth generation, and VMware its clock: leaf 4 is reserved.
    #[test]
    fn an_amd_server_under_vmware() {
        let cpuid = answering(
            "0.0 10 68747541 444d4163 69746e65
            1.0 a10f11 800800 fed83203 178bfbff
            4.0 121 1c0003f 3f 0
            40000000.0 40000010 61774d56 4d566572 65726177
            40000010.0 248906 101d0 0 0
            80000000.0 80000028 68747541 444d4163 69746e65
            80000007.0 0 0 0 100
            8000001d.0 4121 1c0003f 3f 0
            8000001d.1 4122 1c0003f 3f 0
            8000001d.2 4143 1c0003f 7ff 2
            8000001d.3 3c163 3c0003f 7fff 1",
        );
        assert_eq!(cpuid.hypervisor.as_deref(), Some("VMware"));
        let tsc = cpuid.tsc.clone().unwrap();
        assert_eq!((tsc.hz, &*tsc.source), (2_394_374_000, "CPUID leaf 40000010h"));
        let expected = [(1, 32, 8), (1, 32, 8), (2, 1024, 8), (3, 32 << 10, 16)];
        assert_eq!(caches_of(&cpuid), expected);
    }

    #[test]
    fn what_answers_little_or_without_end() {
        assert_eq!(answering(""), Cpuid::default());
        // A ratio without the crystal's frequency, and frequencies of zero.
        let ratio = "0.0 16 756e6547 6c65746e 49656e69\n15.0 2 12c 0 0\n80000000.0 80000008 0 0 0";
        let cpuid = answering(ratio);
        assert_eq!((cpuid.tsc, cpuid.base, cpuid.max), (None, None, None));
        assert_eq!(cpuid.tsc_invariant, Some(false));
        let endless = "0.0 16 756e6547 6c65746e 49656e69\n4.* 121 1c0003f 3f 0";
        assert_eq!(answering(endless).caches.len(), 16);
    }
}
