//! From the command line to the programs to start: parameters, shells, words.

use crate::cli::{TimeOptions, TurnOptions};
use crate::error::{Result, bail};
use crate::files::is_program;
use costof_measure::command::{Capture, Output, Program};
use costof_model::{TimedCommand, counted};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A command with all that belongs to each of its runs.
pub(in crate::commands) struct Job {
    pub(super) timed: TimedCommand,
    pub(super) program: Program,
    pub(super) prepare: Option<Program>,
    pub(super) conclude: Option<Program>,
}

/// At most so many commands come from parameters.
const MAX_JOBS: usize = 1000;

/// The commands to measure, in the order of the command line, each with all values of the parameters.
pub(super) fn jobs(options: &TimeOptions) -> Result<Vec<Job>> {
    let sets = parameter_sets(options)?;
    let count = options.commands.len();
    let mut jobs = Vec::new();
    if !options.argv.is_empty() {
        jobs.push(Job::new(&options.argv, (0, 1), &BTreeMap::new(), &options.turns)?);
    }
    for (position, command) in options.commands.iter().enumerate() {
        for parameters in &sets {
            let command = substitute(command, parameters);
            let (shell, words) = words(&command, options.turns.shell())?;
            let mut job = Job::new(&words, (position, count), parameters, &options.turns)?;
            job.timed.name.clone_from(&command);
            (job.timed.command, job.timed.shell) = (command, shell);
            jobs.push(job);
        }
    }
    if jobs.len() > MAX_JOBS {
        bail!("{} commands are more than {MAX_JOBS}", jobs.len());
    }
    if options.names.len() > jobs.len() {
        bail!("{} names for {}", options.names.len(), counted(jobs.len(), "command"));
    }
    for (job, name) in jobs.iter_mut().zip(&options.names) {
        job.timed.name.clone_from(name);
    }
    Ok(jobs)
}

impl Job {
    /// A program that is started as it is, with what belongs to its runs: it is the command at a position among so many.
    pub(in crate::commands) fn new(
        words: &[OsString],
        (position, count): (usize, usize),
        parameters: &BTreeMap<String, String>,
        options: &TurnOptions,
    ) -> Result<Job> {
        let beside = |commands: &[String], option: &str| {
            let command = match commands.len() {
                0 => return Ok(None),
                1 => &commands[0],
                given if given == count => &commands[position],
                given => bail!(
                    "{option} is given {given} times for {count} commands: once, or once for each"
                ),
            };
            Ok(Some(unmeasured(&substitute(command, parameters))))
        };
        let text = words.iter().map(|word| word.to_string_lossy());
        let command = text.collect::<Vec<_>>().join(" ");
        Ok(Job {
            prepare: beside(&options.prepare, "--prepare")?,
            conclude: beside(&options.conclude, "--conclude")?,
            program: Program {
                words: words.to_vec(),
                input: options.input().map(Path::to_path_buf),
                output: output(options),
                folder: None,
            },
            timed: TimedCommand {
                name: command.clone(),
                command,
                parameters: parameters.clone(),
                ..TimedCommand::default()
            },
        })
    }

    /// Gives it a name, and a folder in which it and what belongs to it is started.
    pub(in crate::commands) fn named_in(mut self, name: &str, folder: &Path) -> Job {
        name.clone_into(&mut self.timed.name);
        let all = [Some(&mut self.program), self.prepare.as_mut(), self.conclude.as_mut()];
        for program in all.into_iter().flatten() {
            program.folder = Some(folder.to_owned());
        }
        self
    }
}

/// A command that is not measured, by sh; its errors are shown.
pub(super) fn unmeasured(command: &str) -> Program {
    Program { words: by_shell("sh", command), input: None, output: Output::Errors, folder: None }
}

fn output(options: &TurnOptions) -> Output {
    let capture = Capture { patterns: options.metric_regex.clone() };
    match &*options.output {
        _ if options.show_output => Output::Inherit,
        "null" if options.metric_regex.is_empty() => Output::Null,
        "null" | "pipe" => Output::Capture(capture),
        "inherit" => Output::Inherit,
        file => Output::File(PathBuf::from(file)),
    }
}

/// Refuses an output that is probably misspelt, or out of reach of the patterns.
pub(super) fn check_output(options: &TurnOptions) -> Result<()> {
    let output = &*options.output;
    let is_read = matches!(output, "null" | "pipe") && !options.show_output;
    if !(is_read || output.contains('/') || output == "inherit" || options.show_output) {
        bail!("--output is null, inherit, pipe or a file with its folder: ./{output}");
    }
    if !(is_read || options.metric_regex.is_empty()) {
        bail!("--metric-regex reads what the commands print, so it needs --output null or pipe");
    }
    Ok(())
}

fn by_shell(shell: &str, command: &str) -> Vec<OsString> {
    [shell, "-c", command].map(OsString::from).into()
}

/// The shell that runs a command, if one does, and the words to start.
pub(in crate::commands) fn words(
    command: &str,
    shell: Option<&str>,
) -> Result<(Option<String>, Vec<OsString>)> {
    let split = |command| -> Option<Vec<OsString>> {
        let words = shlex::split(command).filter(|words| !words.is_empty())?;
        Some(words.into_iter().map(OsString::from).collect())
    };
    let shell = match shell {
        Some("default") => "sh",
        Some(shell) => shell,
        None if is_plain(command) || command.trim().is_empty() => "none",
        None => "sh",
    };
    if shell == "none" {
        let Some(words) = split(command) else {
            bail!("`{command}` is no command: it is empty, or has an unbalanced quote");
        };
        return Ok((None, words));
    }
    // A shell may be given with options: `bash --norc`.
    let Some(mut words) = split(shell) else {
        bail!("--shell needs the name of a shell, or none");
    };
    words.extend(by_shell("", command).into_iter().skip(1));
    Ok((Some(shell.to_owned()), words))
}

/// Whether a command means the same without a shell: words of ordinary characters, or in quotes within which a shell replaces
/// nothing, the first of which is a program.
fn is_plain(command: &str) -> bool {
    let mut quote = None;
    let means_itself = |c: char| {
        let is_plain = match quote {
            None => c.is_alphanumeric() || " /._-+,:@%='\"".contains(c),
            Some('\'') => true,
            Some(_) => !"$`\\!".contains(c),
        };
        match quote {
            None if matches!(c, '\'' | '"') => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        is_plain
    };
    let first = || shlex::split(command).and_then(|words| words.into_iter().next());
    command.chars().all(means_itself) && first().is_some_and(|first| is_program(&first))
}

fn substitute(text: &str, parameters: &BTreeMap<String, String>) -> String {
    let replace = |text: String, (name, value): (&String, &String)| {
        text.replace(&format!("{{{name}}}"), value)
    };
    parameters.iter().fold(text.to_owned(), replace)
}

/// All combinations of the parameters' values; one empty set without parameters.
fn parameter_sets(options: &TimeOptions) -> Result<Vec<BTreeMap<String, String>>> {
    let mut parameters: Vec<(&String, Vec<String>)> = Vec::new();
    for pair in options.parameter_list.chunks(2) {
        parameters.push((&pair[0], listed(&pair[1])));
    }
    for scan in options.parameter_scan.chunks(3) {
        let values = scanned(&scan[1], &scan[2], options.parameter_step_size)?;
        parameters.push((&scan[0], values));
    }
    let mut sets = vec![BTreeMap::new()];
    let turns = &options.turns;
    for (name, values) in parameters {
        let placeholder = format!("{{{name}}}");
        if !options.commands.iter().any(|command| command.contains(&placeholder)) {
            bail!("no command contains {placeholder}, so its values would change nothing");
        }
        if sets[0].contains_key(name) {
            bail!("the parameter {name} is given twice: give all its values at once");
        }
        for (once, option) in [(&turns.setup, "--setup"), (&turns.cleanup, "--cleanup")] {
            if once.as_ref().is_some_and(|once| once.contains(&placeholder)) {
                bail!(
                    "{option} runs once, so it cannot contain {placeholder}: use --prepare or --conclude"
                );
            }
        }
        let with = |set: &BTreeMap<String, String>| {
            let each = values.iter().map(|value| {
                let mut set = set.clone();
                set.insert(name.clone(), value.clone());
                set
            });
            each.collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(with).collect();
        if sets.len() > MAX_JOBS {
            bail!("these parameters make more than {MAX_JOBS} commands");
        }
    }
    Ok(sets)
}

/// The values between commas; `\,` is a comma within one.
fn listed(text: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for part in text.split(',') {
        match values.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(',');
                last.push_str(part);
            }
            _ => values.push(part.to_owned()),
        }
    }
    values
}

/// The numbers from `low` to `high`, with as many decimal places as the most precise of the three has.
fn scanned(low: &str, high: &str, step: Option<f64>) -> Result<Vec<String>> {
    let step = step.unwrap_or(1.0);
    let step_text = step.to_string();
    let (Ok(first), Ok(last)) = (low.parse::<f64>(), high.parse::<f64>()) else {
        bail!("--parameter-scan goes from a number to a number, not from `{low}` to `{high}`");
    };
    let steps = ((last - first) / step + 1e-9).floor();
    if !(step > 0.0 && (0.0..MAX_JOBS as f64).contains(&steps)) {
        bail!(
            "--parameter-scan from {low} to {high} in steps of {step} is not 1 to {MAX_JOBS} values"
        );
    }
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let places = decimals(low).max(decimals(&step_text));
    let value = |n: u32| format!("{:.places$}", first + f64::from(n) * step);
    Ok((0..=steps as u32).map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scanned_with_their_decimal_places() {
        assert_eq!(scanned("1", "3", None).unwrap(), ["1", "2", "3"]);
        assert_eq!(scanned("0", "1", Some(0.5)).unwrap(), ["0.0", "0.5", "1.0"]);
        assert_eq!(scanned("-1", "0.2", Some(0.4)).unwrap(), ["-1.0", "-0.6", "-0.2", "0.2"]);
        for (low, high, step) in [
            ("a", "2", 1.0),
            ("2", "1", 1.0),
            ("1", "2", 0.0),
            ("1", "nan", 1.0),
            ("0", "1e9", 1.0),
        ] {
            assert!(scanned(low, high, Some(step)).is_err(), "{low} {high} {step}");
        }
    }

    #[test]
    fn an_escaped_comma_is_part_of_a_value() {
        assert_eq!(listed("a,b"), ["a", "b"]);
        assert_eq!(listed(r"a\,b,c"), ["a,b", "c"]);
        assert_eq!(listed(r"\,\,,\n"), [",,", r"\n"]);
        assert_eq!(listed(r"a\"), [r"a\"]);
    }

    #[test]
    fn only_plain_words_need_no_shell() {
        for command in ["sh -x a=b ./file", "ls 'a $b' \"c d\"", r#"ls 'it"s;' "it's""#] {
            assert!(is_plain(command), "{command}");
        }
        for command in ["ls | wc", "A=1 ls", "ls *", "exit 3", "", "ls > x", "ls 'a", "ls '' *"] {
            assert!(!is_plain(command), "{command}");
        }
        for command in ["ls \"$HOME\"", "ls \"`pwd`\"", r#"ls "a\nb""#, "exit '3'"] {
            assert!(!is_plain(command), "{command}");
        }
    }

    #[test]
    fn parameters_stand_between_braces() {
        let parameters = BTreeMap::from([("n".to_owned(), "3".to_owned())]);
        assert_eq!(substitute("a {n} {m} n", &parameters), "a 3 {m} n");
    }
}
