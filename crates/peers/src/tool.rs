//! A program that measures what costof measures: how it is started, and what its number means.

use crate::agreement::Band;
use crate::c::Source;
use crate::child::{self, Interrupt, pinned};
use crate::error::{OrCannot, Result, failed};
use crate::packages;
use crate::server::{Server, Transport};
use costof_os::file::{data::DataFile, scratch};
use costof_stats::median;
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// If no number is found in the output, this much of it is shown.
const SHOWN_CHARS: usize = 400;

/// A tool that a point is compared with, as `verify.toml` describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The name that people use.
    pub tool: &'static str,
    /// The program, if it has another name: one on the path, or a path.
    pub program: Option<PathBuf>,
    /// The source of a program that the tool, a compiler, compiles first.
    pub source: Option<Source>,
    /// Its arguments, with words in braces for what is only known when it starts.
    pub run: String,
    /// If the tool has a server: its arguments. The server is the same program on the next CPU.
    pub server: Option<&'static str>,
    /// What the server waits for.
    #[serde(default)]
    pub transport: Transport,
    /// Environment variables to set in addition to the inherited ones.
    #[serde(default)]
    pub environment: BTreeMap<&'static str, &'static str>,
    /// The length of the file that takes the place of `{file}`.
    #[serde(default)]
    pub file_bytes: u64,
    /// Which statistic its number is.
    pub statistic: Statistic,
    /// How to find its number in its output, in nanoseconds or bytes per second. The parts are added.
    pub read: Vec<Reading>,
    /// What the output has to say for the number to count, and the reason if it does not.
    #[serde(default)]
    pub requires: Vec<(&'static str, &'static str)>,
    /// The band in which costof's number divided by the tool's is expected.
    pub expected: Band,
    /// How the definitions differ, and what effect that has.
    pub differs: &'static str,
}

/// Which statistic a tool's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The median of many samples, like costof's. Noise affects both in the same way.
    Median,
    /// The time of one long run divided by its operations, including interruptions. It is compared with
    /// costof's mean, which includes them too. On a noisy machine a few interruptions decide both.
    Mean,
}

/// A part of a tool's number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// A regular expression, whose first group is the number.
    find: &'static str,
    /// What the number is multiplied by, or what is divided by it.
    #[serde(default = "one")]
    times: f64,
    /// Whether `times` is divided by the number, a rate.
    #[serde(default)]
    rate: bool,
    #[serde(default)]
    of: Of,
}

fn one() -> f64 {
    1.0
}

/// Which of several matches counts.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    #[default]
    First,
    Last,
    Median,
    Max,
}

impl Reading {
    fn number(&self, output: &str) -> Option<f64> {
        let expression = Regex::new(self.find).expect("a test compiles it");
        let found = expression.captures_iter(output);
        let numbers: Vec<f64> = found.filter_map(|found| found[1].parse().ok()).collect();
        let number = match self.of {
            Of::First => numbers.first().copied(),
            Of::Last => numbers.last().copied(),
            Of::Median => median(&numbers),
            Of::Max => numbers.into_iter().reduce(f64::max),
        }?;
        Some(if self.rate { self.times / number } else { self.times * number })
    }
}

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

impl Peer {
    fn program(&self) -> &Path {
        self.program.as_deref().unwrap_or(Path::new(self.tool))
    }

    /// Why it is not installed: a sentence that says which package installs it.
    pub fn missing(&self) -> Option<String> {
        match packages::find(self.program()) {
            Some(_) => self.source.as_ref()?.missing(),
            None => Some(packages::missing(self.tool)),
        }
    }

    /// Measures one number.
    ///
    /// # Errors
    /// The tool is not installed, fails, takes too long, or prints no number that counts.
    pub fn measure(&self, on: Conditions<'_>) -> Result<f64> {
        let mut command = match &self.source {
            Some(source) => pinned(on.cpu, &source.compiled(on)?)?,
            None => pinned(on.cpu, self.program())?,
        };
        let needs = |word: &str| self.run.contains(word);
        let seed = fastrand::u64(..).to_string();
        let mut words = vec![("cpu", on.cpu.to_string()), ("seed", seed)];
        if needs("{next_cpu}") {
            words.push(("next_cpu", on.next_cpu("its other end")?.to_string()));
        }
        if needs("{folder}") {
            let folder = scratch::folder();
            let folder = folder.ok_or_else(|| failed("there is no folder on a disk (TMPDIR)"))?;
            words.push(("folder", folder.to_string_lossy().into_owned()));
        }
        // It opens the file through this process's descriptor for it.
        let file = needs("{file}").then(|| self.file()).transpose()?;
        let path = |file: &DataFile| {
            format!("/proc/{}/fd/{}", std::process::id(), file.file().as_raw_fd())
        };
        words.extend(file.iter().map(|file| ("file", path(file))));
        let server = self.serve(on)?;
        words.extend(server.iter().map(|server| ("port", server.port.to_string())));
        command.args(self.run.split_whitespace().map(|word| put(word, &words)));
        command.envs(&self.environment);
        let finished = child::finish(&mut command, on.limit, on.interrupt)?;
        // Some tools print their results to standard error.
        let printed =
            if finished.output.trim().is_empty() { finished.stderr } else { finished.output };
        self.number(&printed)
    }

    /// The number in this output.
    ///
    /// # Errors
    /// There is none, or it does not count.
    pub fn number(&self, output: &str) -> Result<f64> {
        let parts = self.read.iter().map(|part| part.number(output));
        let number = parts.sum::<Option<f64>>().filter(|sum| sum.is_finite() && *sum > 0.0);
        let Some(number) = number else {
            let shown = shortened(output, SHOWN_CHARS);
            return Err(failed(format!("it printed no number that costof knows, but: {shown}")));
        };
        match self.requires.iter().find(|(text, _)| !output.contains(text)) {
            Some((_, why)) => Err(failed(why)),
            None => Ok(number),
        }
    }

    /// A new file without a name, in the folder that costof uses.
    fn file(&self) -> Result<DataFile> {
        let action = format_args!("make a file for {}", self.tool);
        let mut file = DataFile::create(None).or_cannot(action)?;
        file.extend(self.file_bytes).or_cannot(action)?;
        Ok(file)
    }

    /// Starts the server if the tool has one. It runs until it is dropped.
    fn serve(&self, on: Conditions<'_>) -> Result<Option<Server>> {
        let Some(run) = self.server else {
            return Ok(None);
        };
        let cpu = on.next_cpu("its server")?;
        Server::start(self.program(), run, self.transport, cpu, on.interrupt).map(Some)
    }
}

/// A text with values for its words in braces.
pub(crate) fn put(text: &str, words: &[(&str, String)]) -> String {
    let put =
        |text: String, (name, value): &(&str, String)| text.replace(&format!("{{{name}}}"), value);
    words.iter().fold(text.to_owned(), put)
}

/// The beginning of a program's output.
fn shortened(text: &str, chars: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Effort, read};

    /// A tool with these lines, the rest as little as may be.
    fn tool(lines: &str) -> Peer {
        let text = format!(
            "[[check]]\nprobe = 'a.b'\naxes = ''\nmetric = 'cost'\n[[check.peers]]\nstatistic = 'mean'\n\
             expected = {{ low = 0, high = 1 }}\ndiffers = ''\nread = [{{ find = '(\\S+)_ns' }}]\n{lines}"
        );
        read(text.leak(), Effort::QUICK).remove(0).peers.remove(0)
    }

    /// A shell with this script; what a tool is given has no blanks within a word.
    fn shell(script: &str) -> Peer {
        Peer {
            run: format!("-c {}", script.replace(' ', "${IFS}")),
            ..tool("tool = 'sh'\nrun = ''")
        }
    }

    fn measured(tool: &Peer) -> Result<f64> {
        tool.measure(Conditions {
            cpu: costof_os::sched::affinity::allowed().unwrap()[0],
            next: None,
            folder: Path::new("/nowhere"),
            limit: Duration::from_secs(60),
            interrupt: &Interrupt::never(),
        })
    }

    fn measure(script: &str) -> Result<f64> {
        measured(&shell(script))
    }

    #[test]
    fn a_number_is_what_it_prints_wherever_it_does() {
        assert_eq!(measure("echo 2.5_ns").unwrap(), 2.5);
        assert_eq!(measure("echo 2.5_ns >&2").unwrap(), 2.5);
        assert_eq!(measure("echo 2.5_ns; echo 3_ns >&2").unwrap(), 2.5);
    }

    #[test]
    fn what_is_no_number_is_named_with_what_was_printed() {
        for number in ["fast", "0", "inf", "-1"] {
            let error = measure(&format!("echo {number}_ns")).unwrap_err().to_string();
            assert!(error.contains("no number") && error.contains(number), "{error}");
        }
        let error = measure("echo rubbish; exit 3").unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_server_without_a_processor_is_refused() {
        let error =
            measured(&Peer { server: Some(""), ..shell("echo 1_ns") }).unwrap_err().to_string();
        assert!(error.contains("second CPU"), "{error}");
    }

    #[test]
    fn its_file_has_no_name_and_the_length_that_is_asked_for() {
        let stat = "tool = 'stat'\nrun = '-L -c %s:%h_ns {file}'\nfile_bytes = 4096";
        let mut tool = tool(stat);
        tool.read[0].find = r"^(\d+):0_ns";
        match tool.file() {
            Ok(_) => assert_eq!(measured(&tool).unwrap(), 4096.0),
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
