//! The words after `cargo bench --`, and those that cargo and test runners add.

use costof_model::nearest;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = include_str!("help.txt");

/// What to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Call each function once.
    #[default]
    Test,
    Measure,
    List,
    Help,
}

/// What to do, with what.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) names: Vec<String>,
    pub(crate) is_exact: bool,
    /// Whether `--ignored` asks for ignored tests alone, of which there are none.
    pub(crate) has_none: bool,
    pub(crate) budget: Option<Duration>,
    pub(crate) against: Option<PathBuf>,
    pub(crate) save: Option<String>,
    pub(crate) baseline: Option<String>,
    /// A share: 0.02 is 2 %.
    pub(crate) threshold: Option<f64>,
    pub(crate) timeout: Option<Duration>,
}

const NAMES: &str = "--exact --list --budget --against --save --baseline --threshold --timeout \
    --test --bench --help --ignored";
/// Options of Rust's test runner that change nothing here.
const IGNORED: [&str; 6] =
    ["--nocapture", "--no-capture", "--quiet", "-q", "--include-ignored", "--show-output"];
/// The same, which take a value.
const IGNORED_WITH_VALUE: [&str; 3] = ["--format", "--color", "--test-threads"];

impl Options {
    /// Reads the arguments, without the program's name.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Options, String> {
        let mut options = Options::default();
        let (mut is_bench, mut is_test) = (false, false);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, mut given) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (&*word, None),
            };
            let mut value = || {
                let value = given.take().or_else(|| words.next());
                value.ok_or_else(|| format!("{name} takes a value (--help)"))
            };
            match name {
                "--bench" => is_bench = true,
                "--test" => is_test = true,
                "--list" => options.mode = Mode::List,
                "--help" | "-h" => options.mode = Mode::Help,
                "--exact" => options.is_exact = true,
                "--ignored" => options.has_none = true,
                "--budget" => options.budget = Some(duration(name, &value()?)?),
                "--timeout" => options.timeout = Some(duration(name, &value()?)?),
                "--against" => options.against = Some(value()?.into()),
                "--save" => options.save = Some(file_name(value()?)?),
                "--baseline" => options.baseline = Some(value()?),
                "--threshold" => options.threshold = Some(share(&value()?)?),
                _ if IGNORED.contains(&name) => {}
                _ if IGNORED_WITH_VALUE.contains(&name) => drop(value()?),
                _ if name.starts_with('-') => {
                    let hint = nearest::hint(name, NAMES.split(' '));
                    return Err(format!("there is no option {name}{hint} (--help lists them)"));
                }
                _ => options.names.push(word.clone()),
            }
        }
        let asks_for_numbers = options.budget.is_some()
            || options.against.is_some()
            || options.save.is_some()
            || options.baseline.is_some()
            || options.threshold.is_some();
        if options.mode == Mode::Test && !is_test && (is_bench || asks_for_numbers) {
            options.mode = Mode::Measure;
        }
        if options.against.is_some() && options.baseline.is_some() {
            return Err("--against measures the other build, so there is no --baseline (leave out one of them)".to_owned());
        }
        Ok(options)
    }

    /// Whether the benchmark is asked for.
    pub(crate) fn wants(&self, benchmark: &str) -> bool {
        let is_named = |name: &String| match self.is_exact {
            true => benchmark == name,
            false => benchmark.contains(&**name),
        };
        !self.has_none && (self.names.is_empty() || self.names.iter().any(is_named))
    }
}

fn duration(name: &str, text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("{name} takes a time such as 3s or 500ms, not `{text}`"))
}

/// `2%` or `2`, in percent.
fn share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').trim().parse().ok();
    let percent = percent.filter(|percent| (0.0..1000.0).contains(percent));
    let share = percent.map(|percent| percent / 100.0);
    share.ok_or_else(|| format!("--threshold takes percent such as 2%, not `{text}`"))
}

fn file_name(text: String) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_plain) {
        return Err(format!("--save takes a name of letters, digits and - _ . +, not `{text}`"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn cargo_bench_measures_and_cargo_test_does_not() {
        for (line, mode) in [
            ("", Mode::Test),
            ("--test", Mode::Test),
            ("--bench", Mode::Measure),
            ("--bench --test", Mode::Test),
            ("--bench --list", Mode::List),
            ("--list --format terse", Mode::List),
            ("--budget 1s", Mode::Measure),
            ("--help", Mode::Help),
        ] {
            assert_eq!(parsed(line).unwrap().mode, mode, "{line}");
        }
    }

    #[test]
    fn names_are_parts_of_names_or_whole_ones() {
        let options = parsed("sort --bench parse").unwrap();
        assert!(options.wants("group/sorted") && options.wants("parse") && !options.wants("sum"));
        let exact = parsed("sort --exact --nocapture").unwrap();
        assert!(exact.wants("sort") && !exact.wants("sorted"));
        assert!(parsed("").unwrap().wants("any") && !parsed("--ignored").unwrap().wants("any"));
    }

    #[test]
    fn values_follow_or_are_joined() {
        let options = parsed("--threshold=2% --budget 500ms --save a-1 --timeout=1min").unwrap();
        assert_eq!(options.threshold, Some(0.02));
        assert_eq!(options.budget, Some(Duration::from_millis(500)));
        assert_eq!(options.timeout, Some(Duration::from_secs(60)));
        assert_eq!(options.save.as_deref(), Some("a-1"));
    }

    #[test]
    fn wrong_words_are_named_with_what_may_stand_there() {
        for (line, parts) in [
            ("--treshold 2", ["--treshold", "--threshold"]),
            ("--budget soon", ["--budget", "500ms"]),
            ("--budget 0s", ["--budget", "500ms"]),
            ("--threshold -1", ["--threshold", "2%"]),
            ("--threshold NaN", ["--threshold", "2%"]),
            ("--save ../x", ["--save", "letters"]),
            ("--against", ["--against", "value"]),
            ("--against x --baseline y", ["--against", "--baseline"]),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{line}: {error}");
        }
    }
}
