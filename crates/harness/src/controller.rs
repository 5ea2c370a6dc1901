//! The controller's part: launches of each benchmark, in fresh processes, of one build or of two in turns.

use crate::record::Record;
use crate::worker::{self, asked, recorded, role_name};
use costof_lab::host::WorkerCommand;
use costof_lab::launch::{self, Lost, Place, Setting};
use costof_lab::worker::Worker;
use costof_measure::schedule::{self, MIN_LAUNCHES};
use costof_model::noise::MEASURED;
use costof_model::protocol::{Answer, Command, CpuLook, Description, Look};
use costof_model::rows::Row;
use costof_model::{
    Failure, FailureKind, FailureRow, Few, Launch, LaunchRow, Noise, Placement, Report, State,
};
use costof_os::sched::affinity;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the batches of a launch take together: as in `costof run`.
const BATCH_TIME: Duration = Duration::from_millis(10);
/// At most this many launches of a benchmark, which all stay in memory; its budget ends it much earlier.
const LAUNCHES_MAX: u32 = 1000;
/// A benchmark that failed this often without a number is not started again.
const FAILURES_MAX: u32 = 3;
/// Another CPU is taken if its core is alone for this much more of the time.
const CLEARLY: f64 = 0.1;
/// A CPU that other processes used for more of the time is not taken.
const BUSY: f64 = 0.2;
/// How many CPUs a look covers, and for how many launches their use by others is remembered.
const CPUS_MAX: usize = 8;
/// Nothing interrupts a launch but the end of this process, which ends its workers.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A build of the program, and the run that it is measured in.
pub(crate) struct Side {
    pub(crate) command: WorkerCommand,
    pub(crate) record: Record,
}

/// What measures: the machine, and what each launch takes.
pub(crate) struct Controller {
    /// An idle process that looks which cores are alone.
    idle: Worker,
    pub(crate) description: Description,
    /// The CPUs that launches choose among, the usual one first.
    cpus: Vec<usize>,
    /// The CPU of each of the last launches, and the share of the time that other processes used it.
    lately: VecDeque<(usize, Option<f64>)>,
    limit: Duration,
}

/// The worker of this program.
pub(crate) fn own_worker() -> Result<WorkerCommand, String> {
    WorkerCommand::own_executable(&[worker::ARGUMENT])
        .map_err(|error| format!("cannot open this program's own file: {error}"))
}

impl Controller {
    /// Starts the idle process, which describes the machine.
    pub(crate) fn new(command: &WorkerCommand, limit: Duration) -> Result<Controller, String> {
        let described = Worker::describe(&Place::LOCAL, command, limit, &INTERRUPTED);
        let (mut idle, description) = described.map_err(|lost| lost.failure().reason)?;
        let cpus = affinity::allowed()
            .map_err(|error| format!("cannot read the allowed CPUs: {error}"))?;
        let facts = &description.facts;
        let usual = facts.quietest(&cpus);
        let mut alike = facts.interchangeable(usual, &facts.nearest_first(usual, &cpus));
        alike.retain(|cpu| *cpu != usual);
        alike.insert(0, usual);
        alike.truncate(CPUS_MAX);
        // The kernel's counts reach back to the first look.
        let _ = look(&mut idle, &description, &alike, limit);
        Ok(Controller { idle, description, cpus: alike, lately: VecDeque::new(), limit })
    }

    /// The worker of another build, and what it says of itself.
    pub(crate) fn other(&self, program: &Path) -> Result<(WorkerCommand, Description), String> {
        let wrong = |why| {
            let program = program.display();
            format!(
                "--against {program}: {why} (name the other build's program, as `cargo bench` prints it)"
            )
        };
        let path = program.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let command = WorkerCommand::new(path, &[worker::ARGUMENT]);
        let described = Worker::describe(&Place::LOCAL, &command, self.limit, &INTERRUPTED);
        let (_, description) = described.map_err(|lost| wrong(lost.failure().reason))?;
        let (its, own) = (&description.costof, &self.description.costof);
        match its == own {
            true => Ok((command, description)),
            false => Err(wrong(format!("it has costof-harness {its}, and this build {own}"))),
        }
    }

    /// Measures the benchmark at this position of the plan for about as long as the budget, on each side in turns.
    pub(crate) fn measure(
        &mut self,
        sides: &mut [Side],
        position: usize,
        name: &str,
        budget: Duration,
    ) {
        let began = Instant::now();
        for number in 0..LAUNCHES_MAX {
            // Another build may lack the benchmark, or crash in it.
            let works: Vec<bool> =
                sides.iter().map(|side| failures(side, position) < FAILURES_MAX).collect();
            let working = sides.iter().zip(&works).filter(|(_, works)| **works);
            let Some(fewest) = working.map(|(side, _)| useful(side, position)).min() else {
                return;
            };
            // Pairs come in blocks of two, so that each side is first equally often.
            let is_whole = sides.len() == 1 || number % 2 == 0;
            if is_whole && fewest >= MIN_LAUNCHES && began.elapsed() >= budget {
                return;
            }
            let cpu = self.most_alone();
            let order = match sides.len() {
                1 => vec![0],
                _ => schedule::turns(sides[0].record.run.run.seed, position, number).to_vec(),
            };
            for side in order.into_iter().filter(|side| works[*side]) {
                self.launch(&mut sides[side], position, name, number, cpu);
            }
        }
    }

    /// Runs one launch of a benchmark and records it.
    fn launch(&mut self, side: &mut Side, block: usize, name: &str, number: u32, cpu: usize) {
        let began = Instant::now();
        let launch = Launch {
            role: role_name(),
            points: vec![asked(name)],
            cpus: vec![cpu],
            partners: Vec::new(),
            seed: side.record.run.run.seed ^ u64::from(number),
            point_time_ns: BATCH_TIME.as_nanos() as u64,
            rounds: 1,
            deadline_ns: 2 * u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX / 2),
            clock: self.description.clock.clone(),
            rendezvous: None,
            by_hand: None,
        };
        let setting = Setting {
            command: &side.command,
            limit: self.limit,
            interrupted: &INTERRUPTED,
            enough: None,
        };
        let outcome = launch::run(&[Place::LOCAL], vec![launch], &setting);
        let (report, noise, failure) = match outcome {
            Ok(outcome) => {
                let report = outcome.reports.into_iter().flatten().next();
                let failure = outcome.failures.into_iter().next().map(|(_, failure)| failure);
                (report, outcome.noise, failure)
            }
            Err(Lost::Failed(_, failure)) => (None, Noise::default(), Some(failure)),
            Err(Lost::Interrupted) => return,
        };
        let report = report.filter(|_| failure.is_none()).unwrap_or(Report::FAILED);
        if let Some(failure) = failure {
            side.record.write(failed(name, block, Some(number), failure));
        }
        let others = noise.others_ns.map(|ns| ns / noise.duration_ns);
        self.lately.push_front((cpu, others));
        self.lately.truncate(CPUS_MAX);
        side.record.write(Row::Launch(Box::new(LaunchRow {
            block,
            launch: number,
            of: 0,
            wall_ns: began.elapsed().as_nanos() as f64,
            points: vec![report.of(recorded(name))],
            noise,
            placement: Placement(Few::from_iter([(MEASURED.into(), vec![cpu])])),
            link: None,
        })));
    }

    /// The CPU whose core is clearly most alone, or the usual one.
    fn most_alone(&mut self) -> usize {
        let usual = self.cpus[0];
        if self.cpus.len() == 1 {
            return usual;
        }
        let looks = look(&mut self.idle, &self.description, &self.cpus, self.limit);
        choose(usual, &looks, &self.lately)
    }
}

/// The CPU of the next launch: the usual one, or one whose core is clearly more alone. What a launch did on its CPU does
/// not make it busy.
fn choose(usual: usize, looks: &[CpuLook], lately: &VecDeque<(usize, Option<f64>)>) -> usize {
    let busy = |look: &CpuLook| match lately.iter().find(|(cpu, _)| *cpu == look.cpu) {
        Some((_, others)) => *others,
        None => look.busy,
    };
    let alone = |look: &CpuLook| match busy(look) {
        Some(busy) if busy > BUSY => 0.0,
        _ => look.alone,
    };
    let own = looks.iter().find(|look| look.cpu == usual).map_or(0.0, alone);
    let best = looks.iter().max_by(|one, other| alone(one).total_cmp(&alone(other)));
    best.filter(|best| alone(best) > own + CLEARLY).map_or(usual, |best| best.cpu)
}

/// Nothing is seen where the gauge's floor is not known.
fn look(
    idle: &mut Worker,
    description: &Description,
    cpus: &[usize],
    limit: Duration,
) -> Vec<CpuLook> {
    let Some(floor) = description.clock.core_floor else {
        return Vec::new();
    };
    let look = Command::Look(Look { cpus: cpus.to_vec(), enough: cpus.len(), floor });
    match idle.ask(&look, limit, &INTERRUPTED) {
        Ok(Answer::Looked { cpus: looks }) => looks,
        _ => Vec::new(),
    }
}

/// The row that says why a benchmark, or a launch of it, has no number.
pub(crate) fn failed(name: &str, block: usize, launch: Option<u32>, failure: Failure) -> Row {
    let Failure { kind, reason } = failure;
    Row::Failure(FailureRow { point: recorded(name), block, launch, kind, reason })
}

/// How many launches of a benchmark have a number.
fn useful(side: &Side, block: usize) -> u32 {
    let launches = side.record.run.launches.iter().filter(|launch| launch.block == block);
    launches.filter(|launch| launch.points.iter().any(|point| point.state != State::Failed)).count()
        as u32
}

/// How often a benchmark failed; one that the build does not have fails each time.
fn failures(side: &Side, block: usize) -> u32 {
    let failures = side.record.run.failures.iter().filter(|failure| failure.block == block);
    let weight = |failure: &FailureRow| match failure.kind {
        FailureKind::Unsupported => FAILURES_MAX,
        _ => 1,
    };
    failures.map(weight).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_goes_where_the_core_is_clearly_more_alone_and_others_are_not() {
        let look = |cpu, alone, busy| CpuLook { cpu, alone, busy, max_khz: None };
        let chosen = |looks: &[CpuLook], lately: &[(usize, Option<f64>)]| {
            choose(0, looks, &lately.iter().copied().collect())
        };
        let idle = Some(0.0);
        assert_eq!(chosen(&[look(0, 0.5, idle), look(1, 0.55, idle)], &[]), 0);
        assert_eq!(chosen(&[look(0, 0.5, idle), look(1, 0.9, idle)], &[]), 1);
        assert_eq!(chosen(&[look(0, 0.5, idle), look(1, 0.9, Some(0.9))], &[]), 0);
        // What made it busy was a launch.
        assert_eq!(chosen(&[look(0, 0.5, idle), look(1, 0.9, Some(0.9))], &[(1, idle)]), 1);
        assert_eq!(chosen(&[look(0, 0.5, idle), look(1, 0.9, idle)], &[(1, Some(0.9))]), 0);
        assert_eq!(chosen(&[], &[]), 0);
    }
}
