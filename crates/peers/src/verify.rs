//! Holds costof against the tools that are here: each check by itself, both sides in turns.

use crate::agreement::{Agreement, Band};
use crate::checks::{Beside, Check};
use crate::child::Interrupt;
use crate::costof::{Costof, settings, the_only};
use crate::error::{Error, Result, failed};
use crate::packages;
use crate::round::{self, Event, Side};
use crate::tool::{On, Says, words};
use costof_measure::gauge;
use costof_measure::turn::{self, Turn};
use costof_model::metric::CoreState;
use costof_model::unit::Unit;
use costof_os::awake::Spinners;
use costof_stats::median;
use fastrand::Rng;
use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a machine that another costof measures is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// For so long it may be the costof that has just measured, whose worker is about to end.
const IN_SILENCE: Duration = Duration::from_secs(2);

/// What all checks of a command have in common.
pub struct Verifier<'a> {
    /// Which costof.
    pub costof: &'a Costof,
    /// Where its run files go, which is the caller's to take away.
    pub folder: &'a Path,
    /// The processors, the measured one first.
    pub cpus: &'a [usize],
    /// Core cycles per addition while the measured core is alone, where that is known.
    pub core_floor: Option<f64>,
    /// How often both sides are measured.
    pub rounds: usize,
    /// How long either side may take for its number, and how long another costof is waited for before.
    pub limit: Duration,
    /// The user's wish to stop.
    pub interrupt: &'a Interrupt,
}

/// What became of a point and one tool.
#[derive(Debug)]
pub struct Row {
    /// The probe.
    pub probe: &'static str,
    /// Its axes as they were asked for.
    pub axes: String,
    /// The metric.
    pub metric: &'static str,
    /// The tool.
    pub tool: &'static str,
    /// What the tool's number is, and costof's beside it.
    pub says: Says,
    /// Where the ratio is expected.
    pub expected: Band,
    /// How the definitions differ.
    pub differs: &'static str,
    /// Whether something else used the measured core, in each of the tool's rounds: a gauge was read
    /// before and after. Empty where the core's floor is not known.
    pub core: Vec<CoreState>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a comparison.
#[derive(Debug)]
pub enum Outcome {
    /// costof's numbers over the tool's, in this unit.
    Compared(Agreement, Unit),
    /// The tool is not installed: where it is to be had.
    Absent(String),
    /// One side gave no number: which, and why.
    Failed(String),
}

/// What costof said in each round.
#[derive(Default)]
struct Own {
    medians: Vec<f64>,
    means: Vec<f64>,
    unit: Option<Unit>,
}

impl Own {
    /// What stands beside a number that is this.
    fn beside(&self, says: Says) -> &[f64] {
        match says {
            Says::Median => &self.medians,
            Says::Mean => &self.means,
        }
    }
}

impl Verifier<'_> {
    /// The rows of one check: a tool that is not here is absent, and one that fails costs its own row.
    ///
    /// # Errors
    /// The user ended it.
    pub fn check(&self, check: Check, happens: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Row>> {
        let Check {
            probe,
            axes,
            metric,
            processors,
            awake,
            lacks,
            beside,
        } = check;
        let row = |beside: &Beside, outcome| Row {
            probe,
            axes: axes.clone(),
            metric,
            tool: beside.tool.name,
            says: beside.tool.says,
            expected: beside.expected,
            differs: beside.differs,
            core: Vec::new(),
            outcome,
        };
        let (mut here, absent): (Vec<Beside>, Vec<Beside>) = beside
            .into_iter()
            .partition(|beside| packages::find(&beside.tool.program).is_some());
        let mut rows: Vec<Row> = absent
            .iter()
            .map(|beside| row(beside, Outcome::Absent(packages::missing(beside.tool.name))))
            .collect();
        if here.is_empty() {
            return Ok(rows);
        }
        let all_failed = |why: &str| {
            let failed = |beside| row(beside, Outcome::Failed(why.to_owned()));
            here.iter().map(failed).collect::<Vec<_>>()
        };
        if let Some(why) = lacks {
            rows.extend(all_failed(&why));
            return Ok(rows);
        }
        let Some(cpus) = self.cpus.get(..processors) else {
            rows.extend(all_failed(&format!("it takes {processors} processors")));
            return Ok(rows);
        };
        let _spinners = match awake.then(|| Spinners::start(cpus)).transpose() {
            Ok(spinners) => spinners,
            Err(error) => {
                let why = format!("cannot keep processors {cpus:?} awake: {error}");
                rows.extend(all_failed(&why));
                return Ok(rows);
            }
        };
        let happens = RefCell::new(happens);
        let waits = |holder: &str| (happens.borrow_mut())(Event::Waits(holder));
        let own = RefCell::new(Own::default());
        let states: Vec<RefCell<Vec<CoreState>>> =
            here.iter().map(|_| RefCell::default()).collect();
        let mut sides = vec![Side {
            name: "costof",
            measure: Box::new(|_| {
                // It waits for its turn too, but nobody hears it, and its time runs.
                drop(self.turn(&waits)?);
                self.costof(probe, &axes, metric, cpus, &own)
            }),
        }];
        for (beside, states) in here.iter_mut().zip(&states) {
            sides.push(Side {
                name: beside.tool.name,
                measure: Box::new(|_| {
                    // Another costof would disturb it, as it would another costof.
                    let _turn = self.turn(&waits)?;
                    let before = gauge::look_at(cpus[0]);
                    let number = beside.tool.measure(On {
                        cpu: cpus[0],
                        next: self.cpus.get(1).copied(),
                        limit: self.limit,
                        interrupt: self.interrupt,
                    })?;
                    if let (Some(floor), Ok(Some(before)), Ok(Some(after))) =
                        (self.core_floor, before, gauge::look_at(cpus[0]))
                    {
                        states.borrow_mut().push(gauge::state(floor, before, after));
                    }
                    Ok(number)
                }),
            });
        }
        let mut on_event = |event: Event<'_>| (happens.borrow_mut())(event);
        let given = round::interleave(self.rounds, &mut Rng::new(), &mut sides, &mut on_event)?;
        drop(sides);
        let (of_costof, of_tools) = given.split_first().expect("costof is the first side");
        let own = own.into_inner();
        for ((beside, given), core) in here.iter().zip(of_tools).zip(states) {
            let outcome = match (of_costof, given) {
                (Err(why), _) => Outcome::Failed(format!("costof: {why}")),
                (_, Err(why)) => Outcome::Failed(why.clone()),
                (Ok(_), Ok(numbers)) => {
                    let own_numbers = own.beside(beside.tool.says).to_vec();
                    match (Agreement::of(own_numbers, numbers.clone()), own.unit) {
                        (Some(agreement), Some(unit)) => Outcome::Compared(agreement, unit),
                        _ => Outcome::Failed("there was no round".to_owned()),
                    }
                }
            };
            rows.push(Row {
                core: core.into_inner(),
                ..row(beside, outcome)
            });
        }
        Ok(rows)
    }

    /// One quick run of one point.
    fn costof(
        &self,
        probe: &str,
        axes: &str,
        metric: &str,
        cpus: &[usize],
        own: &RefCell<Own>,
    ) -> Result<f64> {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let cpus = cpus.join(",");
        let axes = words(axes);
        let mut arguments = vec![probe, "--quick", "--cpu", &cpus];
        arguments.extend(settings(&axes));
        let file = self.folder.join("run.jsonl");
        let run = self
            .costof
            .run(&file, &arguments, self.limit, self.interrupt);
        // The next one writes a file of its own; where there is none, nothing is left to take away.
        let _ = std::fs::remove_file(&file);
        let run = run?;
        let estimate = the_only(&run, metric)?;
        let mut own = own.borrow_mut();
        own.medians.push(estimate.median);
        own.means.push(estimate.mean);
        own.unit = Some(estimate.unit);
        Ok(estimate.median)
    }

    /// The machine, once no other costof measures it.
    fn turn(&self, waits: &dyn Fn(&str)) -> Result<Turn> {
        let patience = Patience {
            in_silence: IN_SILENCE,
            at_most: self.limit,
        };
        patience.wait(turn::take, self.interrupt, waits)
    }
}

/// How long another costof is waited for.
struct Patience {
    /// This long without a word.
    in_silence: Duration,
    at_most: Duration,
}

impl Patience {
    /// What is taken, as soon as it is free; who has it is told once.
    fn wait<T>(
        &self,
        mut take: impl FnMut() -> std::result::Result<T, String>,
        interrupt: &Interrupt,
        waits: &dyn Fn(&str),
    ) -> Result<T> {
        let start = Instant::now();
        let mut is_told = false;
        loop {
            let holder = match take() {
                Ok(taken) => return Ok(taken),
                Err(holder) => holder,
            };
            let waited = start.elapsed();
            if interrupt.came() {
                return Err(Error::Interrupted);
            }
            if waited >= self.at_most {
                return Err(failed(format!(
                    "after {} s this machine is still being measured by {holder}",
                    self.at_most.as_secs_f64()
                )));
            }
            if !is_told && waited >= self.in_silence {
                waits(&holder);
                is_told = true;
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }
}

/// By how much the two sides of a comparison differ, as a share of the smaller, where half of all
/// comparisons differ by less; none without a comparison.
pub fn typical_difference(rows: &[Row]) -> Option<f64> {
    let differences = rows.iter().filter_map(|row| match &row.outcome {
        Outcome::Compared(agreement, _) => Some(agreement.ratio.ln().abs().exp() - 1.0),
        _ => None,
    });
    median(&differences.collect::<Vec<_>>())
}

/// The checks that are asked for, by the names of tools and by whether a probe is meant; without a
/// word, all.
///
/// # Errors
/// A word is neither a tool's name nor means a probe that a tool checks.
pub fn chosen(
    mut checks: Vec<Check>,
    asked: &[String],
    means: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Check>> {
    if asked.is_empty() {
        return Ok(checks);
    }
    for word in asked {
        let mut all = checks.iter();
        let known = all.any(|check| {
            means(word, check.probe) || check.beside.iter().any(|beside| beside.tool.name == word)
        });
        if !known {
            return Err(failed(unknown(word, &checks)));
        }
    }
    for check in &mut checks {
        let all = asked.iter().any(|word| means(word, check.probe));
        check
            .beside
            .retain(|beside| all || asked.iter().any(|word| beside.tool.name == word));
    }
    checks.retain(|check| !check.beside.is_empty());
    Ok(checks)
}

fn unknown(word: &str, checks: &[Check]) -> String {
    let mut tools: Vec<&str> = Vec::new();
    let mut probes: Vec<&str> = Vec::new();
    for check in checks {
        let names = check.beside.iter().map(|beside| beside.tool.name);
        let fresh: Vec<&str> = names.filter(|name| !tools.contains(name)).collect();
        tools.extend(fresh);
        if !probes.contains(&check.probe) {
            probes.push(check.probe);
        }
    }
    format!(
        "`{word}` is neither a tool that is known here ({}) nor a probe that one of them checks ({})",
        tools.join(", "),
        probes.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::checks;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn names(asked: &[&str]) -> Result<Vec<(&'static str, Vec<&'static str>)>> {
        let asked: Vec<String> = asked.iter().map(|&word| word.to_owned()).collect();
        let means = |word: &str, probe: &str| probe.starts_with(word);
        let chosen = chosen(checks(), &asked, means)?;
        let tools = |check: &Check| {
            let names = check.beside.iter().map(|beside| beside.tool.name);
            names.collect::<Vec<_>>()
        };
        Ok(chosen
            .iter()
            .map(|check| (check.probe, tools(check)))
            .collect())
    }

    #[test]
    fn who_is_waited_for_is_told_once_and_not_for_ever() {
        let told = RefCell::new(Vec::new());
        let waits = |holder: &str| told.borrow_mut().push(holder.to_owned());
        let patience = |in_silence, at_most| Patience {
            in_silence: Duration::from_millis(in_silence),
            at_most: Duration::from_millis(at_most),
        };
        let mut asked = 0;
        let third = || {
            asked += 1;
            match asked {
                3 => Ok("the machine"),
                _ => Err("process 5".to_owned()),
            }
        };
        let never = Interrupt::never();
        let taken = patience(0, 60_000).wait(third, &never, &waits).unwrap();
        assert_eq!(
            (taken, told.take()),
            ("the machine", vec!["process 5".to_owned()])
        );
        let taken = || Err::<(), _>("process 5".to_owned());
        let error = patience(60_000, 1).wait(taken, &never, &waits).unwrap_err();
        assert!(
            error.to_string().ends_with("measured by process 5"),
            "{error}"
        );
        assert!(told.take().is_empty());
        let stopped = Interrupt::by(Arc::new(AtomicBool::new(true)));
        let error = patience(0, 60_000)
            .wait(taken, &stopped, &waits)
            .unwrap_err();
        assert!(matches!(error, Error::Interrupted));
    }

    #[test]
    fn tools_and_probes_are_chosen_by_their_names() {
        assert_eq!(names(&[]).unwrap().len(), checks().len());
        assert_eq!(
            names(&["os.syscall"]).unwrap(),
            [("os.syscall", vec!["perf", "lmbench"])]
        );
        assert_eq!(
            names(&["mbw"]).unwrap(),
            [("memory.bandwidth", vec!["mbw"])]
        );
        let both = names(&["perf", "mbw"]).unwrap();
        assert_eq!(both.len(), 4);
        assert!(both.iter().all(|(_, tools)| tools.len() == 1));
        let error = names(&["perf", "rubbish"]).unwrap_err().to_string();
        assert!(
            error.contains("`rubbish`") && error.contains("sockperf"),
            "{error}"
        );
        assert!(error.contains("net.ping"), "{error}");
    }
}
