//! Short looks at CPUs before a launch: which of them are alone, and which the machine itself uses.

use crate::gauge::{self, Reader};
use crate::processor_ticks::{self, Ticks, difference};
use costof_model::protocol::{CpuLook, Look};
use std::fs;

/// A core is alone all the time if this share of the readings say so: no need to look further.
const SURELY_ALONE: f64 = 0.9;
/// The kernel's counts say how busy a CPU was only over this many ticks.
const MIN_TICKS: u64 = 5;

/// What earlier looks have to leave to later ones.
#[derive(Default)]
pub(crate) struct Looks {
    /// The kernel's counts at an earlier look.
    before: Vec<Ticks>,
    /// What was spent between two earlier looks that were far enough apart.
    spent: Vec<Ticks>,
    reader: Option<Reader>,
}

impl Looks {
    /// Looks at CPUs one after another, half a millisecond at each, until enough of them were surely alone. Two at
    /// once could be two threads of one core that the machine does not report, and see each other. A CPU on which no
    /// thread runs soon is left out.
    pub(crate) fn look(&mut self, asked: &Look) -> Vec<CpuLook> {
        self.count(processor_ticks::read().unwrap_or_default());
        let read = self.reader.get_or_insert_with(gauge::reader);
        let mut looks: Vec<CpuLook> = Vec::new();
        for &cpu in &asked.cpus {
            let Ok(alone) = gauge::alone_at(read, cpu, asked.floor) else {
                continue;
            };
            looks.push(CpuLook { cpu, alone, busy: busy(&self.spent, cpu), max_khz: max_khz(cpu) });
            let surely = looks.iter().filter(|look| look.alone >= SURELY_ALONE);
            if surely.count() >= asked.enough {
                break;
            }
        }
        looks
    }

    /// Takes the kernel's counts of now. What was spent before stays known until enough ticks have passed since.
    fn count(&mut self, now: Vec<Ticks>) {
        let spent = difference(&self.before, &now);
        if spent.iter().all(|ticks| ticks.total >= MIN_TICKS) {
            (self.before, self.spent) = (now, spent);
        }
    }
}

fn busy(spent: &[Ticks], cpu: usize) -> Option<f64> {
    let ticks = spent.iter().find(|ticks| ticks.cpu == cpu)?;
    (ticks.total >= MIN_TICKS).then(|| ticks.busy as f64 / ticks.total as f64)
}

/// Source: Documentation/admin-guide/pm/cpufreq.rst.
fn max_khz(cpu: usize) -> Option<u64> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_os::sched::affinity;

    #[test]
    fn each_cpu_is_looked_at_once_and_none_after_enough() {
        let cpus = affinity::allowed().unwrap();
        let asked = |enough| Look {
            cpus: [&cpus[..], &[usize::MAX]].concat(),
            enough,
            // Nothing is as slow as this floor, so no core is ever alone.
            floor: 1e9,
        };
        let looks = Looks::default().look(&asked(1));
        let looked: Vec<usize> = looks.iter().map(|look| look.cpu).collect();
        // One on which no thread runs soon is left out.
        let mut left = cpus.iter();
        assert!(looked.iter().all(|cpu| left.any(|left| left == cpu)), "{looked:?}");
        let is_unknown = |look: &CpuLook| look.alone <= 0.0 && look.busy.is_none();
        assert!(looks.iter().all(is_unknown), "{looks:?}");
        assert!(Looks::default().look(&asked(0)).len() <= 1);
    }

    #[test]
    fn how_busy_a_cpu_was_takes_enough_ticks() {
        let ticks = |cpu, busy, total| Ticks { cpu, busy, softirq: 0, steal: 0, total };
        let spent = [ticks(0, 1, MIN_TICKS - 1), ticks(1, 5, 20)];
        assert_eq!([0, 1, 2].map(|cpu| busy(&spent, cpu)), [None, Some(0.25), None]);
    }

    #[test]
    fn how_busy_a_cpu_was_stays_known_until_it_is_counted_again() {
        let mut looks = Looks::default();
        let mut busy_after = |busy_ticks, total| {
            looks.count(vec![Ticks { cpu: 0, busy: busy_ticks, softirq: 0, steal: 0, total }]);
            busy(&looks.spent, 0)
        };
        let shares = [(0, 100), (2, 110), (3, 112), (3, 114), (6, 118)]
            .map(|(busy, total)| busy_after(busy, total));
        assert_eq!(shares, [None, Some(0.2), Some(0.2), Some(0.2), Some(0.5)]);
    }
}
