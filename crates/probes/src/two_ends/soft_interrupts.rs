//! Soft interrupts on the ends' CPUs, each counted once.

use crate::prelude::*;
use costof_exchange::progress::windows::KIB;
use costof_measure::processor_ticks::{self, TICK_NS, Ticks};
use std::collections::BTreeSet;

/// The offer in which the receiver lists the CPUs whose soft interrupts it counts.
pub(crate) const COUNTED: &str = "counted";

pub(crate) fn listed(cpus: &BTreeSet<usize>) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(",")
}

/// The CPUs whose soft interrupts the sender counts: those that it uses, except those that a
/// receiver on the same machine counts. None if no CPU is left.
pub(crate) fn left_to_count(
    mut used: BTreeSet<usize>,
    offers: &Offers,
    apart: bool,
) -> Option<Vec<usize>> {
    if apart {
        return Some(used.into_iter().collect());
    }
    let counted = offers.get(COUNTED).map_or("", String::as_str);
    for cpu in counted.split(',').filter_map(|cpu| cpu.parse().ok()) {
        used.remove(&cpu);
    }
    (!counted.is_empty() && !used.is_empty()).then(|| used.into_iter().collect())
}

/// The soft interrupts of a role's CPUs.
pub(crate) struct SoftInterrupts {
    cpus: Vec<usize>,
    before: Option<Vec<Ticks>>,
}

impl SoftInterrupts {
    pub(crate) fn watch(cpus: Vec<usize>) -> SoftInterrupts {
        SoftInterrupts { cpus, before: processor_ticks::read().ok() }
    }

    /// Reports them per KiB of `bytes`, if the kernel counts them.
    pub(crate) fn report(&self, bytes: u64, meter: &mut Meter<'_>) {
        let (Some(before), Ok(after)) = (&self.before, processor_ticks::read()) else {
            return;
        };
        let spent = processor_ticks::difference(before, &after);
        let is_own = |ticks: &&Ticks| self.cpus.is_empty() || self.cpus.contains(&ticks.cpu);
        let own: Vec<&Ticks> = spent.iter().filter(is_own).collect();
        if bytes > 0 && own.len() >= self.cpus.len().max(1) {
            let tick_ns_per_kib = TICK_NS / (bytes as f64 / KIB);
            let ticks: u64 = own.iter().map(|ticks| ticks.softirq).sum();
            meter.value("softirq", ticks as f64 * tick_ns_per_kib);
            meter.value("softirq_error", own.len() as f64 * tick_ns_per_kib);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_ends::flows::tests::processors;

    #[test]
    fn soft_interrupts_of_a_processor_are_counted_at_one_end() {
        let left = |own: &[usize], others: &[usize], apart: bool, flows: usize| {
            let counted = processors(others, apart).used(flows);
            let offers = Offers::from([(COUNTED.into(), listed(&counted))]);
            left_to_count(processors(own, apart).used(flows), &offers, apart)
        };
        assert_eq!(left(&[4, 5, 6, 7], &[5, 6, 7, 4], false, 2), Some(vec![4, 6]));
        // An odd number of CPUs, of which both ends use some, or all.
        assert_eq!(left(&[0, 1, 2], &[1, 2, 0], false, 2), Some(vec![2]));
        assert_eq!(left(&[0, 1, 2], &[1, 2, 0], false, 3), None);
        assert_eq!(left(&[9], &[9], false, 1), None);
        // Without CPUs of its own, an end counts all of the machine's.
        assert_eq!(left(&[], &[], false, 1), None);
        assert_eq!(left(&[3], &[], false, 1), None);
        // Equal numbers on two machines are different CPUs.
        assert_eq!(left(&[0, 1], &[0, 1], true, 2), Some(vec![0, 1]));
        assert_eq!(left(&[], &[], true, 2), Some(vec![]));
    }
}
