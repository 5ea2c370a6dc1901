//! Short looks at CPUs before a launch: which of them are alone, and which the machine itself uses.

use crate::gauge;
use crate::processor_ticks::{self, Ticks, difference};
use costof_model::protocol::{CpuLook, Look};
use std::fs;

/// A core is alone all the time if this share of the readings say so: no need to look further.
const SURELY_ALONE: f64 = 0.9;
/// The kernel's counts say how busy a CPU was only over this many ticks.
const LEAST_TICKS: u64 = 5;

/// What earlier looks have to leave to later ones.
#[derive(Default)]
pub(crate) struct Looks {
    /// The kernel's counts at an earlier look.
    before: Vec<Ticks>,
}

impl Looks {
    /// Looks at CPUs one after another, half a millisecond at each, until enough of them were surely alone. Two at once could be two threads of one core that the machine does not report, and see each
    /// other. A CPU on which no thread can run is left out.
    pub(crate) fn look(&mut self, asked: &Look) -> Vec<CpuLook> {
        let now = processor_ticks::read().unwrap_or_default();
        let spent = difference(&self.before, &now);
        if spent.iter().all(|ticks| ticks.total >= LEAST_TICKS) {
            self.before = now;
        }
        let mut looks: Vec<CpuLook> = Vec::new();
        for &cpu in &asked.cpus {
            let Ok(alone) = gauge::alone_at(cpu, asked.floor) else {
                continue;
            };
            looks.push(CpuLook { cpu, alone, busy: busy(&spent, cpu), max_khz: max_khz(cpu) });
            let surely = looks.iter().filter(|look| look.alone >= SURELY_ALONE);
            if surely.count() >= asked.enough {
                break;
            }
        }
        looks
    }
}

fn busy(spent: &[Ticks], cpu: usize) -> Option<f64> {
    let ticks = spent.iter().find(|ticks| ticks.cpu == cpu)?;
    (ticks.total >= LEAST_TICKS).then(|| ticks.busy as f64 / ticks.total as f64)
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
        assert_eq!(looked, cpus);
        let is_unknown = |look: &CpuLook| look.alone <= 0.0 && look.busy.is_none();
        assert!(looks.iter().all(is_unknown), "{looks:?}");
        assert_eq!(Looks::default().look(&asked(0)).len(), 1);
    }

    #[test]
    fn how_busy_a_cpu_was_takes_enough_ticks() {
        let ticks = |cpu, busy, total| Ticks { cpu, busy, softirq: 0, steal: 0, total };
        let spent = [ticks(0, 1, LEAST_TICKS - 1), ticks(1, 5, 20)];
        assert_eq!([0, 1, 2].map(|cpu| busy(&spent, cpu)), [None, Some(0.25), None]);
    }
}
