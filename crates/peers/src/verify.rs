//! Compares costof with the tools that are installed. Each check runs by itself, and its sides take turns.

use crate::agreement::{Agreement, Band};
use crate::checks::Check;
use crate::child::Interrupt;
use crate::costof::{Costof, the_only};
use crate::error::{Error, OrCannot, Result, failed};
use crate::round::{self, Event, Side};
use crate::tool::{Conditions, Peer, Statistic};
use costof_measure::gauge;
use costof_measure::turn::{self, NotTaken, Turn};
use costof_model::{CoreState, Estimate, Unit, counted};
use costof_os::cpu::awake::Spinners;
use costof_stats::median;
use fastrand::Rng;
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often costof asks again for a machine that another costof is measuring.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// A wait is silent for this long: the other costof may be one that has just measured, and whose worker is
/// about to exit.
const SILENT_WAIT: Duration = Duration::from_secs(2);

/// What all checks of a command share.
pub struct Verifier<'a> {
    /// The costof executable.
    pub costof: &'a Costof,
    /// `--quick` or another precision of `costof run`.
    pub precision: &'a str,
    /// The folder for its run files, and for programs that are compiled.
    pub folder: &'a Path,
    /// The CPUs, the measured one first.
    pub cpus: &'a [usize],
    /// Core cycles per addition while the measured core is alone, if known.
    pub core_floor: Option<f64>,
    /// How many rounds to measure.
    pub rounds: usize,
    /// The time limit of a side for one number, and of a wait for another costof before.
    pub limit: Duration,
    /// The user's interrupt.
    pub interrupt: &'a Interrupt,
}

/// A point compared with one tool.
#[derive(Debug)]
pub struct Row {
    /// The probe.
    pub probe: &'static str,
    /// The axes of the check.
    pub axes: String,
    /// The metric.
    pub metric: &'static str,
    /// The tool.
    pub tool: &'static str,
    /// Which statistic the tool's number is. It is compared with the same statistic of costof's.
    pub statistic: Statistic,
    /// The expected band of the ratio.
    pub expected: Band,
    /// How the definitions differ.
    pub differs: &'static str,
    /// For each of the tool's rounds, whether something else used the measured core. A gauge was read before
    /// and after the round. Empty if the core's floor is not known.
    pub core: Vec<CoreState>,
    /// The result.
    pub outcome: Outcome,
    /// The comparison with costof's median, if the tool's number is a mean.
    pub by_median: Option<Agreement>,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// costof's numbers divided by the tool's, in this unit.
    Compared(Agreement, Unit),
    /// The tool is not installed: a sentence that says which package installs it.
    Absent(String),
    /// One side gave no number: which side, and why.
    Failed(String),
}

impl Row {
    fn new(check: &Check, peer: &Peer, outcome: Outcome) -> Row {
        Row {
            probe: check.probe,
            axes: check.axes.clone(),
            metric: check.metric,
            tool: peer.tool,
            statistic: peer.statistic,
            expected: peer.expected,
            differs: peer.differs,
            core: Vec::new(),
            outcome,
            by_median: None,
        }
    }
}

impl Verifier<'_> {
    /// Makes the rows of one check. A tool that is not installed is absent, and one that fails affects only
    /// its own row.
    ///
    /// # Errors
    /// The user interrupted.
    pub fn check(&self, mut check: Check, happens: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Row>> {
        let (mut here, mut rows) = (Vec::new(), Vec::new());
        for peer in std::mem::take(&mut check.peers) {
            match peer.missing() {
                Some(why) => rows.push(Row::new(&check, &peer, Outcome::Absent(why))),
                None => here.push(peer),
            }
        }
        if here.is_empty() {
            return Ok(rows);
        }
        match self.compare(&check, &here, happens) {
            Ok(compared) => rows.extend(compared),
            Err(Error::Failed(why)) => rows.extend(
                here.iter().map(|peer| Row::new(&check, peer, Outcome::Failed(why.clone()))),
            ),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
        }
        Ok(rows)
    }

    /// Measures costof and these tools in turns.
    fn compare(
        &self,
        check: &Check,
        peers: &[Peer],
        happens: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<Row>> {
        if let Some(why) = &check.lacks {
            return Err(failed(why));
        }
        let cpus = self
            .cpus
            .get(..check.cpus)
            .ok_or_else(|| failed(format!("it takes {}", counted(check.cpus, "CPU"))))?;
        let _spinners = check.awake.then(|| keep_awake(cpus)).transpose()?;
        let happens = RefCell::new(happens);
        let waits = |holder: &str| (happens.borrow_mut())(Event::Waits(holder));
        let own: RefCell<Vec<Estimate>> = RefCell::default();
        let cores: Vec<RefCell<Vec<CoreState>>> =
            peers.iter().map(|_| RefCell::default()).collect();
        let read = gauge::reader();
        let look = || gauge::look_at(&read, cpus[0]);
        let mut sides = vec![Side::new("costof", |round| {
            // costof waits for its turn too, but it does so silently, and its time limit runs meanwhile.
            drop(self.turn(&waits)?);
            let estimate = self.costof(check, cpus, round)?;
            let median = estimate.median;
            own.borrow_mut().push(estimate);
            Ok(median)
        })];
        sides.extend(peers.iter().zip(&cores).map(|(peer, core)| {
            Side::new(peer.tool, move |_| {
                // Another costof would disturb the tool, as it would disturb a costof.
                let _turn = self.turn(&waits)?;
                let before = look();
                let number = peer.measure(self.conditions())?;
                if let (Some(floor), Ok(Some(before)), Ok(Some(after))) =
                    (self.core_floor, before, look())
                {
                    core.borrow_mut().push(gauge::state(floor, before, after));
                }
                Ok(number)
            })
        }));
        let mut on_event = |event: Event<'_>| (happens.borrow_mut())(event);
        let given = round::interleave(self.rounds, &mut Rng::new(), &mut sides, &mut on_event)?;
        drop(sides);
        let own = own.into_inner();
        let medians: Vec<f64> = own.iter().map(|estimate| estimate.median).collect();
        let means: Vec<f64> = own.iter().map(|estimate| estimate.mean).collect();
        let (of_costof, of_tools) = given.split_first().expect("costof is the first side");
        let rows = peers.iter().zip(of_tools).zip(cores).map(|((peer, given), core)| {
            let with = |own: &[f64]| Agreement::new(own.to_vec(), given.clone().ok()?);
            let (numbers, by_median) = match peer.statistic {
                Statistic::Median => (&medians, None),
                Statistic::Mean => (&means, with(&medians)),
            };
            let outcome = match (of_costof, given) {
                (Err(why), _) => Outcome::Failed(format!("costof: {why}")),
                (_, Err(why)) => Outcome::Failed(why.clone()),
                _ => match (with(numbers), own.first()) {
                    (Some(agreement), Some(first)) => Outcome::Compared(agreement, first.unit),
                    _ => Outcome::Failed("there was no round".to_owned()),
                },
            };
            Row { core: core.into_inner(), by_median, ..Row::new(check, peer, outcome) }
        });
        Ok(rows.collect())
    }

    /// The conditions under which a tool runs.
    pub fn conditions(&self) -> Conditions<'_> {
        Conditions {
            cpu: self.cpus[0],
            next: self.cpus.get(1).copied(),
            folder: self.folder,
            limit: self.limit,
            interrupt: self.interrupt,
        }
    }

    /// Runs costof on one point.
    ///
    /// # Errors
    /// costof fails, takes too long, or has no number for the point.
    fn costof(&self, check: &Check, cpus: &[usize], round: usize) -> Result<Estimate> {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let cpus = cpus.join(",");
        let mut arguments = vec![check.probe, self.precision, "--cpu", &cpus];
        arguments.extend(check.settings());
        let name = format!("{}-{}.jsonl", check.point(), round + 1).replace([' ', '='], "-");
        let file = self.folder.join(name);
        let run = self.costof.run(&file, &arguments, self.limit, self.interrupt)?;
        the_only(&run, check.metric).cloned()
    }

    /// Waits until no other costof is measuring the machine, and takes it.
    fn turn(&self, waits: &dyn Fn(&str)) -> Result<Turn> {
        wait((SILENT_WAIT, self.limit), turn::take, self.interrupt, waits)
    }
}

/// Keeps CPUs from sleeping until this is dropped.
///
/// # Errors
/// The kernel does not allow it.
pub fn keep_awake(cpus: &[usize]) -> Result<Spinners> {
    Spinners::start(cpus).or_cannot("keep the measured CPUs awake")
}

/// Waits until the resource is free, for `at_most`, and takes it. Its holder is reported once, if that lasts longer than `silent`.
fn wait<T>(
    (silent, at_most): (Duration, Duration),
    mut take: impl FnMut() -> std::result::Result<T, NotTaken>,
    interrupt: &Interrupt,
    waits: &dyn Fn(&str),
) -> Result<T> {
    let start = Instant::now();
    let mut is_reported = false;
    loop {
        let holder = match take() {
            Ok(taken) => return Ok(taken),
            Err(NotTaken::Held(holder)) => holder,
            Err(NotTaken::Unknown(why)) => return Err(failed(why)),
        };
        let waited = start.elapsed();
        if interrupt.is_set() {
            return Err(Error::Interrupted);
        }
        if waited >= at_most {
            return Err(failed(format!(
                "after {} s this machine is still being measured by {holder}",
                at_most.as_secs_f64()
            )));
        }
        if !is_reported && waited >= silent {
            waits(&holder);
            is_reported = true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The median, over all comparisons, of how much the two sides differ, as a share of the smaller number; none
/// without a comparison.
pub fn typical_difference(rows: &[Row]) -> Option<f64> {
    let differences = rows.iter().filter_map(|row| match &row.outcome {
        Outcome::Compared(agreement, _) => Some(agreement.ratio.ln().abs().exp() - 1.0),
        _ => None,
    });
    median(&differences.collect::<Vec<_>>())
}

/// The checks that the words choose, by the names of tools and by probes; without words, all checks.
///
/// # Errors
/// A word is neither a tool's name nor a probe that has a check.
pub fn chosen(
    mut checks: Vec<Check>,
    asked: &[String],
    means: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Check>> {
    if asked.is_empty() {
        return Ok(checks);
    }
    let selects =
        |word: &str, check: &Check, peer: &Peer| means(word, check.probe) || peer.tool == word;
    for word in asked {
        let is_known = |check: &Check| check.peers.iter().any(|peer| selects(word, check, peer));
        if !checks.iter().any(is_known) {
            return Err(failed(unknown(word, &checks)));
        }
    }
    for check in &mut checks {
        let mut peers = std::mem::take(&mut check.peers);
        peers.retain(|peer| asked.iter().any(|word| selects(word, check, peer)));
        check.peers = peers;
    }
    checks.retain(|check| !check.peers.is_empty());
    Ok(checks)
}

fn unknown(word: &str, checks: &[Check]) -> String {
    let tools = checks.iter().flat_map(|check| &check.peers);
    format!(
        "`{word}` is neither a tool that is known here ({}) nor a probe that one of them checks ({})",
        distinct(tools.map(|peer| peer.tool)),
        distinct(checks.iter().map(|check| check.probe)),
    )
}

/// The distinct names, in the order in which they first appear.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Effort, checks};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn names(asked: &[&str]) -> Result<Vec<(&'static str, Vec<&'static str>)>> {
        let asked: Vec<String> = asked.iter().map(|&word| word.to_owned()).collect();
        let means = |word: &str, probe: &str| probe.starts_with(word);
        let chosen = chosen(checks(Effort::QUICK), &asked, means)?;
        let tools = |check: &Check| {
            let names = check.peers.iter().map(|peer| peer.tool);
            names.collect::<Vec<_>>()
        };
        Ok(chosen.iter().map(|check| (check.probe, tools(check))).collect())
    }

    #[test]
    fn who_is_waited_for_is_told_once_and_not_for_ever() {
        let reported = RefCell::new(Vec::new());
        let waits = |holder: &str| reported.borrow_mut().push(holder.to_owned());
        let patience =
            |silent, at_most| (Duration::from_millis(silent), Duration::from_millis(at_most));
        let mut asked = 0;
        let third = || {
            asked += 1;
            match asked {
                3 => Ok("the machine"),
                _ => Err(NotTaken::Held("process 5".to_owned())),
            }
        };
        let never = Interrupt::never();
        let taken = wait(patience(0, 60_000), third, &never, &waits).unwrap();
        assert_eq!((taken, reported.take()), ("the machine", vec!["process 5".to_owned()]));
        let taken = || Err::<(), _>(NotTaken::Held("process 5".to_owned()));
        let error = wait(patience(60_000, 1), taken, &never, &waits).unwrap_err();
        assert!(error.to_string().ends_with("measured by process 5"), "{error}");
        assert!(reported.take().is_empty());
        let stopped = Interrupt::from_flag(Arc::new(AtomicBool::new(true)));
        let error = wait(patience(0, 60_000), taken, &stopped, &waits).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
    }

    #[test]
    fn tools_and_probes_are_chosen_by_their_names() {
        assert_eq!(names(&[]).unwrap().len(), checks(Effort::QUICK).len());
        assert_eq!(names(&["os.syscall"]).unwrap(), [("os.syscall", vec!["perf", "lmbench"])]);
        assert_eq!(names(&["mbw"]).unwrap(), [("memory.bandwidth", vec!["mbw"])]);
        let both = names(&["perf", "mbw"]).unwrap();
        assert_eq!(both.len(), 4);
        assert!(both.iter().all(|(_, tools)| tools.len() == 1));
        let error = names(&["perf", "rubbish"]).unwrap_err().to_string();
        assert!(error.contains("`rubbish`") && error.contains("sockperf"), "{error}");
        assert!(error.contains("net.ping"), "{error}");
    }
}
