//! Whether this machine, as it is now, can show a change of a program's cost: a program that computes is compared with
//! itself, in turns, as `costof against` compares two, and /proc/stat says meanwhile which CPUs of this machine worked.
//!
//! A core that is shared in turns during which the other CPUs were idle is shared with a stranger: another virtual machine.
//! What it is shared more than that, the other CPUs explain. This needs no topology, which virtual machines often
//! hide or make up.

use crate::command::{self, Program, Stopwatch, compare};
use crate::processor_ticks::{self, Ticks, difference};
use costof_model::facts::Cpu;
use costof_model::fitness::{CoreUse, Fitness, SelfComparison};
use costof_model::{CpuSet, Facts, TimedCommand, TimedRun};
use costof_os::sched::affinity;
use std::io;
use std::time::{Duration, Instant};

/// How long a program is compared with itself.
const TIME: Duration = Duration::from_millis(4500);
/// At most this many CPUs are looked at before a turn.
const MAX_LOOKS: usize = 8;
/// A stranger is told from the other CPUs by this many turns in which these were idle.
const MIN_QUIET: usize = 4;

/// Two runs of one program, one after the other on one CPU.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The runs.
    pub runs: [TimedRun; 2],
    /// How each CPU of this machine spent the time of both, in ticks; empty if the kernel does not report it.
    pub ticks: Vec<Ticks>,
    /// How long the turn took with all that belongs to it, in seconds.
    pub seconds: f64,
}

/// Compares a program with itself for some seconds, each turn on the CPU whose core is freest then. `None` if `may_go_on`
/// ended it.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn watch(
    stopwatch: &Stopwatch,
    program: &Program,
    may_go_on: impl Fn() -> bool,
) -> io::Result<Option<Vec<Turn>>> {
    let mut allowed = affinity::allowed()?;
    let mut turns = Vec::new();
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let began = Instant::now();
        let looked_at = &allowed[..allowed.len().min(MAX_LOOKS)];
        let cpu = command::freest(looked_at).unwrap_or(looked_at[0]);
        let before = processor_ticks::read();
        let run = || match stopwatch.run(program, &[cpu], &may_go_on) {
            Ok(Some(run)) if run.exit_code != Some(0) && may_go_on() => {
                Err(io::Error::other("the program to compare with itself failed"))
            }
            run => run,
        };
        let (Some(first), Some(second)) = (run()?, run()?) else {
            return Ok(None);
        };
        let ticks = before.and_then(|before| Ok(difference(&before, &processor_ticks::read()?)));
        turns.push(Turn {
            runs: [first, second],
            ticks: ticks.unwrap_or_default(),
            seconds: began.elapsed().as_secs_f64(),
        });
        // Of many CPUs, another one next time.
        allowed.rotate_left(1);
    }
    Ok(may_go_on().then_some(turns))
}

/// What these turns show for a check that must see this change, a share above zero, within this time. Pure.
pub fn judge(turns: &[Turn], facts: &Facts, change: f64, budget: Duration) -> Fitness {
    let mut commands = [0, 1].map(|side| TimedCommand {
        runs: turns.iter().map(|turn| turn.runs[side].clone()).collect(),
        ..TimedCommand::default()
    });
    let (metric, mut comparisons) = compare(&mut commands, None);
    let comparison = comparisons.pop().flatten();
    let compared = comparison.map(|comparison| SelfComparison {
        seconds: turns.iter().map(|turn| turn.seconds).sum(),
        turns: turns.len(),
        metric,
        visible: comparison.visible,
    });
    let needed_s = compared.as_ref().map(|compared| compared.seconds_for(change));
    let budget_s = budget.as_secs_f64();
    Fitness {
        fit: needed_s.is_some_and(|needed_s| needed_s <= budget_s),
        change,
        budget_s,
        needed_s,
        machine: facts.machine_class(),
        kernel: facts.kernel.release.clone(),
        not_compared: commands[1].not_compared.take(),
        compared,
        core: core_use(turns, &facts.cpu),
    }
}

/// Who used the cores of the runs.
fn core_use(turns: &[Turn], cpu: &Cpu) -> CoreUse {
    let shared_in = |turns: &[&Turn]| {
        let runs = turns.iter().flat_map(|turn| &turn.runs);
        mean(runs.filter_map(|run| Some((run.core?.shared_time(), run.wall_ns as f64))))
    };
    let all: Vec<&Turn> = turns.iter().collect();
    let quiet: Vec<&Turn> = turns.iter().filter(|turn| turn.others_are_idle(cpu)).collect();
    let shared = shared_in(&all);
    let stranger = match quiet.len() {
        MIN_QUIET.. => shared_in(&quiet),
        // All CPUs of the core are known, and are this machine's.
        _ => all.iter().all(|turn| turn.siblings(cpu).is_some()).then_some(0.0),
    };
    let stranger = stranger.zip(shared).map(|(stranger, shared)| stranger.min(shared));
    let waited = |run: &TimedRun| {
        let wall_ns = run.wall_ns.max(1) as f64;
        Some(((run.run_queue_ns? as f64 / wall_ns).min(1.0), wall_ns))
    };
    let own = turns.iter().filter_map(Turn::own);
    CoreUse {
        shared,
        stranger,
        own_core: shared.zip(stranger).map(|(shared, stranger)| shared - stranger),
        own_cpu: mean(turns.iter().flat_map(|turn| &turn.runs).filter_map(waited)),
        steal: mean(own.map(|ticks| (ticks.steal as f64 / ticks.total as f64, ticks.total as f64))),
    }
}

/// The mean of values with weights above zero.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let add = |(sum, weights), (value, weight)| (sum + value * weight, weights + weight);
    let (sum, weights) = values.fold((0.0, 0.0), add);
    (weights > 0.0).then(|| sum / weights)
}

impl Turn {
    fn cpu(&self) -> Option<usize> {
        self.runs[0].cpus.first().copied()
    }

    /// The ticks of the CPU that it ran on.
    fn own(&self) -> Option<&Ticks> {
        self.ticks.iter().find(|ticks| Some(ticks.cpu) == self.cpu() && ticks.total > 0)
    }

    /// The CPUs of its core, if the machine shows that there are several.
    fn siblings<'c>(&self, cpu: &'c Cpu) -> Option<&'c CpuSet> {
        let here = self.cpu()? as u32;
        cpu.cores.iter().find(|core| core.contains(here) && core.iter().count() > 1)
    }

    /// Whether no other CPU worked that may be on the same core: where the machine shows none there, that may be any.
    fn others_are_idle(&self, cpu: &Cpu) -> bool {
        let core = self.siblings(cpu);
        let may_share = |it: &&Ticks| core.is_none_or(|core| core.contains(it.cpu as u32));
        let others = self.ticks.iter().filter(|ticks| Some(ticks.cpu) != self.cpu());
        self.own().is_some() && others.filter(may_share).all(|ticks| ticks.busy == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::timing::CoreShares;

    const CHANGE: f64 = 0.02;
    const MINUTE: Duration = Duration::from_secs(60);

    /// Turns of 0.1 s on CPU 0 of two, in which the other CPU worked for so many ticks, the core was shared for this part of
    /// the time, and runs scatter by this share.
    fn turns(scatter: f64, each: impl Fn(usize) -> (u64, f64)) -> Vec<Turn> {
        let mut random = fastrand::Rng::with_seed(3);
        let mut turn = |number: usize| {
            let (busy, shared) = each(number);
            let mut run = || TimedRun {
                wall_ns: 30_000_000,
                // A shared core computes at two thirds of its speed.
                user_ns: (3e7 * (1.0 + 0.5 * shared) * (1.0 + scatter * (random.f64() - 0.5)))
                    as u64,
                run_queue_ns: Some(3_000_000),
                cpus: vec![0],
                core: Some(CoreShares { alone: 1.0 - shared, shared, readings: 30, clock: None }),
                is_one_thread: Some(true),
                ..TimedRun::default()
            };
            let ticks = |cpu, busy, steal| Ticks { cpu, busy, softirq: 0, steal, total: 10 };
            Turn {
                runs: [run(), run()],
                ticks: vec![ticks(0, 8, 1), ticks(1, busy, 0)],
                seconds: 0.1,
            }
        };
        (0..40).map(&mut turn).collect()
    }

    fn judged(turns: &[Turn]) -> Fitness {
        judge(turns, &Facts::default(), CHANGE, MINUTE)
    }

    fn near(value: Option<f64>, expected: f64) {
        assert!(value.is_some_and(|value| (value - expected).abs() < 1e-9), "{value:?} {expected}");
    }

    #[test]
    fn a_quiet_machine_is_fit_and_a_noisy_one_needs_the_square_of_the_time() {
        let quiet = judged(&turns(0.02, |_| (0, 0.0)));
        let compared = quiet.compared.clone().unwrap();
        assert!(quiet.fit && compared.visible < CHANGE, "{quiet:?}");
        assert_eq!(compared.turns, 40);
        // What it has already seen takes as long as that took.
        near(quiet.needed_s, 4.0);
        near(quiet.core.own_cpu, 0.1);
        near(quiet.core.steal, 0.1);
        let noisy = judged(&turns(0.8, |_| (0, 0.0)));
        let compared = noisy.compared.clone().unwrap();
        let needed_s = noisy.needed_s.unwrap();
        assert!(!noisy.fit && needed_s > 60.0, "{noisy:?}");
        near(Some(compared.visible_in(needed_s)), CHANGE);
        let day = Duration::from_secs(86_400);
        assert!(judge(&turns(0.8, |_| (0, 0.0)), &Facts::default(), CHANGE, day).fit);
    }

    #[test]
    fn what_only_the_gauge_sees_is_a_stranger_and_the_rest_ones_own_cpu() {
        // Always there, whatever the other CPU does.
        let stranger = judged(&turns(0.01, |turn| ((turn % 2) as u64, 0.4))).core;
        near(stranger.stranger, 0.4);
        near(stranger.own_core, 0.0);
        // There when the other CPU works.
        let own = judged(&turns(0.01, |turn| [(0, 0.0), (9, 0.8)][turn % 2])).core;
        near(own.stranger, 0.0);
        near(own.own_core, 0.4);
        // Both.
        let both = judged(&turns(0.01, |turn| [(0, 0.1), (9, 0.7)][turn % 2])).core;
        near(both.stranger, 0.1);
        near(both.own_core, 0.3);
        // The other CPU is never idle.
        let unknown = judged(&turns(0.01, |_| (9, 0.5))).core;
        near(unknown.shared, 0.5);
        assert_eq!((unknown.stranger, unknown.own_core), (None, None));
        // The machine shows that it is not on this core, so that it explains nothing, or that it is.
        for (cores, stranger) in [(["0,2", "1,3"], 0.5), (["0,1", "2,3"], 0.0)] {
            let mut facts = Facts::default();
            facts.cpu.cores = cores.map(|core| CpuSet::parse(core).unwrap()).into();
            near(judge(&turns(0.01, |_| (9, 0.5)), &facts, CHANGE, MINUTE).core.stranger, stranger);
        }
    }

    #[test]
    fn what_could_not_be_compared_is_not_fit_and_says_why() {
        let few = judged(&turns(0.01, |_| (0, 0.0))[..3]);
        assert!(!few.fit && few.needed_s.is_none() && few.compared.is_none());
        assert!(few.not_compared.unwrap().contains("at least"));
        // Without a gauge, times as they are.
        let mut turns = turns(0.02, |_| (0, 0.0));
        for turn in &mut turns {
            turn.runs.iter_mut().for_each(|run| run.core = None);
            turn.ticks.clear();
        }
        let blind = judged(&turns);
        assert!(blind.fit, "{blind:?}");
        assert_eq!(blind.core, CoreUse { own_cpu: blind.core.own_cpu, ..CoreUse::default() });
    }
}
