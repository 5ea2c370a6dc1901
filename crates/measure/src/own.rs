//! Probes of the user's own: what `costof.toml` defines, made into probes like costof's.
//!
//! This module knows nothing of the file. A worker runs foreign code only for the points that it measures, each in a
//! launch of its own, so that a crash costs that launch alone.

mod command;
mod function;
mod program;

use crate::meter::Meter;
use crate::probe::{Info, Probe, Role, only};
use costof_model::{
    Axis, AxisValue, Better, Failure, List, MetricInfo, Point, ProbeInfo, Text, Unit, fail,
};
use costof_os::process::command::{adopt_orphans, children, end_children};
use costof_os::process::shared_object::ARGUMENTS_MAX;
use rustix::process::Pid;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The most axes of a function, whose first argument is n.
pub const FUNCTION_AXES_MAX: usize = ARGUMENTS_MAX - 1;

/// A probe of the user's own.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnProbe {
    /// The file that defines it.
    pub file: PathBuf,
    /// `project.name`.
    pub id: String,
    /// The version of its method, which the user counts.
    pub method: u32,
    /// The question, as a person asks it.
    pub question: String,
    /// What the user says of it beside the question; may be empty.
    pub about: String,
    /// What it relies on, as the user says.
    pub sources: Vec<String>,
    /// What it varies, in the order of a function's arguments.
    pub axes: Vec<Axis>,
    /// What it measures.
    pub operation: Operation,
}

/// What a probe of the user's own measures.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// A function of a shared object, `void f(uint64_t n, …)`, which does the operation n times.
    Function {
        /// The shared object, an absolute path.
        object: PathBuf,
        /// The function's symbol.
        function: String,
        /// Called with the axes before a point is measured.
        setup: Option<String>,
        /// Called with the axes after it.
        teardown: Option<String>,
    },
    /// A program that reads n from a line, does the operation n times, and writes n on a line.
    Program(Words),
    /// A command, from its start to its end.
    Command(Words),
}

/// The words of a command line, in which `{axis}` stands for the value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Words(pub Vec<String>);

/// The primary metric of every own probe.
const COST: &str = "cost";
/// What a program needs to be asked and to answer.
const ROUND_TRIP: &str = "round_trip";
/// How long a program may take for an answer, and a command for its first run: well below the controller's own limit, which
/// would not name it.
const LIMIT: Duration = Duration::from_secs(20);

impl Words {
    /// The words with a point's values.
    fn filled_at(&self, point: &Point) -> Vec<String> {
        let filled = |word: &String| {
            let axes = point.axes.0.iter();
            axes.fold(word.clone(), |word, (axis, value)| {
                word.replace(&format!("{{{axis}}}"), &value.to_string())
            })
        };
        self.0.iter().map(filled).collect()
    }

    /// Whether the value of an axis stands somewhere.
    pub fn have(&self, axis: &str) -> bool {
        self.0.iter().any(|word| word.contains(&format!("{{{axis}}}")))
    }

    /// The small words between braces, which mean axes, but not the shell's `${word}`.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|word| placeholders(word))
    }

    /// As a line.
    fn line(&self) -> String {
        self.0.join(" ")
    }
}

fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    word.match_indices('{').filter_map(|(at, _)| {
        let (name, _) = word[at + 1..].split_once('}')?;
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_axis = !name.is_empty() && name.chars().all(is_name);
        (is_axis && !word[..at].ends_with('$')).then_some(name)
    })
}

impl Probe {
    /// The probe for a definition. Both last as long as this process.
    pub fn own(definition: OwnProbe) -> &'static Probe {
        let definition: &'static OwnProbe = Box::leak(Box::new(definition));
        // A crash at one point must cost no other one.
        let blocks_by: Vec<&str> = definition.axes.iter().map(|axis| &*axis.name).collect();
        let is_program = matches!(definition.operation, Operation::Program(_));
        Box::leak(Box::new(Probe {
            info: Info::Known(definition.info()),
            rounds: 1,
            is_of_one_cpu: false,
            blocks_by: blocks_by.leak(),
            least_ns: |_| 0.0,
            memory_bytes: |_| 0,
            disk_bytes: |_| 0,
            processors: |_| 1,
            headlines: |_| Vec::new(),
            more_points: |_| Vec::new(),
            can_exist: |_, _| true,
            budget: None,
            predict: |_, _, _| None,
            roles: &[],
            own: Some(definition),
            derive: if is_program { program::derive } else { |_, reports| only(reports) },
        }))
    }
}

impl OwnProbe {
    /// Starts its role for a launch.
    pub(crate) fn start(&'static self) -> Result<Box<dyn Role>, Failure> {
        // What its code leaves running is then a child of this process, which ends it.
        let _ = adopt_orphans();
        let at_end = EndOthers(children());
        Ok(match &self.operation {
            Operation::Function { object, function, setup, teardown } => {
                let hooks = [setup.as_deref(), teardown.as_deref()];
                Box::new(function::FunctionRole::load(self, at_end, object, function, hooks)?)
            }
            Operation::Program(words) => {
                Box::new(program::ProgramRole { _at_end: at_end, own: self, words, program: None })
            }
            Operation::Command(words) => {
                Box::new(command::CommandRole { _at_end: at_end, own: self, words, command: None })
            }
        })
    }

    /// Its description.
    fn info(&self) -> ProbeInfo {
        let metric = |name, about| MetricInfo {
            name: Text::Borrowed(name),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            about: Text::Borrowed(about),
        };
        let mut metrics = vec![metric(COST, "one operation")];
        if matches!(self.operation, Operation::Program(_)) {
            let about = "a question with n = 0 and its answer, which is taken off each batch";
            metrics.push(metric(ROUND_TRIP, about));
        }
        let how = [self.about.trim(), &self.operation.how(&self.axes)];
        ProbeInfo {
            id: Text::Owned(self.id.clone()),
            method: self.method,
            question: Text::Owned(self.question.clone()),
            axes: List::Owned(self.axes.clone()),
            crossings: List::Borrowed(&[]),
            metrics: List::Owned(metrics),
            how: Text::Owned(how.join(" ").trim().to_owned()),
            sources: self.sources.iter().cloned().map(Text::Owned).collect(),
            predicted_from: Text::Borrowed(
                "nothing: costof cannot know what your own code should cost",
            ),
            after: List::Borrowed(&[]),
            needs: List::Borrowed(&[]),
            relations: List::Borrowed(&[]),
            roles: List::Borrowed(&[Text::Borrowed("only")]),
            aliases: List::Borrowed(&[]),
        }
    }

    /// Refuses a point of another definition: the file may have changed since the run was planned.
    fn check(&self, point: &Point) -> Result<(), Failure> {
        let has =
            |axis: &Axis| point.axes.0.get(&axis.name).is_some_and(|value| axis.allows(value));
        if self.axes.iter().all(has) && self.axes.len() == point.axes.0.len() {
            return Ok(());
        }
        fail!("{} defines no point {point} any more: start a new run", self.file.display())
    }

    /// The values of a point, in the order of the axes.
    fn values<'p>(&self, point: &'p Point) -> Vec<&'p AxisValue> {
        self.axes.iter().filter_map(|axis| point.axes.0.get(&axis.name)).collect()
    }

    /// The command with these words at a point, in the folder of the file, and its line.
    fn command_at(&self, words: &Words, point: &Point) -> Result<(String, Command), Failure> {
        self.check(point)?;
        let words = words.filled_at(point);
        let (program, arguments) = words.split_first().expect("the file's reader wants a word");
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(folder) = self.file.parent() {
            command.current_dir(folder);
        }
        Ok((words.join(" "), command))
    }
}

impl Operation {
    fn how(&self, axes: &[Axis]) -> String {
        match self {
            Operation::Function { object, function, .. } => {
                let names = axes.iter().map(|axis| &*axis.name);
                let arguments: Vec<&str> = std::iter::once("n").chain(names).collect();
                let name = object.file_name().unwrap_or_default().to_string_lossy();
                format!(
                    "Calls {function}({}) of {name}, which does the operation n times, in batches of n and of 2n. The call \
                     itself is a few nanoseconds a batch.",
                    arguments.join(", ")
                )
            }
            Operation::Program(words) => format!(
                "Starts `{}` on the measured CPU, and writes n on a line. The program does the operation n times, and \
                 answers by the same line. The round trip with n = 0 is taken off each batch, which lasts at least {} \
                 times as long.",
                words.line(),
                program::ROUND_TRIPS_PER_BATCH
            ),
            Operation::Command(words) => format!(
                "Starts `{}` on the measured CPU, without a shell, and waits for its end, n times a batch. The cost is the \
                 wall time of one, with the start of its process; its output is discarded.",
                words.line()
            ),
        }
    }
}

/// The children of this process that are none of a role's: when it is dropped, it ends all others, which the role's code has
/// left running.
struct EndOthers(Vec<Pid>);

impl Drop for EndOthers {
    fn drop(&mut self) {
        end_children(&self.0);
    }
}

/// How long n operations take, nanoseconds.
fn batch_ns(
    meter: &Meter<'_>,
    n: u64,
    operation: &mut impl FnMut(u64) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let clock = meter.clock();
    let start = clock.start();
    operation(n)?;
    Ok(clock.ns(clock.end().saturating_sub(start)))
}

/// How many operations are tried at most until they take measurable time.
const OPERATIONS_TRIED: u64 = 1 << 34;

/// Checks that an operation done often enough takes at least `least_ns`, twice in a row, since the first time may be slow
/// by itself: how often.
fn check_it_takes_time(
    meter: &Meter<'_>,
    what: &str,
    least_ns: f64,
    mut operation: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut n = 1;
    loop {
        let ns = batch_ns(meter, n, &mut operation)?;
        if ns >= least_ns && batch_ns(meter, n, &mut operation)? >= least_ns {
            return Ok(n);
        }
        if n >= OPERATIONS_TRIED {
            fail!(
                "{what} returns at once, however large n is ({} for n = {n}): it must do the operation n times, and use \
                 the result, or the compiler removes the work",
                Unit::Nanoseconds.display(ns)
            );
        }
        n *= 4;
    }
}

/// How often n and 2n operations are tried, at least and at most, and how many times longer 2n must take. The fastest
/// of each counts, so that an interruption, or a clock that is still rising, proves nothing.
const TRIES: [usize; 2] = [3, 30];
const LONGER_MIN: f64 = 1.5;

/// Checks that 2n operations take longer than n.
fn check_it_grows(
    meter: &Meter<'_>,
    what: &str,
    n: u64,
    mut operation: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut fastest_ns = [f64::INFINITY; 2];
    for done in 1..=TRIES[1] {
        for (times, fastest_ns) in [1, 2].into_iter().zip(&mut fastest_ns) {
            *fastest_ns = fastest_ns.min(batch_ns(meter, times * n, &mut operation)?);
        }
        if done >= TRIES[0] && fastest_ns[1] >= LONGER_MIN * fastest_ns[0] {
            return Ok(());
        }
    }
    let [once, twice] = fastest_ns.map(|ns| Unit::Nanoseconds.display(ns));
    fail!(
        "{what} takes as long for n = {} as for n = {n} ({twice} and {once}): it must do the operation n times",
        2 * n
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::program::derive;
    use costof_model::axis::Axes;
    use costof_model::metric::{Data, Measured};
    use costof_model::protocol::Report;
    use costof_model::rows::State;

    fn point() -> Point {
        let axes = Axes::default().with("size", 64).with("file", "a.txt");
        Point { probe: Text::Borrowed("x.y"), axes, link: Text::Borrowed("none") }
    }

    #[test]
    fn words_have_the_values_of_the_axes() {
        let words = Words(vec!["wc".to_owned(), "{size}:{file}".to_owned(), "{other}".to_owned()]);
        assert_eq!(words.filled_at(&point()), ["wc", "64:a.txt", "{other}"]);
        assert!(words.have("size") && !words.have("siz"));
    }

    #[test]
    fn the_round_trip_is_taken_off_each_batch() {
        let measured = |name: &'static str, data| Measured::new(Text::Borrowed(name), data);
        let samples = Data::Samples(vec![(1, 1100.0), (2, 2100.0), (1, 90.0)]);
        let metrics = vec![measured(COST, samples), measured(ROUND_TRIP, Data::Value(100.0))];
        let report = Report { state: State::Ok, metrics, allocations: 0 };
        let derived = derive(&point(), vec![report]);
        let Data::Samples(samples) = &derived.metrics[0].data else { panic!("{derived:?}") };
        assert_eq!(samples[..2], [(1, 1000.0), (2, 2000.0)]);
        assert!(samples[2].1 > 0.0 && samples[2].1 < 1.0, "{samples:?}");
    }
}
