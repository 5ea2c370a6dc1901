//! Chooses the CPUs of each launch by how alone their cores are just before it. While none is alone, takes a launch
//! first that does not need that.
//!
//! It looks only while no launch runs, and only at CPUs on which the same cost is expected.

use super::Controller;
use crate::error::{Error, Result};
use crate::resume;
use costof_measure::distance;
use costof_measure::probe::Probe;
use costof_model::noise::ELIGIBLE;
use costof_model::protocol::CpuLook;
use costof_model::{LaunchRow, Link, Point};
use std::collections::{BTreeMap, VecDeque};

/// How many CPUs one look covers at most, with half a millisecond at each.
const LOOKS_MAX: usize = 8;
/// Launches on more CPUs than this stay where they are: these have many distances.
const CPUS_MAX: usize = 2;
/// Another CPU is taken only if its core is alone for this much more of the time: on a quiet machine a run stays
/// where it is.
const CLEARLY: f64 = 0.1;
/// A core that is alone for less of the time gives a launch too few batches.
const ALONE_MIN: f64 = 0.1;
/// A CPU that others of this machine use for more of the time is not taken.
const BUSY: f64 = 0.2;
/// The kernel's counts of a CPU's time reach back over a few launches: as many as this at most.
const LATELY: usize = 8;
/// How many launches ahead the next one may be: those of a block stay spread over the run.
const LOOK_AHEAD: usize = 8;

/// The CPUs chosen for a launch.
#[derive(Debug, PartialEq)]
struct Choice {
    cpus: Vec<usize>,
    /// Whether their cores are alone for long enough.
    are_alone: bool,
}

/// How far apart two CPUs were in the last launch on them, in nanoseconds.
type LastDistances = BTreeMap<[usize; 2], f64>;

/// The distances between CPUs that the launches found.
#[derive(Default)]
pub(super) struct Distances {
    last_ns: LastDistances,
    /// Of so many launches, the first ones of the run.
    launches: usize,
}

/// The CPUs of a launch on the measured machine, and the share of the time for which others used them, if known.
type Used = (Vec<usize>, Option<f64>);

impl Controller<'_> {
    /// The CPUs of a launch of these points: the usual ones, or others whose cores are clearly more alone.
    // METHOD 14
    pub(super) fn most_alone(
        &mut self,
        probe: &Probe,
        points: &[Point],
        seed: u64,
    ) -> Result<Vec<usize>> {
        let (looks, counterpart) = (self.looks.take(), self.counterpart.take());
        let usual = self.usual_cpus(probe, points);
        let candidates = self.candidates(probe, points, &usual, seed);
        if let Some(cpus) = counterpart {
            return Ok(cpus);
        }
        if candidates.len() == usual.len() {
            return Ok(usual);
        }
        let looks = match looks {
            Some(looks) => looks,
            None => self.look(&candidates, &usual)?,
        };
        Ok(self.choose(usual, &looks).cpus)
    }

    /// Takes the next launch off a queue of blocks and launches.
    pub(super) fn next(
        &mut self,
        queue: &mut VecDeque<(usize, u32)>,
    ) -> Result<Option<(usize, u32)>> {
        self.looks = None;
        let needs_core = |(block, launch): &(usize, u32)| {
            let state = self.block(*block);
            let is_done = state.launches().any(|done| done.launch == *launch);
            !is_done && state.is_sensitive()
        };
        let need_core: Vec<bool> = queue.iter().take(LOOK_AHEAD).map(needs_core).collect();
        let Some(&(block, launch)) = queue.front() else {
            return Ok(None);
        };
        take_next(queue, &need_core, || {
            let points = &self.block(block).planned().points;
            let probe = self.probe(&points[0]);
            let usual = self.usual_cpus(probe, points);
            if usual.len() > CPUS_MAX {
                return Ok(true);
            }
            let candidates = self.candidates(probe, points, &usual, self.seed(block, launch));
            let looks = self.look(&candidates, &usual)?;
            let has_core = looks.is_empty() || self.choose(usual, &looks).are_alone;
            self.looks = Some(looks);
            Ok(has_core)
        })
    }

    /// The usual CPUs of a launch, then others that may take the place of the first. A launch that uses a device has no
    /// others: a device costs less on the CPU that serves its interrupts.
    fn candidates(
        &self,
        probe: &Probe,
        points: &[Point],
        usual: &[usize],
        seed: u64,
    ) -> Vec<usize> {
        let may_move = usual.len() <= CPUS_MAX
            && !probe.is_of_one_cpu
            && points[0].link.parse() != Ok(Link::Remote);
        let eligible = self.plan().placement.0.get(ELIGIBLE).filter(|_| may_move);
        let mut others = eligible.cloned().unwrap_or_default();
        let allowed = self.machines.measured.allowed();
        others.retain(|cpu| !usual.contains(cpu) && allowed.contains(cpu));
        // Where there are many, all get their turn.
        fastrand::Rng::with_seed(seed).shuffle(&mut others);
        others.truncate(LOOKS_MAX.saturating_sub(usual.len()));
        [usual, &others].concat()
    }

    /// Looks at CPUs until as many as the usual ones are alone. Nothing is seen where that cannot be told.
    fn look(&mut self, candidates: &[usize], usual: &[usize]) -> Result<Vec<CpuLook>> {
        self.note_distances();
        let lately = self.lately();
        let (measured, setting) = (&mut self.machines.measured, self.setting);
        let look = |cpus: &[usize]| {
            measured.look(cpus, usual.len(), setting).map(Option::unwrap_or_default)
        };
        match look_on_while_busy(candidates, &lately, look) {
            Ok(looks) => Ok(looks),
            Err(_) if self.interrupted() => Ok(Vec::new()),
            Err(error) => Err(Error::Nothing(format!(
                "{error}; it kept other costofs off the machine, so this run ends; what was measured before is kept: {} goes on",
                resume::command(self.record.path(), false)
            ))),
        }
    }

    /// The last few launches, the newest first.
    fn lately(&self) -> Vec<Used> {
        let used = |launch: &LaunchRow| {
            let noise = &launch.noise;
            let others = noise.others_ns.map(|ns| ns / noise.duration_ns);
            Some((self.leading_cpus(launch)?.to_vec(), others))
        };
        self.run().launches.iter().rev().take(LATELY).filter_map(used).collect()
    }

    /// Notes the distances of the launches since the last time.
    fn note_distances(&mut self) {
        let distance = |launch: &LaunchRow| {
            let (ns, _) = launch.noise.distance_ns?;
            Some((pair(self.leading_cpus(launch)?.try_into().ok()?), ns))
        };
        let launches = &self.run().launches;
        let new = launches.iter().skip(self.distances.launches).filter_map(distance);
        let (new, launches): (Vec<_>, usize) = (new.collect(), launches.len());
        self.distances.last_ns.extend(new);
        self.distances.launches = launches;
    }

    fn choose(&self, usual: Vec<usize>, looks: &[CpuLook]) -> Choice {
        let lately = self.lately();
        let look = |cpu: usize| looks.iter().find(|look| look.cpu == cpu);
        let are_all_busy = looks.iter().all(|look| is_busy(look, &lately));
        let alone = |cpu: usize| {
            let look = look(cpu)?;
            let is_left_out = is_busy(look, &lately) && !are_all_busy;
            Some(if is_left_out { 0.0 } else { look.alone })
        };
        let cpus = || looks.iter().map(|look| look.cpu);
        let takes_place = |cpu: usize, of: usize| {
            let clock = |cpu| look(cpu).and_then(|look| look.max_khz);
            clock(cpu) == clock(of) && !self.facts.interchangeable(of, &[cpu]).is_empty()
        };
        let others: Vec<Vec<usize>> = match usual[..] {
            [one] => cpus().filter(|cpu| takes_place(*cpu, one)).map(|cpu| vec![cpu]).collect(),
            [one, two] => {
                let pairs = cpus().flat_map(|cpu| cpus().map(move |other| [cpu, other]));
                let is_alike = |pair: &[usize; 2]| {
                    pair[0] != pair[1]
                        && takes_place(pair[0], one)
                        && takes_place(pair[1], two)
                        && self.facts.are_equally_far([one, two], *pair)
                        && !was_farther(&self.distances.last_ns, [one, two], *pair)
                };
                pairs.filter(is_alike).map(Vec::from).collect()
            }
            _ => Vec::new(),
        };
        choose(usual, others, alone)
    }
}

/// The CPUs of a launch: the usual ones, or those of `others` whose cores are clearly more alone. CPUs are as alone as
/// the one that is least so. `alone` is the share of the time for which a core is alone; `None` if nobody looked.
fn choose(
    usual: Vec<usize>,
    others: Vec<Vec<usize>>,
    alone: impl Fn(usize) -> Option<f64>,
) -> Choice {
    let least = |cpus: &[usize]| {
        let shares = cpus.iter().map(|cpu| alone(*cpu));
        shares.collect::<Option<Vec<f64>>>().map(|shares| shares.into_iter().fold(1.0, f64::min))
    };
    let own = least(&usual).unwrap_or(0.0);
    let others = others.into_iter().filter_map(|cpus| Some((least(&cpus)?, cpus)));
    let (share, cpus) = others
        .filter(|(share, _)| *share > own + CLEARLY)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .unwrap_or((own, usual));
    Choice { cpus, are_alone: share >= ALONE_MIN }
}

/// Takes the first launch off a queue, but if it needs a core that it does not have, the first one of the next that
/// does not need it. `need_core` says which of the first few launches need it.
fn take_next<T, E>(
    queue: &mut VecDeque<T>,
    need_core: &[bool],
    has_core: impl FnOnce() -> Result<bool, E>,
) -> Result<Option<T>, E> {
    match need_core.iter().position(|needs| !needs) {
        Some(other @ 1..) if !has_core()? => Ok(queue.remove(other)),
        _ => Ok(queue.pop_front()),
    }
}

/// Looks at CPUs, and at the rest of them if one that was seen is busy: a look runs before what keeps a CPU busy, so it
/// takes the core for alone and ends there.
fn look_on_while_busy<E>(
    candidates: &[usize],
    lately: &[Used],
    mut look: impl FnMut(&[usize]) -> Result<Vec<CpuLook>, E>,
) -> Result<Vec<CpuLook>, E> {
    let (mut looks, mut left) = (Vec::new(), candidates.to_vec());
    loop {
        let seen = look(&left)?;
        left.retain(|cpu| seen.iter().all(|look| look.cpu != *cpu));
        let is_any_busy = seen.iter().any(|look| is_busy(look, lately));
        looks.extend(seen);
        if left.is_empty() || !is_any_busy {
            return Ok(looks);
        }
    }
}

fn is_busy(look: &CpuLook, lately: &[Used]) -> bool {
    busy(look, lately).is_some_and(|share| share > BUSY)
}

/// The share of the time for which others of this machine used a CPU lately. What a launch did on its CPUs is not
/// theirs: there, its ledger knows what they used.
fn busy(look: &CpuLook, lately: &[Used]) -> Option<f64> {
    match lately.iter().find(|(cpus, _)| cpus.contains(&look.cpu)) {
        Some((_, others)) => *others,
        None => look.busy,
    }
}

/// Two CPUs, the lower one first.
fn pair([one, two]: [usize; 2]) -> [usize; 2] {
    [one.min(two), one.max(two)]
}

/// Whether the launches so far found two CPUs at another distance than the usual two.
fn was_farther(last_ns: &LastDistances, usual: [usize; 2], others: [usize; 2]) -> bool {
    match (last_ns.get(&pair(usual)), last_ns.get(&pair(others))) {
        (Some(usual_ns), Some(ns)) => !distance::is_alike(*usual_ns, *ns),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_launch_goes_where_the_core_is_clearly_most_alone() {
        let chosen = |shares: &[Option<f64>]| {
            let others = (1..shares.len()).map(|cpu| vec![cpu]).collect();
            let choice = choose(vec![0], others, |cpu| shares[cpu]);
            (choice.cpus[0], choice.are_alone)
        };
        for (shares, expected) in [
            (&[Some(0.05), Some(0.6), Some(0.8)][..], (2, true)),
            (&[Some(0.95), Some(1.0)], (0, true)),
            (&[Some(0.5), Some(0.55), Some(0.7)], (2, true)),
            (&[Some(0.0), Some(0.05)], (0, false)),
            (&[Some(0.0), None, Some(0.2)], (2, true)),
            (&[None, Some(0.5)], (1, true)),
            (&[None, None], (0, false)),
        ] {
            assert_eq!(chosen(shares), expected, "{shares:?}");
        }
    }

    #[test]
    fn a_pair_is_as_alone_as_its_worse_cpu() {
        let shares = [0.9, 0.1, 0.6, 0.7];
        let others = vec![vec![0, 2], vec![0, 3], vec![1, 3]];
        let choice = choose(vec![0, 1], others, |cpu| Some(shares[cpu]));
        assert_eq!(choice.cpus, [0, 3]);
    }

    #[test]
    fn while_no_core_is_alone_what_does_not_need_one_comes_first() {
        let take = |need_core: &[bool], has_core: bool| {
            let mut queue: VecDeque<usize> = (0..10).collect();
            let taken = take_next(&mut queue, need_core, || Ok::<_, Infallible>(has_core));
            let Ok(taken) = taken;
            assert_eq!(queue.len(), 9);
            taken.unwrap()
        };
        assert_eq!(take(&[true, true, false, false], false), 2);
        assert_eq!(take(&[true, true, false, false], true), 0);
        assert_eq!(take(&[true, true, true], false), 0, "nothing else is left");
        assert_eq!(take(&[false, true, false], false), 0);
        let mut empty: VecDeque<usize> = VecDeque::new();
        assert_eq!(take_next(&mut empty, &[], || Ok::<_, Infallible>(false)), Ok(None));
    }

    #[test]
    fn nobody_looks_if_it_decides_nothing() {
        let mut queue: VecDeque<usize> = (0..3).collect();
        for need_core in [&[true, true, true][..], &[false, true, true]] {
            let taken = take_next(&mut queue, need_core, || Err("looked"));
            assert!(taken.is_ok(), "{need_core:?}");
        }
    }

    #[test]
    fn a_launch_is_not_what_keeps_its_own_cpus_busy() {
        let look = |cpu| CpuLook { cpu, busy: Some(0.9), ..CpuLook::default() };
        let lately = [(vec![3], Some(0.1)), (vec![5, 6], None), (vec![3, 4], Some(0.7))];
        let busy = [3, 4, 5, 7].map(|cpu| busy(&look(cpu), &lately));
        assert_eq!(busy, [Some(0.1), Some(0.7), None, Some(0.9)]);
    }

    #[test]
    fn while_a_cpu_that_was_seen_is_busy_the_rest_is_looked_at() {
        let looked_at = |busy: &[f64]| {
            // Each look ends at a CPU whose core is surely alone.
            let looks = look_on_while_busy(&[0, 1, 2], &[], |left| {
                let cpu = left[0];
                let alone = CpuLook { cpu, alone: 1.0, busy: Some(busy[cpu]), max_khz: None };
                Ok::<_, Infallible>(vec![alone])
            });
            let Ok(looks) = looks;
            looks.iter().map(|look| look.cpu).collect::<Vec<usize>>()
        };
        assert_eq!(looked_at(&[0.1, 0.1, 0.1]), [0]);
        assert_eq!(looked_at(&[0.9, 0.1, 0.1]), [0, 1]);
        assert_eq!(looked_at(&[0.9, 0.9, 0.9]), [0, 1, 2]);
        let unseen = look_on_while_busy(&[0, 1], &[], |_| Ok::<_, Infallible>(Vec::new()));
        assert_eq!(unseen, Ok(Vec::new()));
    }

    #[test]
    fn pairs_that_were_at_another_distance_are_left_out() {
        let launches = [([5, 4], 320.0), ([4, 5], 95.0), ([2, 3], 320.0), ([0, 1], 90.0)];
        let last_ns: LastDistances = launches.map(|(cpus, ns)| (pair(cpus), ns)).into();
        let was_farther = |others| was_farther(&last_ns, [0, 1], others);
        assert!(was_farther([2, 3]) && was_farther([3, 2]));
        assert!(!was_farther([4, 5]) && !was_farther([2, 4]), "alike, unknown");
    }
}
