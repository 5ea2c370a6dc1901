//! What a check found, case by case: its first line, its exit code and the JUnit file of a pipeline follow from it.

use crate::text::printable;
use costof_model::{Text, counted};
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

/// At most this many failures are named in a line.
const NAMED: usize = 3;

/// The verdicts, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Nothing failed, and all that must be decided is.
    Pass,
    /// Nothing failed, but something that must be decided is not.
    #[serde(rename = "inconclusive")]
    CannotTell,
    /// Something failed.
    Fail,
}

/// What a check found of a row, a host or a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It is within what is allowed.
    Pass,
    /// It is not, and why.
    Fail(String),
    /// Neither is shown, and why.
    Undecided(String),
}

/// A row, a host or a command that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// Its probe, if it has one.
    pub probe: Option<Text>,
    /// What was found.
    pub finding: Finding,
}

/// What must be decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Whether what is not decided passes.
    pub undecided_passes: bool,
    /// If there are any, only the cases of these probes must be decided.
    pub required: Vec<Required>,
}

/// Probes that must be decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Required {
    /// What the user calls them: a probe, a layer or a pattern.
    pub name: Text,
    /// The probes that this means.
    pub probes: Vec<Text>,
}

impl Required {
    fn has(&self, case: &Case) -> bool {
        let is_it = |probe: &Text| self.name == *probe || self.probes.contains(probe);
        case.probe.as_ref().is_some_and(is_it)
    }
}

impl Rules {
    /// Whether a case must be decided.
    fn requires(&self, case: &Case) -> bool {
        if self.required.is_empty() {
            return !self.undecided_passes;
        }
        self.required.iter().any(|required| required.has(case))
    }
}

/// The cases of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// What was checked.
    name: String,
    /// What a case is: `row`, `host`.
    noun: &'static str,
    cases: Vec<Case>,
    /// So many of the cases, the first, are of several others together: they do not count among these.
    sums: usize,
    rules: Rules,
}

impl Suite {
    /// A check with these cases. What must be decided and has no case is a case that is not decided.
    pub fn new(name: &str, noun: &'static str, mut cases: Vec<Case>, rules: &Rules) -> Suite {
        let absent = rules.required.iter();
        let absent = absent.filter(|required| !cases.iter().any(|case| required.has(case)));
        let absent = absent.map(|required| Case {
            name: required.name.to_string(),
            probe: Some(required.name.clone()),
            finding: Finding::Undecided("it has no row here".to_owned()),
        });
        let absent: Vec<Case> = absent.collect();
        cases.extend(absent);
        Suite { name: name.to_owned(), noun, cases, sums: 0, rules: rules.clone() }
    }

    /// The same with these failures, each of several cases together.
    pub(crate) fn with_sums(mut self, sums: impl Iterator<Item = Case>) -> Suite {
        let cases = self.cases.len();
        self.cases.splice(0..0, sums);
        self.sums += self.cases.len() - cases;
        self
    }

    /// The verdict.
    pub fn word(&self) -> Word {
        let has_failed = self.cases.iter().any(|case| matches!(case.finding, Finding::Fail(_)));
        let knows_nothing = self.cases.is_empty() && !self.rules.undecided_passes;
        match has_failed {
            true => Word::Fail,
            false if knows_nothing || self.open().next().is_some() => Word::CannotTell,
            false => Word::Pass,
        }
    }

    /// The cases that must be decided and are not.
    fn open(&self) -> impl Iterator<Item = &Case> {
        self.undecided().filter(|case| self.rules.requires(case))
    }

    /// How many cases were decided, and how many there are.
    pub fn decided(&self) -> (usize, usize) {
        let all = self.cases.len() - self.sums;
        (all - self.undecided().count(), all)
    }

    fn undecided(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| matches!(case.finding, Finding::Undecided(_)))
    }

    /// The verdict, how many cases were decided, and what failed, or else this reason: `FAIL: 9 of 9 rows decided;
    /// os.syscall 7.2 % slower (5.9–8.4)`.
    pub fn line(&self, reason: &str) -> String {
        let word = match self.word() {
            Word::Pass => "PASS",
            Word::Fail => "FAIL",
            Word::CannotTell => "INCONCLUSIVE",
        };
        let failed = self.cases.iter().filter_map(|case| match &case.finding {
            Finding::Fail(why) => Some(format!("{} {why}", case.name)),
            Finding::Pass | Finding::Undecided(_) => None,
        });
        let failed: Vec<String> = failed.collect();
        let open: Vec<String> = self.open().map(|case| case.name.clone()).collect();
        let why = match (&failed[..], &open[..]) {
            ([], []) => reason.to_owned(),
            ([], open) => format!("{reason}; not decided: {}", some(open)),
            (failed, _) => some(failed),
        };
        let (decided, all) = self.decided();
        let all = counted(all, self.noun);
        printable(&format!("{word}: {decided} of {all} decided; {why}"))
    }

    fn junit(&self) -> Markup {
        let [failures, errors, skipped] = counts(std::slice::from_ref(self));
        html! {
            testsuite name=(printable(&self.name)) tests=(self.cases.len()) failures=(failures) errors=(errors)
                skipped=(skipped) {
                @for case in &self.cases {
                    testcase classname=(printable(case.probe.as_deref().unwrap_or(&self.name))) name=(printable(&case.name)) {
                        @match &case.finding {
                            Finding::Pass => {},
                            Finding::Fail(why) => failure message=(printable(why)) {},
                            Finding::Undecided(why) => {
                                @let why = format!("inconclusive: {}", printable(why));
                                @if self.rules.requires(case) { error message=(why) {} }
                                @else { skipped message=(why) {} }
                            },
                        }
                    }
                }
            }
        }
    }
}

/// The first few names, and how many more there are.
pub(crate) fn some(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED)].join("; ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

/// How many of these cases are failures, errors and skipped, as JUnit counts them.
fn counts(suites: &[Suite]) -> [usize; 3] {
    let count = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let is_failure = |case: &&Case| matches!(case.finding, Finding::Fail(_));
    let failures = suites.iter().flat_map(|suite| &suite.cases).filter(is_failure);
    let errors = count(|suite| suite.open().count());
    let undecided = count(|suite| suite.undecided().count());
    [failures.count(), errors, undecided - errors]
}

/// The file that pipelines read, in JUnit's form: what failed is a failure, and what is inconclusive an error, or
/// skipped where it need not be decided.
pub fn junit(suites: &[Suite]) -> String {
    let [failures, errors, skipped] = counts(suites);
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let markup = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites name="costof" tests=(tests) failures=(failures) errors=(errors) skipped=(skipped) {
            @for suite in suites { (suite.junit()) }
        }
    };
    // XML has no such letters.
    markup.into_string().replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer `a` has these probes.
    fn required_by(name: &'static str) -> Required {
        let probes: &[&str] = if name == "a" { &["a.pass", "a.absent"] } else { &[name] };
        Required {
            name: name.into(),
            probes: probes.iter().map(|probe| (*probe).to_owned().into()).collect(),
        }
    }

    fn case(probe: &'static str, finding: Finding) -> Case {
        Case { name: format!("{probe} <1>"), probe: Some(probe.into()), finding }
    }

    #[test]
    fn what_must_be_decided_decides_the_verdict() {
        let rules = |undecided_passes, required: &[&'static str]| Rules {
            undecided_passes,
            required: required.iter().map(|name| required_by(name)).collect(),
        };
        let open = || case("a.open", Finding::Undecided("it is noisy".to_owned()));
        let (pass, fail) = (
            || case("a.pass", Finding::Pass),
            || case("a.fail", Finding::Fail("7 % slower".to_owned())),
        );
        let word = |cases: Vec<Case>, rules: Rules| Suite::new("run", "row", cases, &rules).word();
        for (cases, rules, expected) in [
            (vec![pass()], rules(false, &[]), Word::Pass),
            (vec![pass(), open()], rules(false, &[]), Word::CannotTell),
            (vec![pass(), open()], rules(true, &[]), Word::Pass),
            (vec![pass(), open()], rules(false, &["a.pass"]), Word::Pass),
            (vec![pass(), open()], rules(true, &["a.open"]), Word::CannotTell),
            (vec![pass()], rules(true, &["a.absent"]), Word::CannotTell),
            // Of a layer, a probe that was not measured need not be decided.
            (vec![pass(), open()], rules(false, &["a"]), Word::Pass),
            (vec![open()], rules(false, &["a"]), Word::CannotTell),
            (vec![fail(), open()], rules(true, &["a.open"]), Word::Fail),
            (vec![], rules(false, &[]), Word::CannotTell),
            (vec![], rules(true, &[]), Word::Pass),
        ] {
            assert_eq!(word(cases.clone(), rules.clone()), expected, "{cases:?} {rules:?}");
        }
        let suite = Suite::new("run", "row", vec![pass(), open()], &rules(false, &["a.open"]));
        assert_eq!(
            suite.line("nothing is worse"),
            "INCONCLUSIVE: 1 of 2 rows decided; nothing is worse; not decided: a.open <1>"
        );
        let text = junit(&[Suite::new(
            "run",
            "row",
            vec![pass(), fail(), open()],
            &rules(false, &["a.fail"]),
        )]);
        for part in [
            "<testsuites name=\"costof\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\">",
            "<testcase classname=\"a.fail\" name=\"a.fail &lt;1&gt;\"><failure message=\"7 % slower\"></failure>",
            "<skipped message=\"inconclusive: it is noisy\"></skipped>",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        let odd = vec![case("a.\u{ffff}", Finding::Pass)];
        let text = junit(&[Suite::new("run", "row", odd, &rules(true, &[]))]);
        assert!(text.contains("a.\u{fffd}") && !text.contains('\u{ffff}'), "{text}");
        let text = junit(&[Suite::new("run", "row", vec![open()], &rules(false, &[]))]);
        assert!(
            text.contains("errors=\"1\" skipped=\"0\"") && text.contains("<error message="),
            "{text}"
        );
    }
}
