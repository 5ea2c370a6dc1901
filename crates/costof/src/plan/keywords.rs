//! Finds probes by everyday words: from a word that is no id, layer or glob to the probes that measure it.

use crate::error::{Result, wrong};
use crate::files::is_program;
use crate::record::Table;
use crate::terminal::log;
use costof_measure::probe::Probe;
use costof_model::{Domain, Facts, ProbeInfo, plan};
use serde::Deserialize;
use std::sync::LazyLock;

/// The lists of `words.toml`. Each text of words has a blank between two of them.
#[derive(Deserialize)]
struct Words {
    synonyms: Vec<(String, Vec<String>)>,
    levels: String,
    own: Vec<(String, String)>,
    not_measured: Vec<(String, String, Vec<Nearest>)>,
}

/// A probe in a list of the nearest: its id, and its relation to the subject.
type Nearest = (String, String);

static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("keywords/words.toml")).expect("a test reads it"));

/// Which probes to take if a word matches several.
#[derive(Clone, Copy)]
pub(crate) enum Take {
    /// All of them.
    All,
    /// The best matches, if there are at most `most`; otherwise the user has to choose.
    Best { most: usize },
    /// The best match; of several, the only round trip or latency. Otherwise the user has to choose.
    One,
}

/// How a probe is related to a word, the closest relation first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// The word is in its name.
    Name,
    /// The word is a value on one of its axes.
    Value,
    /// The label of one of its rows in the latency table has the word.
    Label,
    /// Its question has the word.
    Question,
}

/// The probes for a word: an id, a layer, a glob, or an everyday word for what they measure.
///
/// # Errors
/// No probe matches, or more than are taken. The error is a sentence with the nearest ones.
pub(crate) fn probes(table: Table, word: &str, take: Take) -> Result<Vec<&'static ProbeInfo>> {
    let infos: Vec<&'static ProbeInfo> = table.iter().map(|probe| &*probe.info).collect();
    let named = |info| (Relation::Name, info);
    let (mut found, unknown) = match (plan::select(&infos, word), take) {
        (Ok(found), Take::One) => (found.into_iter().map(named).collect(), String::new()),
        (Ok(found), _) => return Ok(found),
        (Err(unknown), _) => (related(table, word)?, unknown),
    };
    if matches!(take, Take::One) && stems(&WORDS.levels).contains(&stems(word).concat()) {
        return Err(wrong(format!(
            "`{word}` has a price by size: name one, such as memory.latency(size=16KiB)"
        )));
    }
    let best = found.iter().map(|(relation, _)| *relation).min();
    match (best, own(word)) {
        // It is the probe's, and only may be about the user's program.
        (Some(Relation::Name | Relation::Value), Some(own)) => log(own),
        (_, Some(own)) => return Err(wrong(own)),
        (Some(_), None) => {}
        (None, None) if is_program(word) => {
            return Err(wrong(format!("{unknown}; `costof time {word}` measures a command")));
        }
        (None, None) if word.contains('.') => {
            let own = "probes of your own are in a costof.toml, in this folder or above it (--project names it)";
            return Err(wrong(format!("{unknown}; {own}")));
        }
        (None, None) => return Err(wrong(unknown)),
    }
    if matches!(take, Take::All) {
        return Ok(found.into_iter().map(|(_, info)| info).collect());
    }
    let is_best = |(relation, _): &(Relation, &ProbeInfo)| Some(*relation) == best;
    let others: Vec<_> = found.extract_if(.., |found| !is_best(found)).collect();
    let most = match take {
        Take::Best { most } => most,
        Take::One | Take::All => 1,
    };
    if matches!(take, Take::One) && best == Some(Relation::Value) {
        // A probe that is named without its axes has their defaults.
        let is_default = |(_, info): &(Relation, &ProbeInfo)| {
            let defaults = info.defaults();
            defaults.0.values().any(|value| has(&value.to_string(), &stems(word).concat()))
        };
        if !found.iter().any(is_default) {
            return Err(wrong(choose(word, &found)));
        }
        found.retain(is_default);
    }
    if matches!(take, Take::One) && found.len() > 1 {
        let is_short = |id: &str| id.ends_with(".rtt") || id.ends_with(".latency");
        let short = found.iter().filter(|(_, info)| is_short(&info.id));
        if let [only] = short.copied().collect::<Vec<_>>().as_slice() {
            found = vec![*only];
        }
    }
    if found.len() > most {
        return Err(wrong(choose(word, &found)));
    }
    let also = others.iter().filter(|(relation, _)| *relation == Relation::Value);
    let also = also.map(|(_, info)| &*info.id).collect::<Vec<_>>().join(", ");
    let also = if also.is_empty() { also } else { format!(" (also by {also})") };
    let ids: Vec<&str> = found.iter().map(|(_, info)| &*info.id).collect();
    if ids != [word] {
        log(format_args!("`{word}` is measured by {}{also}", ids.join(", ")));
    }
    Ok(found.into_iter().map(|(_, info)| info).collect())
}

/// The command that measures the user's own program, if a word asks for that.
pub(crate) fn own(word: &str) -> Option<&'static str> {
    let word = stems(word).concat();
    let (_, command) = WORDS.own.iter().find(|(words, _)| stems(words).contains(&word))?;
    Some(command)
}

/// The probes that an everyday word is about.
fn related(table: Table, word: &str) -> Result<Vec<(Relation, &'static ProbeInfo)>> {
    if let Some(sentence) = not_measured(word) {
        return Err(wrong(sentence));
    }
    let related = |probe: &&'static Probe| Some((relation(probe, word)?, &*probe.info));
    Ok(table.iter().filter_map(related).collect())
}

/// The closest relation of a probe to a word.
fn relation(probe: &Probe, word: &str) -> Option<Relation> {
    let word = stems(word).concat();
    if word.len() < 2 {
        return None;
    }
    let info = &*probe.info;
    let is_synonym = |(words, ids): &(String, Vec<String>)| {
        ids.iter().any(|id| *id == *info.id) && stems(words).contains(&word)
    };
    if has(&info.id, &word) || WORDS.synonyms.iter().any(is_synonym) {
        return Some(Relation::Name);
    }
    if values(info).any(|value| has(value, &word)) {
        return Some(Relation::Value);
    }
    // Labels that exist on every machine. Those that a machine adds need no keyword.
    let mut headlines = (probe.headlines)(&Facts::default()).into_iter();
    if headlines.any(|headline| has(&headline.label, &word)) {
        return Some(Relation::Label);
    }
    has(&info.question, &word).then_some(Relation::Question)
}

/// The values on the axes of a probe.
fn values(info: &ProbeInfo) -> impl Iterator<Item = &str> {
    let choices = info.axes.iter().flat_map(|axis| match &axis.domain {
        Domain::Choice(choices) => &choices[..],
        _ => &[],
    });
    choices.map(|choice| &*choice.value)
}

/// Whether a text has a word. The text may write it in parts: `zerocopy` as `zero_copy`.
fn has(text: &str, word: &str) -> bool {
    let stems = stems(text);
    (0..stems.len()).any(|from| {
        let mut joined = String::new();
        stems[from..].iter().any(|stem| {
            joined.push_str(stem);
            joined == word
        })
    })
}

/// The words of a text in lower case, without the endings that distinguish singular and plural.
fn stems(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let stem = |word: &str| {
        let word = word.to_lowercase();
        let singular = match word.strip_suffix('s') {
            Some(singular) if !singular.ends_with('s') => singular,
            _ => &word,
        };
        // `switches` is `switch`, and a short word keeps its e.
        let is_short = singular.len() < 5;
        (if is_short { singular } else { singular.trim_end_matches('e') }).to_owned()
    };
    words.map(stem).filter(|stem| !stem.is_empty()).collect()
}

/// The answer to a word for something that no probe measures.
fn not_measured(word: &str) -> Option<String> {
    let stem = stems(word).concat();
    let whole = |words: &str| words.split(' ').any(|known| known == word.to_lowercase());
    let found =
        |is_it: &dyn Fn(&str) -> bool| WORDS.not_measured.iter().find(|(words, ..)| is_it(words));
    // `http` is no plural of `https`.
    let (_, what, nearest) =
        found(&whole).or_else(|| found(&|words| stems(words).contains(&stem)))?;
    let first = nearest.first().map_or("PROBE", |(id, _)| id);
    let nearest: Vec<String> =
        nearest.iter().map(|(id, what)| format!("`{id}` ({what})")).collect();
    Some(format!(
        "{what} not measured. Nearest: {}. `costof explain {first}` says more",
        nearest.join(", ")
    ))
}

/// An error that lists the probes from which the user has to choose.
fn choose(word: &str, found: &[(Relation, &ProbeInfo)]) -> String {
    let width = found.iter().map(|(_, info)| info.id.len()).max().unwrap_or(0);
    let mut text = format!("several probes are about `{word}`: name one of them");
    for (_, info) in found {
        text += &format!("\n  {:width$}  {}", info.id, info.question);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(word: &str, take: Take) -> Result<Vec<&'static str>, String> {
        let found = probes(costof_probes::TABLE, word, take).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|info| &*info.id).collect())
    }

    #[test]
    fn an_everyday_word_finds_its_probe() {
        for (word, id) in [
            ("fsync", "file.sync"),
            ("mutex", "sync.mutex"),
            ("Locks", "sync.mutex"),
            ("fork", "os.process"),
            ("ping", "net.ping"),
            ("syscalls", "os.syscall"),
            ("false sharing", "sync.false_sharing"),
            ("context-switches", "os.context_switch"),
            ("clock_gettime", "cpu.clock"),
            ("page fault", "os.page_fault"),
            ("memcpy", "cpu.memcpy"),
            ("serialization", "rpc.marshal"),
            ("DRAM", "memory.latency"),
            ("L1", "memory.latency"),
            ("handshake", "net.connect"),
            ("sendfile", "copy.send"),
            ("io_uring", "os.io_uring"),
            ("writev", "copy.send"),
            ("sendmsg", "copy.send"),
        ] {
            assert_eq!(ids(word, Take::Best { most: 1 }), Ok(vec![id]), "{word}");
        }
    }

    #[test]
    fn a_word_with_a_letter_more_is_no_value() {
        assert!(ids("nop", Take::All).is_ok());
        assert!(ids("nope", Take::All).is_err());
    }

    #[test]
    fn of_several_probes_the_user_chooses_or_takes_all() {
        let error = ids("bandwidth", Take::Best { most: 2 }).unwrap_err();
        for id in ["memory.bandwidth", "ipc.bandwidth", "net.bandwidth"] {
            assert!(error.contains(id), "{error}");
        }
        let quic = ["net.stream", "rudp.loss"].to_vec();
        assert_eq!(ids("quic", Take::Best { most: 3 }), Ok(quic));
        let all = ids("zerocopy", Take::All).unwrap();
        assert!(all.starts_with(&["copy.send", "copy.receive"]), "{all:?}");
        // In an expression a word stands for one probe.
        for (word, id) in [("memory", "memory.latency"), ("fsync", "file.sync")] {
            assert_eq!(ids(word, Take::One), Ok(vec![id]), "{word}");
        }
        // The default of a level of memory would be another level.
        assert!(ids("L3", Take::One).unwrap_err().contains("memory.latency(size="));
        // A round trip by its default is none by gRPC.
        for word in ["file", "grpc"] {
            let error = ids(word, Take::One).unwrap_err();
            assert!(error.contains("name one of them"), "{error}");
        }
        // A name, a layer and a glob are as ever.
        assert_eq!(ids("sync", Take::All).unwrap().len(), 4);
        assert_eq!(ids("os.sys*", Take::All), Ok(vec!["os.syscall"]));
    }

    #[test]
    fn what_is_not_measured_says_so_with_the_nearest() {
        for (word, id) in [("zlib", "cpu.snappy"), ("dns", "net.rtt"), ("http", "net.rtt")] {
            let error = ids(word, Take::All).unwrap_err();
            assert!(error.contains("not measured") && error.contains(id), "{error}");
        }
        let error = ids("mutxe", Take::All).unwrap_err();
        assert!(error.contains("no probe `mutxe`"), "{error}");
        assert!(!error.contains("costof time"), "{error}");
        for word in ["ls", "./prog"] {
            let error = ids(word, Take::All).unwrap_err();
            assert!(error.contains(&format!("; `costof time {word}`")), "{error}");
        }
    }

    #[test]
    fn words_for_the_users_own_program_lead_to_the_command_that_measures_it() {
        for word in ["command", "my program", "benchmark", "Hyperfine", "criterion"] {
            assert!(ids(word, Take::All).unwrap_err().contains("`costof time CMD`"), "{word}");
        }
        assert!(ids("pull request", Take::All).unwrap_err().contains("costof against"));
        // A clock is what a probe measures.
        assert_eq!(ids("time", Take::Best { most: 1 }), Ok(vec!["cpu.clock"]));
        assert_eq!(own("times"), own("command"));
        assert_eq!(own("clock"), None);
    }

    #[test]
    fn every_word_of_the_lists_means_something() {
        let is_known = |id: &str| costof_probes::TABLE.iter().any(|probe| probe.info.id == *id);
        for (words, ids) in &WORDS.synonyms {
            assert!(!words.is_empty() && ids.iter().all(|id| is_known(id)), "{words}");
        }
        for (words, _, nearest) in &WORDS.not_measured {
            assert!(nearest.iter().all(|(id, _)| is_known(id)), "{words}");
            for word in words.split(' ') {
                let probes = costof_probes::TABLE.iter();
                let mut about = probes.filter(|probe| relation(probe, word).is_some());
                assert!(about.next().is_none(), "{word} is measured");
            }
        }
    }
}
