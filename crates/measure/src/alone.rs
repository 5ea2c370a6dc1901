//! For which share of about a second the core of each CPU is alone: short looks at the gauge, CPU by CPU in turn, so that
//! two CPUs of one core are never looked at together.

use crate::gauge::{Gauge, readings_at};
use costof_model::CoreState;
use costof_model::alone::CpuAlone;
use costof_model::facts::Cpu;
use costof_os::sched::affinity;
use std::time::{Duration, Instant};

/// For how long all looks go on together.
const TIME: Duration = Duration::from_secs(1);
/// How many readings a look takes: about a millisecond.
const READINGS: usize = 400;
/// Of more CPUs, as many as this are looked at, evenly spread.
const CPUS: usize = 16;

/// Looks at the CPUs of the measured one's kind, which have this floor, among those that this process may use.
pub fn look(cpu: &Cpu, measured: usize, floor: f64) -> Vec<CpuAlone> {
    let allowed = affinity::allowed().unwrap_or_default();
    let cpus = eligible(cpu, measured, &allowed);
    let Some(gauge) = Gauge::for_this_core(Some(floor)) else {
        return Vec::new();
    };
    let mut seen = vec![[0_usize; 2]; cpus.len()];
    let began = Instant::now();
    while began.elapsed() < TIME {
        for (cpu, [alone, all]) in cpus.iter().zip(&mut seen) {
            let states = look_at(&gauge, *cpu).unwrap_or_default();
            *all += states.len();
            *alone += states.iter().filter(|state| **state == CoreState::Alone).count();
        }
    }
    let seen = cpus.into_iter().zip(seen).filter(|(_, [_, all])| *all > 0);
    seen.map(|(cpu, [alone, all])| CpuAlone { cpu, alone: alone as f64 / all as f64 }).collect()
}

/// The CPUs of the measured one's kind; of many, some, evenly spread, and the measured one.
fn eligible(cpu: &Cpu, measured: usize, allowed: &[usize]) -> Vec<usize> {
    let kinds = cpu.core_kinds.iter();
    let kind = kinds.map(|kind| &kind.cpus).find(|cpus| cpus.contains(measured as u32));
    let mut all = allowed.to_vec();
    all.retain(|cpu| kind.is_none_or(|kind| kind.contains(*cpu as u32)));
    let mut some: Vec<usize> =
        (0..CPUS.min(all.len())).map(|at| all[at * all.len() / CPUS.min(all.len())]).collect();
    if all.contains(&measured) && !some.contains(&measured) {
        some.pop();
        some.push(measured);
    }
    some
}

/// The states of a CPU's core between the readings of a short look, by a thread that runs there. `None` if none does soon.
fn look_at(gauge: &Gauge, cpu: usize) -> Option<Vec<CoreState>> {
    let readings = readings_at(&gauge.reader(), cpu, 1 + READINGS).ok()?;
    // The first one is a few per cent too high: the kernel has just run.
    let states = readings[1..].windows(2).map(|two| gauge.state(two[0], two[1]));
    Some(states.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::facts::{CoreKind, CpuSet};

    #[test]
    fn each_cpu_that_may_be_used_is_looked_at() {
        let allowed = affinity::allowed().unwrap();
        let shares = look(&Cpu::default(), allowed[0], 0.292);
        let cpus: Vec<usize> = shares.iter().map(|share| share.cpu).collect();
        assert_eq!(cpus, allowed[..allowed.len().min(CPUS)]);
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(&share.alone)), "{shares:?}");
    }

    #[test]
    fn of_many_cpus_some_of_the_measured_kind_are_looked_at() {
        let mut cpu = Cpu::default();
        let all: Vec<usize> = (0..128).collect();
        let some = eligible(&cpu, 127, &all);
        assert_eq!(some.len(), CPUS);
        assert_eq!((some[0], some[1], some[15]), (0, 8, 127));
        let kind = |cpus| CoreKind { cpus: CpuSet::parse(cpus).unwrap(), ..CoreKind::default() };
        cpu.core_kinds = vec![kind("0-3"), kind("4-127")];
        assert_eq!(eligible(&cpu, 2, &all), [0, 1, 2, 3]);
        assert!(eligible(&cpu, 2, &[]).is_empty());
    }
}
