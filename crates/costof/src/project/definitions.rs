//! Reads `costof.toml`: the probes of a project, each checked before anything of it is used.

use costof_measure::own::{FUNCTION_AXES_MAX, Operation, OwnProbe, Words};
use costof_model::axis::Choice;
use costof_model::{Axis, Domain, List, Text, Unit, nearest};
use costof_report::toml_text;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The longest name of a project, a probe, an axis or a word.
const NAME_MAX_CHARS: usize = 40;
/// The most probes of a project, and values of an axis.
const MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    project: Option<Name>,
    #[serde(default, rename = "probe")]
    probes: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Name,
    question: String,
    #[serde(default)]
    about: String,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default = "first_method")]
    method: u32,
    object: Option<String>,
    function: Option<String>,
    setup: Option<String>,
    teardown: Option<String>,
    program: Option<Line>,
    command: Option<Line>,
    #[serde(default)]
    axes: Vec<AxisEntry>,
}

fn first_method() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisEntry {
    name: Name,
    #[serde(default)]
    about: String,
    #[serde(default)]
    unit: AxisUnit,
    values: Vec<Value>,
    min: Option<Value>,
    max: Option<Value>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum AxisUnit {
    #[default]
    None,
    Bytes,
    Ns,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number or a text")]
enum Value {
    Number(u64),
    Text(String),
}

/// The name of a project, a probe or an axis: a word of expressions (`2 * text.count(size=64)`), of options, and of files.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Name(String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Name, String> {
        let may_have = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.len() <= NAME_MAX_CHARS
            && text.chars().all(may_have);
        match is_name {
            true => Ok(Name(text)),
            false => Err(format!(
                "`{text}` cannot be a name: it takes a small letter, and up to {} small letters, digits or underscores",
                NAME_MAX_CHARS - 1
            )),
        }
    }
}

/// A command line.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Line(Words);

impl TryFrom<String> for Line {
    type Error = &'static str;

    fn try_from(line: String) -> Result<Line, &'static str> {
        let words = shlex::split(&line).filter(|words| !words.is_empty());
        let words = words.ok_or("it is no command: a quote is not closed, or it is empty")?;
        Ok(Line(Words(words)))
    }
}

/// The probes that the text of `file` defines; `place` names the file in errors, and `layers` are those of costof's own
/// probes.
pub(super) fn read(
    file: &Path,
    place: &str,
    text: &str,
    layers: &BTreeSet<&str>,
) -> Result<Vec<OwnProbe>, String> {
    let read: File = toml_text::read(place, text)?;
    if read.probes.is_empty() && read.project.is_none() {
        return Ok(Vec::new());
    }
    let Some(Name(project)) = read.project else {
        return Err(format!(
            "{place}: it names no project: its first line is `project = \"NAME\"`"
        ));
    };
    if layers.contains(&*project) {
        return Err(format!(
            "{place}: `{project}` is the name of a group of costof's own probes: choose another name"
        ));
    }
    if read.probes.len() > MAX {
        return Err(format!("{place}: it has more than {MAX} probes"));
    }
    let mut ids = BTreeSet::new();
    let own = read.probes.into_iter().map(|entry| {
        let id = format!("{project}.{}", entry.name.0);
        let own = match ids.insert(id.clone()) {
            true => entry.probe(file, &id),
            false => Err("there is a probe of this name before".to_owned()),
        };
        own.map_err(|why| format!("{place}, probe `{id}`: {why}"))
    });
    own.collect()
}

impl Entry {
    fn probe(self, file: &Path, id: &str) -> Result<OwnProbe, String> {
        let axes = self.axes.iter().map(AxisEntry::axis).collect::<Result<Vec<_>, _>>()?;
        if let Some(name) = twice(axes.iter().map(|axis| &axis.name)) {
            return Err(format!("it has two axes `{name}`"));
        }
        Ok(OwnProbe {
            file: file.to_owned(),
            id: id.to_owned(),
            method: self.method,
            operation: self.operation(file, &axes)?,
            question: self.question,
            about: self.about,
            sources: self.sources,
            axes,
        })
    }

    /// The one thing that a probe measures.
    fn operation(&self, file: &Path, axes: &[Axis]) -> Result<Operation, String> {
        let is_function = self.object.is_some() || self.function.is_some();
        match (is_function, &self.program, &self.command) {
            (true, None, None) => self.function(file, axes),
            (false, Some(program), None) => Ok(Operation::Program(self.line(program, axes)?)),
            (false, None, Some(command)) => Ok(Operation::Command(self.line(command, axes)?)),
            _ => Err("it takes one of: `object` and `function`; `program`; `command`".to_owned()),
        }
    }

    fn function(&self, file: &Path, axes: &[Axis]) -> Result<Operation, String> {
        let (Some(object), Some(function)) = (&self.object, &self.function) else {
            let what = "a function takes both `object`, the path of a shared object, and `function`, a symbol of it";
            return Err(what.to_owned());
        };
        if axes.len() > FUNCTION_AXES_MAX {
            return Err(format!("a function takes n and at most {FUNCTION_AXES_MAX} axes"));
        }
        let symbols = [Some(function), self.setup.as_ref(), self.teardown.as_ref()];
        if let Some(symbol) = symbols.into_iter().flatten().find(|symbol| !is_symbol(symbol)) {
            return Err(format!("`{symbol}` cannot be a symbol"));
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        Ok(Operation::Function {
            object: folder.join(object),
            function: function.clone(),
            setup: self.setup.clone(),
            teardown: self.teardown.clone(),
        })
    }

    /// The words of a command line, which name each axis.
    fn line(&self, Line(words): &Line, axes: &[Axis]) -> Result<Words, String> {
        if self.setup.is_some() || self.teardown.is_some() {
            return Err("`setup` and `teardown` are for a function".to_owned());
        }
        let names = axes.iter().map(|axis| &*axis.name);
        if let Some(axis) = names.clone().find(|axis| !words.have(axis)) {
            return Err(format!(
                "axis `{axis}` stands nowhere in its command: write {{{axis}}} where its value belongs"
            ));
        }
        match words.placeholders().find(|name| !names.clone().any(|own| own == *name)) {
            Some(other) => Err(format!(
                "it has no axis for {{{other}}}{} (a script of its own may have such braces)",
                nearest::hint(other, names)
            )),
            None => Ok(words.clone()),
        }
    }
}

impl AxisEntry {
    fn axis(&self) -> Result<Axis, String> {
        let name = &self.name.0;
        let domain = self.domain().map_err(|why| format!("axis `{name}`: {why}"))?;
        Ok(Axis { name: Text::Owned(name.clone()), about: Text::Owned(self.about.clone()), domain })
    }

    fn domain(&self) -> Result<Domain, String> {
        if self.values.is_empty() || self.values.len() > MAX {
            return Err(format!("it takes 1 to {MAX} values"));
        }
        let is_number = |value: &Value| matches!(value, Value::Number(_));
        match self.unit != AxisUnit::None || self.values.iter().any(is_number) {
            true => self.numbers(),
            false => self.words(),
        }
    }

    /// Numbers, which may have a unit behind them as on the command line.
    fn numbers(&self) -> Result<Domain, String> {
        let unit = match self.unit {
            AxisUnit::None => Unit::One,
            AxisUnit::Bytes => Unit::Bytes,
            AxisUnit::Ns => Unit::Nanoseconds,
        };
        let any = Axis {
            name: Text::Owned(self.name.0.clone()),
            about: Text::Borrowed(""),
            domain: Domain::Number { unit, low: 0, high: u64::MAX, defaults: List::Borrowed(&[0]) },
        };
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            Value::Text(text) => any.parse(text).map(|value| value.as_number().unwrap_or_default()),
        };
        let values = self.values.iter().map(number).collect::<Result<Vec<u64>, String>>()?;
        if let Some(value) = twice(&values) {
            return Err(format!("it has the value {value} twice"));
        }
        let [min, max] = [&self.min, &self.max].map(|end| end.as_ref().map(number).transpose());
        let low = min?.or(values.iter().min().copied()).unwrap_or_default();
        let high = max?.or(values.iter().max().copied()).unwrap_or_default();
        if let Some(outside) = values.iter().find(|value| !(low..=high).contains(value)) {
            return Err(format!("the value {outside} is below `min` or above `max`"));
        }
        Ok(Domain::Number { unit, low, high, defaults: List::Owned(values) })
    }

    fn words(&self) -> Result<Domain, String> {
        if self.min.is_some() || self.max.is_some() {
            return Err("`min` and `max` are for an axis of numbers".to_owned());
        }
        let word = |value: &Value| match value {
            Value::Text(word) if is_word(word) => Ok(word.clone()),
            Value::Text(word) => Err(format!(
                "the value `{word}` is none: it takes letters, digits and `.`, `-` or `_`, at most {NAME_MAX_CHARS}"
            )),
            Value::Number(number) => Ok(number.to_string()),
        };
        let words = self.values.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        if let Some(word) = twice(&words) {
            return Err(format!("it has the value {word} twice"));
        }
        let choices = words.into_iter().map(|word| Choice {
            value: Text::Owned(word),
            about: Text::Borrowed("given to your code as it stands here"),
        });
        Ok(Domain::Choice(choices.collect()))
    }
}

/// The first of these that came before.
fn twice<T: Ord + Copy>(all: impl IntoIterator<Item = T>) -> Option<T> {
    let mut seen = BTreeSet::new();
    all.into_iter().find(|one| !seen.insert(*one))
}

fn is_word(text: &str) -> bool {
    let may_have = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !text.is_empty() && text.len() <= NAME_MAX_CHARS && text.chars().all(may_have)
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<OwnProbe>, String> {
        read(Path::new("/p/costof.toml"), "costof.toml", text, &BTreeSet::from(["memory"]))
    }

    const WHOLE: &str = r#"
        project = "text"
        [[probe]]
        name = "count"
        question = "What does it cost to count words?"
        object = "libtext.so"
        function = "count"
        setup = "make"
        axes = [
            { name = "size", about = "of the text", unit = "bytes", values = ["1KiB", 64], max = "1MiB" },
            { name = "how", values = ["fast", "slow"] },
        ]
        [[probe]]
        name = "all"
        question = "And by a command?"
        command = "wc -w '{file} {file}'"
        axes = [{ name = "file", values = ["a.txt"] }]
    "#;

    #[test]
    fn a_whole_file_defines_probes() {
        let own = read_text(WHOLE).unwrap();
        let [count, all] = own.as_slice() else { panic!("{own:?}") };
        assert_eq!((&*count.id, &*all.id), ("text.count", "text.all"));
        let Operation::Function { object, setup, .. } = &count.operation else { panic!("{own:?}") };
        assert_eq!(
            (object.as_path(), setup.as_deref()),
            (Path::new("/p/libtext.so"), Some("make"))
        );
        let Domain::Number { low, high, defaults, .. } = &count.axes[0].domain else { panic!() };
        assert_eq!((*low, *high, &defaults[..]), (64, 1 << 20, &[1024, 64][..]));
        assert_eq!(count.axes[1].defaults().len(), 2);
        assert_eq!(
            all.operation,
            Operation::Command(Words(vec!["wc".into(), "-w".into(), "{file} {file}".into()]))
        );
        let of_shell = WHOLE.replace("-w '", "-w '${i} { x } {} ");
        assert!(read_text(&of_shell).is_ok());
        assert_eq!(read_text("").unwrap(), []);
    }

    #[test]
    fn a_mistake_is_named_with_its_line_or_probe() {
        let probe =
            |more: &str| format!("project = 'x'\n[[probe]]\nname = 'a'\nquestion = '?'\n{more}\n");
        let axis = |axis: &str| probe(&format!("command = 'true {{a}}'\naxes = [\n{{ {axis} }}]"));
        for (text, says) in [
            ("project = 'x'\n\n[[prob]]".to_owned(), ["line 3", "prob"]),
            ("project = 'x'\nquestion = [".to_owned(), ["line 2", "question"]),
            (
                "[[probe]]\nname = 'a'\nquestion = ''".to_owned(),
                ["costof.toml", "names no project"],
            ),
            ("\nproject = 'My Project'".to_owned(), ["line 2", "small letter"]),
            ("project = 'memory'".to_owned(), ["costof.toml", "costof's own probes"]),
            (probe(""), ["probe `x.a`", "takes one of"]),
            (probe("program = 'a'\ncommand = 'b'"), ["probe `x.a`", "takes one of"]),
            (probe("object = 'a.so'"), ["probe `x.a`", "takes both"]),
            (probe("object = 'a.so'\nfunction = 'a b'"), ["probe `x.a`", "cannot be a symbol"]),
            (probe("command = \"echo 'a\""), ["line 5", "not closed"]),
            (probe("command = ''"), ["line 5", "is empty"]),
            (probe("command = 'true'\nsetup = 'a'"), ["probe `x.a`", "for a function"]),
            (probe("comand = 'true'"), ["line 5", "comand"]),
            (
                probe("command = 'true'\naxes = [{ name = 'b', values = [1] }]"),
                ["probe `x.a`", "{b}"],
            ),
            (probe("command = 'head -c {size} x'"), ["probe `x.a`", "{size}"]),
            (axis("name = 'a', values = []"), ["probe `x.a`", "1 to 1000 values"]),
            (axis("name = 'a', values = [1, 1]"), ["probe `x.a`", "twice"]),
            (axis("name = 'a', values = ['x y']"), ["probe `x.a`", "letters, digits"]),
            (axis("name = 'a', values = [-1]"), ["line 7", "whole number"]),
            (axis("name = 'a', values = ['1KiB', 2]"), ["probe `x.a`: axis `a`", "whole number"]),
            (axis("name = 'a', values = [5], min = 6"), ["probe `x.a`", "below `min`"]),
            (axis("name = 'a', values = ['x'], max = 6"), ["probe `x.a`", "axis of numbers"]),
            (axis("name = 'A', values = [1]"), ["line 7", "small letter"]),
            (
                axis("name = 'a', values = [1] }, { name = 'a', values = [1]"),
                ["probe `x.a`", "two axes"],
            ),
            (
                probe("command = 'true'") + "[[probe]]\nname = 'a'\nquestion = ''",
                ["probe `x.a`", "before"],
            ),
        ] {
            let error = read_text(&text).unwrap_err();
            assert!(says.iter().all(|part| error.contains(part)), "{says:?}: {error}\n{text}");
        }
        let six: Vec<String> =
            ('a'..='f').map(|c| format!("{{ name = '{c}', values = [1] }}")).collect();
        let many = probe(&format!("object = 'a'\nfunction = 'f'\naxes = [{}]", six.join(", ")));
        assert!(read_text(&many).unwrap_err().contains("at most 5 axes"));
    }
}
