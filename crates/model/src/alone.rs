//! For which share of the time the core of each CPU was alone.

use crate::Run;
use crate::noise::CoreGauge;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// For which share of the time nothing else used a CPU's core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuAlone {
    /// The CPU, by its number.
    pub cpu: usize,
    /// The share, from 0 to 1.
    pub alone: f64,
}

/// At most this many CPUs are named.
const NAMED: usize = 8;

/// `CPU 1 was alone 58 % of the time, CPU 0 1 %`, the one that was most alone first; empty without CPUs.
pub fn said(shares: &[CpuAlone], of_what: &str) -> String {
    let mut shares = shares.to_vec();
    shares.sort_by(|one, other| other.alone.total_cmp(&one.alone));
    let named =
        shares.iter().take(NAMED).enumerate().map(|(at, CpuAlone { cpu, alone })| match at {
            0 => format!("CPU {cpu} was alone {:.0} % of {of_what}", alone * 100.0),
            _ => format!("CPU {cpu} {:.0} %", alone * 100.0),
        });
    let mut text = named.collect::<Vec<String>>().join(", ");
    if let Some(more @ 1..) = shares.len().checked_sub(NAMED) {
        text += &format!(", and {more} others less");
    }
    text
}

impl Run {
    /// What the gauge showed in each launch whose leading role ran on one CPU, and that CPU.
    pub fn gauged_cpus(&self) -> impl Iterator<Item = (usize, CoreGauge)> {
        self.launches.iter().filter_map(|launch| {
            let probe = self.probe(&launch.points.first()?.point.probe)?;
            match launch.placement.0.get(probe.roles.last()?)?[..] {
                [cpu] => Some((cpu, launch.noise.core?)),
                _ => None,
            }
        })
    }

    /// For which share of its time each CPU was alone: of the launches whose leading role ran on it and on no other. Each
    /// launch counts by the time for which its gauge was read.
    pub fn alone_by_cpu(&self) -> Vec<CpuAlone> {
        let mut times: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        for (cpu, core) in self.gauged_cpus() {
            if let Some(all_ns) = core.all_ns() {
                let sum = times.entry(cpu).or_default();
                *sum = [sum[0] + core.alone_ns, sum[1] + all_ns];
            }
        }
        let share = |(cpu, [alone_ns, all_ns]): (usize, [f64; 2])| CpuAlone {
            cpu,
            alone: alone_ns / all_ns,
        };
        times.into_iter().map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::MEASURED;
    use crate::testing::{launch, probe_info, row, run};
    use crate::{Few, Placement, Text};

    #[test]
    fn a_cpu_is_alone_for_its_share_of_the_time_of_its_launches() {
        let mut run = run(&[]);
        run.probes = vec![probe_info("p")];
        let role = run.probes[0].roles.last().unwrap().clone();
        let row = row("p", Default::default(), 1.0);
        for (cpus, alone_ns, shared_ns) in [
            (vec![1], 9e6, 1e6),
            (vec![1], 0.0, 30e6),
            (vec![0], 0.0, 5e6),
            // Of two CPUs, the gauge is that of the worse one.
            (vec![2, 3], 5e6, 0.0),
            // No gauge was read.
            (vec![4], 0.0, 0.0),
        ] {
            launch(&mut run, &[(&row, &[("cost", 1.0)])]);
            let launch = run.launches.last_mut().unwrap();
            launch.placement = Placement(Few::from_iter([(role.clone(), cpus)]));
            launch.noise.core = Some(CoreGauge { alone_ns, shared_ns, ..CoreGauge::default() });
        }
        let shares = run.alone_by_cpu();
        let expected = [(0, 0.0), (1, 0.225)].map(|(cpu, alone)| CpuAlone { cpu, alone });
        assert_eq!(shares, expected);
        assert_eq!(role, Text::Borrowed(MEASURED));
        assert_eq!(said(&shares, "the time"), "CPU 1 was alone 22 % of the time, CPU 0 0 %");
    }

    #[test]
    fn many_cpus_are_counted_and_none_says_nothing() {
        let shares: Vec<CpuAlone> =
            (0..10).map(|cpu| CpuAlone { cpu, alone: 0.1 * cpu as f64 }).collect();
        let text = said(&shares, "the last second");
        assert!(text.starts_with("CPU 9 was alone 90 % of the last second, CPU 8 80 %"), "{text}");
        assert!(text.ends_with("CPU 2 20 %, and 2 others less"), "{text}");
        assert_eq!(said(&[], "the time"), "");
    }
}
