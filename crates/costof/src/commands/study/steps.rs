//! Values of an axis in equal steps, up to what memory can hold of files and beyond it.

use costof_model::unit::parse_bytes;
use costof_model::{Facts, display_bytes};

/// At most so many steps: a step doubles until they suffice.
const STEPS: u64 = 24;
/// How far beyond what memory can hold they go, as a share of it: from there on nothing comes from memory.
const BEYOND: f64 = 1.15;
/// Where memory can hold more, no steps are measured: their files would take hours.
const MEMORY_MAX_BYTES: u64 = 32 << 30;

/// The setting that `AXIS=STEP` stands for on a machine with these facts; none on one whose memory is unknown
/// or too large.
pub(super) fn to_memory(
    steps: &str,
    facts: &Facts,
) -> Result<Option<(String, Vec<String>)>, String> {
    let wrong = || format!("steps_to_memory: `{steps}` is not AXIS=STEP (such as size=512MiB)");
    let (axis, step) = steps.split_once('=').ok_or_else(wrong)?;
    let step = parse_bytes(step).filter(|step| *step > 0).ok_or_else(wrong)?;
    let memory = facts.most_cached_bytes();
    Ok(memory.filter(|bytes| *bytes <= MEMORY_MAX_BYTES).map(|bytes| {
        let last = (bytes as f64 * BEYOND) as u64;
        let doubled = (0..).map(|power| step << power);
        let step =
            doubled.take_while(|step| last / step >= STEPS).last().map_or(step, |step| 2 * step);
        let values = (1..=last.div_ceil(step)).map(|count| display_bytes(count * step));
        (axis.to_owned(), values.collect())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_beyond_what_memory_holds_and_are_few() {
        for (memory_mib, expected) in [
            (Some(400), Some(("512MiB", "512MiB", 1))),
            (Some(7 << 10), Some(("512MiB", "8704MiB", 17))),
            (Some(22 << 10), Some(("2GiB", "26GiB", 13))),
            (Some(32 << 10), Some(("2GiB", "38GiB", 19))),
            (Some(1 << 20), None),
            (None, None),
        ] {
            let mut facts = Facts::default();
            facts.memory.available_bytes = memory_mib.map(|mebibytes| mebibytes << 20);
            let setting = to_memory("size=512MiB", &facts).unwrap();
            let ends = setting
                .as_ref()
                .map(|(_, values)| (&*values[0], &**values.last().unwrap(), values.len()));
            assert_eq!(ends, expected, "{memory_mib:?} MiB");
        }
        for wrong in ["512MiB", "size=much", "size=0"] {
            assert!(to_memory(wrong, &Facts::default()).is_err(), "{wrong}");
        }
    }
}
