//! A program of others that measures what costof measures: what it is started as, and what its
//! number is. Each has a file in [`crate::tools`].

use crate::child::{self, Interrupt, pinned};
use crate::error::{Result, failed};
use crate::server::{Server, Transport, with_port};
use crate::{packages, tools};
use std::path::PathBuf;
use std::time::Duration;

/// How much of what it printed is shown where no number was found in it.
const SHOWN_CHARS: usize = 400;

/// A program that measures what costof measures.
pub struct Tool<'a> {
    /// What people call it.
    pub name: &'static str,
    /// The program, as a name on the path or a path.
    pub program: PathBuf,
    /// What its number is.
    pub statistic: Statistic,
    /// Its other end, where it has one: the same program with other arguments, on the next
    /// CPU. [`PORT`](crate::server::PORT) stands in both for the port.
    pub server: Option<(Vec<String>, Transport)>,
    /// What it finds in its environment beside the usual.
    pub environment: &'static [(&'static str, &'static str)],
    /// Its arguments in one round.
    pub arguments: Box<dyn FnMut() -> Result<Vec<String>> + 'a>,
    /// Its number for one round, in nanoseconds or bytes a second, from what it prints.
    pub read: Reading,
    /// Why it has no number, where what it prints tells that.
    pub why_not: fn(&str) -> Option<String>,
}

/// What a tool's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The median of many stretches, as costof's is: a noisy machine moves both alike.
    Median,
    /// One long time by the operations in it, interruptions among it: costof's mean, which holds
    /// them too, stands beside it. On a noisy machine few interruptions decide both.
    Mean,
}

/// How a tool's number is found in what it prints.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// The last word before these at the end of a line, the first such line, times so much.
    Before(&'static str, f64),
    /// By a function of its own.
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

/// Where a tool runs, and what bounds it.
#[derive(Clone, Copy)]
pub struct Conditions<'a> {
    /// The CPU that is measured.
    pub cpu: usize,
    /// That of a server, where there is a second one.
    pub next: Option<usize>,
    /// How long the tool may take for its number.
    pub limit: Duration,
    /// The user's wish to stop.
    pub interrupt: &'a Interrupt,
}

impl<'a> Tool<'a> {
    /// One that is installed, takes arguments that do not change, and has no other end.
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
            statistic,
            server: None,
            environment: &[],
            arguments: Box::new(move || Ok(arguments.clone())),
            read,
            why_not: |_| None,
        }
    }

    /// Its number.
    ///
    /// # Errors
    /// It is not installed, does not succeed in time, says why it has no number, or prints none that
    /// is known here.
    pub fn measure(&mut self, on: Conditions<'_>) -> Result<f64> {
        let mut command = pinned(on.cpu, &self.program)?;
        let arguments = (self.arguments)()?;
        let server = self.serve(on)?;
        command.envs(self.environment.iter().copied());
        match &server {
            Some(server) => command.args(with_port(&arguments, server.port)),
            None => command.args(arguments),
        };
        let finished = child::finish(&mut command, on.limit, on.interrupt)?;
        // Some say all of it where others complain.
        let printed = if finished.output.trim().is_empty() {
            finished.stderr
        } else {
            finished.output
        };
        self.read
            .number(&printed)
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or_else(|| {
                failed((self.why_not)(&printed).unwrap_or_else(|| {
                    format!(
                        "it printed no number that costof knows, but: {}",
                        tools::shortened(&printed, SHOWN_CHARS)
                    )
                }))
            })
    }

    /// The other end, where it has one: until it is dropped.
    fn serve(&self, on: Conditions<'_>) -> Result<Option<Server>> {
        let Some((arguments, transport)) = &self.server else {
            return Ok(None);
        };
        let cpu = on
            .next
            .ok_or_else(|| failed("its server takes a second CPU"))?;
        Server::start(&self.program, arguments, *transport, cpu, on.interrupt).map(Some)
    }
}

/// Arguments that hold no spaces.
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
            assert!(error.contains("no number that costof knows"), "{error}");
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
