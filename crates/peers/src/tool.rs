//! A program that measures what costof measures: how it is started, and what its number means. Each has a
//! file in [`crate::tools`].

use crate::child::{self, Interrupt, pinned};
use crate::error::{Result, failed};
use crate::server::{Server, Transport, with_port};
use crate::tools::c::Source;
use crate::{packages, tools};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// If no number is found in the output, this much of it is shown.
const SHOWN_CHARS: usize = 400;

/// A program that measures what costof measures.
pub struct Tool<'a> {
    /// The name that people use.
    pub name: &'static str,
    /// The program: a name on the path, or a path. If there is a source, its compiler.
    pub program: PathBuf,
    /// The source of a program that is compiled first.
    pub source: Option<&'static Source>,
    /// Which statistic its number is.
    pub statistic: Statistic,
    /// If the tool has a server: its arguments. The server is the same program on the next CPU.
    /// [`PORT`](crate::server::PORT) stands for the port in the arguments of both.
    pub server: Option<(Vec<String>, Transport)>,
    /// Environment variables to set in addition to the inherited ones.
    pub environment: &'static [(&'static str, &'static str)],
    /// Its arguments in one round. [`CPU`] and [`NEXT_CPU`] stand for the two CPUs.
    pub arguments: Box<dyn FnMut() -> Result<Vec<String>> + 'a>,
    /// How to find its number in its output, in nanoseconds or bytes per second.
    pub read: Reading,
    /// Why it has no number, if its output says so.
    pub why_not: fn(&str) -> Option<String>,
}

/// Which statistic a tool's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The median of many samples, like costof's. Noise affects both in the same way.
    Median,
    /// The time of one long run divided by its operations, including interruptions. It is compared with
    /// costof's mean, which includes them too. On a noisy machine a few interruptions decide both.
    Mean,
}

/// How to find a tool's number in its output.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// The word before this text at the end of a line, in the first such line, multiplied by the factor.
    Before(&'static str, f64),
    /// By a function.
    By(fn(&str) -> Option<f64>),
}

impl Reading {
    /// The number in this output.
    pub fn number(self, output: &str) -> Option<f64> {
        match self {
            Reading::Before(words, times) => Some(times * number_before(output, words)?),
            Reading::By(read) => read(output),
        }
    }
}

/// Stands for the measured CPU in a tool's arguments.
pub const CPU: &str = "CPU";
/// Stands for the CPU of the other end in a tool's arguments.
pub const NEXT_CPU: &str = "NEXT_CPU";

/// Where a tool runs, and its limits.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The measured CPU.
    pub cpu: usize,
    /// The CPU of a server, if there is a second CPU.
    pub next: Option<usize>,
    /// The folder for programs that are compiled.
    pub folder: &'a Path,
    /// The time limit for one number.
    pub limit: Duration,
    /// The user's interrupt.
    pub interrupt: &'a Interrupt,
}

impl Conditions<'_> {
    fn next_cpu(&self, who: &str) -> Result<usize> {
        self.next.ok_or_else(|| failed(format!("{who} takes a second CPU")))
    }
}

impl<'a> Tool<'a> {
    /// An installed tool with fixed arguments and no server.
    pub fn simple(
        name: &'static str,
        statistic: Statistic,
        arguments: &str,
        read: Reading,
    ) -> Tool<'a> {
        let arguments = words(arguments);
        Tool {
            name,
            program: packages::find(name).unwrap_or_else(|| name.into()),
            source: None,
            statistic,
            server: None,
            environment: &[],
            arguments: Box::new(move || Ok(arguments.clone())),
            read,
            why_not: |_| None,
        }
    }

    /// Why it is not installed: a sentence that says which package installs it.
    pub fn missing(&self) -> Option<String> {
        match packages::find(&self.program) {
            Some(_) => self.source?.missing(),
            None => Some(packages::missing(self.name)),
        }
    }

    /// Measures one number.
    ///
    /// # Errors
    /// The tool is not installed, fails, takes too long, says why it has no number, or prints no number that
    /// this code recognises.
    pub fn measure(&mut self, on: Conditions<'_>) -> Result<f64> {
        let mut command = match self.source {
            Some(source) => pinned(on.cpu, &source.compiled(on)?)?,
            None => pinned(on.cpu, &self.program)?,
        };
        let mut arguments = (self.arguments)()?;
        for argument in &mut arguments {
            match argument.as_str() {
                CPU => *argument = on.cpu.to_string(),
                NEXT_CPU => *argument = on.next_cpu("its other end")?.to_string(),
                _ => {}
            }
        }
        let server = self.serve(on)?;
        command.envs(self.environment.iter().copied());
        match &server {
            Some(server) => command.args(with_port(&arguments, server.port)),
            None => command.args(arguments),
        };
        let finished = child::finish(&mut command, on.limit, on.interrupt)?;
        // Some tools print their results to standard error.
        let printed =
            if finished.output.trim().is_empty() { finished.stderr } else { finished.output };
        self.read.number(&printed).filter(|number| number.is_finite() && *number > 0.0).ok_or_else(
            || {
                failed((self.why_not)(&printed).unwrap_or_else(|| {
                    format!(
                        "it printed no number that costof knows, but: {}",
                        tools::shortened(&printed, SHOWN_CHARS)
                    )
                }))
            },
        )
    }

    /// Starts the server if the tool has one. It runs until it is dropped.
    fn serve(&self, on: Conditions<'_>) -> Result<Option<Server>> {
        let Some((arguments, transport)) = &self.server else {
            return Ok(None);
        };
        let cpu = on.next_cpu("its server")?;
        Server::start(&self.program, arguments, *transport, cpu, on.interrupt).map(Some)
    }
}

/// The words of a text, as arguments; none of them contains a space.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The number before `words` in the first line that ends with them.
pub fn number_before(output: &str, words: &str) -> Option<f64> {
    output
        .lines()
        .find_map(|line| line.trim().strip_suffix(words))
        .and_then(|number| number.split_whitespace().last())
        .and_then(|number| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &'static str) -> Tool<'static> {
        let mut tool = Tool::simple("sh", Statistic::Mean, "", Reading::Before("ns", 1.0));
        tool.arguments = Box::new(move || Ok(vec!["-c".to_owned(), script.to_owned()]));
        tool
    }

    fn measured(mut tool: Tool<'_>) -> Result<f64> {
        tool.measure(Conditions {
            cpu: costof_os::sched::affinity::allowed().unwrap()[0],
            next: None,
            folder: Path::new("/nowhere"),
            limit: Duration::from_secs(60),
            interrupt: &Interrupt::never(),
        })
    }

    fn measure(script: &'static str) -> Result<f64> {
        measured(shell(script))
    }

    #[test]
    fn numbers_are_read_before_their_words() {
        assert_eq!(number_before("a\n  total: 1.5 ns \n", "ns"), Some(1.5));
        assert_eq!(number_before("fast ns\n", "ns"), None);
        assert_eq!(number_before("", "ns"), None);
    }

    #[test]
    fn a_number_is_what_it_prints_wherever_it_does() {
        assert_eq!(measure("echo 2.5 ns").unwrap(), 2.5);
        assert_eq!(measure("echo 2.5 ns >&2").unwrap(), 2.5);
        assert_eq!(measure("echo 2.5 ns; echo 3 ns >&2").unwrap(), 2.5);
    }

    #[test]
    fn what_is_no_number_is_named_with_what_was_printed() {
        for script in ["echo fast", "echo 0 ns", "echo inf ns", "echo -1 ns"] {
            let error = measure(script).unwrap_err().to_string();
            assert!(error.contains("no number"), "{error}");
        }
        let error = measure("echo rubbish; exit 3").unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_server_without_a_processor_is_refused() {
        let mut tool = shell("echo 1 ns");
        tool.server = Some((Vec::new(), Transport::Tcp));
        let error = measured(tool).unwrap_err().to_string();
        assert!(error.contains("second CPU"), "{error}");
    }
}
