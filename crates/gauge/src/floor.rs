//! The floor: what a reading is while the core is alone.

use crate::ALONE;

/// Readings within this ratio of each other are alike.
const ALIKE: f64 = 1.02;
/// A plateau has at least this share of the readings, and at least this many: a core may be alone for
/// 2 % of the time.
const PLATEAU_SHARE: f64 = 0.02;
const PLATEAU_MIN: usize = 8;

/// The lowest value on which many readings agree (one in 50, at least 8, within 2 %): the floor, if
/// the core was alone often enough. `None` if the readings are scattered. Sorts the readings.
pub fn plateau(readings: &mut [f64]) -> Option<f64> {
    readings.sort_unstable_by(f64::total_cmp);
    let first = readings.partition_point(|x| x.total_cmp(&0.0).is_le());
    let sorted = &readings[first..];
    let wanted = ((sorted.len() as f64 * PLATEAU_SHARE) as usize).max(PLATEAU_MIN);
    let alike =
        sorted.windows(wanted).position(|window| window[wanted - 1] <= window[0] * ALIKE)?;
    Some(sorted[alike + wanted / 2])
}

/// The floor, from the plateau that was seen and the value of the design.
pub(crate) fn choose(seen: Option<f64>, design: Option<f64>) -> Option<f64> {
    let agrees =
        |seen: &f64| design.is_none_or(|design| (design / ALONE..=design * ALONE).contains(seen));
    seen.filter(agrees).or(design)
}

/// Core cycles per addition of the gauge's loop on a core of this design, while the core is alone.
/// The vendor, family and model are those of CPUID and of `/proc/cpuinfo` (`vendor_id`,
/// `cpu family`, `model`); `has_amx` is its flag `amx_tile`. `None` for a design that is not in the
/// table.
///
/// The loop has six additions, and a decrement and branch that fuse into a seventh operation; these
/// are divided by the operations per cycle. A hypervisor may report an older model than the core is,
/// but hardly instructions that it lacks: with AMX, it is a Sapphire Rapids or later.
///
/// Sources: AMD, "Software Optimization Guide" for families 17h, 19h and 1Ah (four integer units,
/// from Zen 5 on six); Intel, "Optimization Reference Manual" (four integer ports from Haswell to Ice
/// Lake, in Tiger Lake and in Rocket Lake); measured on Zen 4 (0.292) and Sapphire Rapids (0.198 to
/// 0.212, also where the hypervisor calls it Rocket Lake).
pub fn design_floor(vendor: &str, family: u32, model: u32, has_amx: bool) -> Option<f64> {
    const OPERATIONS: f64 = 7.0 / 6.0;
    const SAPPHIRE_RAPIDS: f64 = 0.205;
    match (vendor, family, model) {
        ("AuthenticAMD", 0x17 | 0x19, _) => Some(OPERATIONS / 4.0),
        ("AuthenticAMD", 0x1a, _) => Some(OPERATIONS / 6.0),
        ("GenuineIntel", 6, 0x8f | 0xcf) => Some(SAPPHIRE_RAPIDS),
        // Servers from Haswell on; then clients: Haswell and Broadwell, Skylake to Comet Lake, and Ice,
        // Tiger and Rocket Lake.
        (
            "GenuineIntel",
            6,
            0x3f | 0x4f | 0x55 | 0x6a | 0x6c | 0x3c | 0x45 | 0x46 | 0x3d | 0x47 | 0x4e | 0x5e
            | 0x8e | 0x9e | 0xa5 | 0xa6 | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7,
        ) => Some(if has_amx { SAPPHIRE_RAPIDS } else { OPERATIONS / 4.0 }),
        _ => None,
    }
}

/// The floor of the design of the core that the calling thread is on, by CPUID; `None` for one that
/// is not in the table, and on aarch64.
///
/// Executes `cpuid`, which costs microseconds in a virtual machine.
pub(crate) fn of_this_design() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        let leaf = __cpuid(0);
        // AMX-TILE: Intel SDM volume 2, CPUID leaf 7.
        let has_amx = leaf.eax >= 7 && __cpuid_count(7, 0).edx & (1 << 24) != 0;
        let mut vendor = [0; 12];
        for (bytes, register) in vendor.chunks_exact_mut(4).zip([leaf.ebx, leaf.edx, leaf.ecx]) {
            bytes.copy_from_slice(&register.to_le_bytes());
        }
        let (family, model) = family_and_model(__cpuid(1).eax);
        design_floor(core::str::from_utf8(&vendor).ok()?, family, model, has_amx)
    }
    #[cfg(target_arch = "aarch64")]
    {
        None
    }
}

/// Source: Intel SDM volume 2, CPUID, "Version Information"; AMD APM volume 3, Fn0000_0001_EAX. All
/// cores of the table have a base family of 6 or 15, for which the model is extended.
#[cfg(target_arch = "x86_64")]
fn family_and_model(signature: u32) -> (u32, u32) {
    let base = signature >> 8 & 0xf;
    let extended = if base == 0xf { signature >> 20 & 0xff } else { 0 };
    (base + extended, (signature >> 12 & 0xf0) | (signature >> 4 & 0xf))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_lowest_level_that_readings_agree_on_is_the_floor() {
        // Scattered by a multiplicative generator, so that the test needs no other crate.
        let mut seed = 5_u32;
        let mut noisy = |level: f64| {
            seed = seed.wrapping_mul(0x2c92_77b5);
            level * (1.0 + 0.01 * (f64::from(seed) / f64::from(u32::MAX) - 0.5))
        };
        let mut readings: Vec<f64> = (0..900).map(|_| noisy(0.4)).collect();
        readings.extend((0..90).map(|_| noisy(0.292)));
        readings.extend([0.001, 0.002, 0.1, 0.15, 0.2, 0.0, -1.0, f64::NAN]);
        let found = plateau(&mut readings).expect("a tenth agrees");
        assert!((found / 0.292 - 1.0).abs() < 0.01, "{found}");
        let mut scattered: Vec<f64> = (1..200).map(|i| f64::from(i) * 0.1).collect();
        assert_eq!(plateau(&mut scattered), None);
        assert_eq!(plateau(&mut []), None);
    }

    #[test]
    fn a_core_that_is_alone_for_a_fiftieth_of_the_time_has_its_floor() {
        let mut readings = std::vec![0.2036; 40];
        readings.extend((0..1960).map(|at| 0.26 + 0.14 * f64::from(at) / 1960.0));
        assert_eq!(plateau(&mut readings), Some(0.2036));
    }

    #[test]
    fn a_core_that_was_never_alone_has_the_floor_of_its_design() {
        assert_eq!(choose(Some(0.294), Some(0.292)), Some(0.294));
        assert_eq!(choose(Some(0.45), Some(0.292)), Some(0.292));
        assert_eq!(choose(Some(0.26), Some(0.292)), Some(0.292));
        assert_eq!(choose(Some(0.45), None), Some(0.45));
        assert_eq!(choose(None, Some(0.292)), Some(0.292));
        assert_eq!(choose(None, None), None);
    }

    #[test]
    fn instructions_tell_a_later_core_than_the_reported_model() {
        let four_ports = 7.0 / 6.0 / 4.0;
        for (model, has_amx, expected) in [
            (0xa7, false, Some(four_ports)),
            (0xa7, true, Some(0.205)),
            (0x8f, false, Some(0.205)),
            // Not measured.
            (0xad, true, None),
        ] {
            let floor = design_floor("GenuineIntel", 6, model, has_amx);
            assert_eq!(floor, expected, "{model:x}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_signature_names_family_and_model() {
        // Zen 4 (Genoa), Sapphire Rapids, Haswell-EP.
        assert_eq!(family_and_model(0x00a1_0f11), (0x19, 0x11));
        assert_eq!(family_and_model(0x0008_06f8), (6, 0x8f));
        assert_eq!(family_and_model(0x0003_06f2), (6, 0x3f));
    }
}
