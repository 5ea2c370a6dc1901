//! A test for [ReFrame](https://reframe-hpc.readthedocs.io): it measures the same probes, and compares their
//! values with this run's.

use super::{File, Value};
use costof_model::{Better, Run};
use serde_json::{Map, json};
use std::collections::BTreeSet;

/// What a value may be worse than its reference.
const WORSE: f64 = 0.1;

const TEST: &str = include_str!("reframe.py");

pub(super) fn file(run: &Run, values: &[Value<'_>]) -> File {
    let mut reference = Map::new();
    for value in values {
        let (low, high) = match value.estimate.better {
            Better::Lower => (None, Some(WORSE)),
            Better::Higher => (Some(-WORSE), None),
            Better::Neither => continue,
        };
        let tuple = json!([value.estimate.median, low, high, value.unit()]);
        // ReFrame takes a colon for the end of a system's name.
        reference.insert(value.name().replace(':', ";"), tuple);
    }
    let text = |json: String| json.replace('\\', r"\\").replace('\'', r"\'");
    let test = TEST
        .replace("@REQUEST@", &text(json!(request(run)).to_string()))
        .replace("@REFERENCE@", &text(super::json(&reference)));
    ("costof_check.py".to_owned(), test)
}

/// What `costof run` was given for this run, without what concerns its file; of another command, the probes.
///
/// ReFrame writes the words into a shell script as they are, and a run file may come from anybody: where they are
/// not all plain, the probes that are.
fn request(run: &Run) -> Vec<&str> {
    let words: Vec<&str> = run.run.command.iter().map(|word| &**word).collect();
    let repeated = match &words[..] {
        [_, "run", given @ ..] => repeated(given),
        _ => None,
    };
    repeated.unwrap_or_else(|| {
        let probes = run.run.plan.points().map(|point| &*point.probe);
        let probes: BTreeSet<&str> = probes.filter(|probe| is_plain(probe)).collect();
        probes.into_iter().collect()
    })
}

/// These words, without what concerns the file; `None` if one could do more than choose what is measured.
fn repeated<'r>(given: &[&'r str]) -> Option<Vec<&'r str>> {
    let mut words = Vec::new();
    let mut given = given.iter();
    while let Some(word) = given.next() {
        match *word {
            "--out" | "--seed" => drop(given.next()),
            "--json" | "--notes" | "--ids" | "--history" => {}
            "--only" | "--quick" | "--full" => words.push(*word),
            "--set" | "--link" | "--launches" => {
                let value = given.next().filter(|value| is_plain(value))?;
                words.extend([*word, *value]);
            }
            word if word.starts_with("--out=") || word.starts_with("--seed=") => {}
            word if is_plain(word) => words.push(word),
            _ => return None,
        }
    }
    Some(words)
}

/// Whether a shell takes the word as it is, and costof for no option.
fn is_plain(word: &str) -> bool {
    let is_kept = |c: u8| c.is_ascii_alphanumeric() || b"._=,:%+-".contains(&c);
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing;

    #[test]
    fn no_word_of_a_run_file_is_a_command_or_does_more_than_choose() {
        let hostile =
            ["$(reboot)", "`reboot`", "a;reboot", "--on=exec:reboot", "--resume", "a b", ""];
        let names = hostile.into_iter().chain(["os.syscall"]);
        let rows = names.map(|name| testing::sized_row(name, 1, 5.0));
        let mut run = testing::planned([rows.map(|row| row.point).collect()]);
        let mut given = |words: &[&str]| {
            run.run.command = words.iter().map(|word| (*word).to_owned()).collect();
            request(&run).join(" ")
        };
        let of = |line: &'static str| line.split(' ').collect::<Vec<_>>();
        let line = "costof run os.syscall --set call=getpid --out a.jsonl --quick";
        assert_eq!(given(&of(line)), "os.syscall --set call=getpid --quick");
        assert_eq!(given(&of("costof study rpc")), "os.syscall");
        for word in hostile {
            assert_eq!(given(&["costof", "run", "file", word]), "os.syscall");
            assert_eq!(given(&["costof", "run", "file", "--set", word]), "os.syscall");
        }
    }
}
