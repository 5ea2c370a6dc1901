//! Reads `costof.toml`: the probes of a project, each checked before anything of it is used.

use costof_measure::own::{FUNCTION_AXES_MAX, Operation, OwnProbe, Words};
use costof_model::axis::Choice;
use costof_model::plan::REST;
use costof_model::{Axis, Domain, List, Text, Unit, nearest};
use costof_report::toml_text;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use toml::Spanned;

/// The longest name of a project, a probe, an axis or a word.
const NAME_MAX_CHARS: usize = 40;
/// The most probes of a project, and values of an axis.
const MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    project: Option<Spanned<String>>,
    #[serde(default, rename = "probe")]
    probes: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
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
    program: Option<Spanned<String>>,
    command: Option<Spanned<String>>,
    #[serde(default)]
    axes: Vec<AxisEntry>,
}

fn first_method() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisEntry {
    name: Spanned<String>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    unit: AxisUnit,
    values: Spanned<Vec<Value>>,
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

/// The place of a mistake.
struct Reader<'a> {
    place: &'a str,
    text: &'a str,
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
    let reader = Reader { place, text };
    if read.probes.is_empty() && read.project.is_none() {
        return Ok(Vec::new());
    }
    let Some(project) = read.project else {
        return Err(format!(
            "{place}: it names no project: its first line is `project = \"NAME\"`"
        ));
    };
    reader.check_name(&project, "the project")?;
    if layers.contains(&**project.get_ref()) {
        let what = "is the name of a group of costof's own probes: choose another name";
        return Err(reader.wrong(&project, &format!("`{}` {what}", project.get_ref())));
    }
    if read.probes.len() > MAX {
        return Err(format!("{place}: it has more than {MAX} probes"));
    }
    let mut names = BTreeSet::new();
    let mut own = Vec::new();
    for entry in read.probes {
        reader.check_name(&entry.name, "the probe")?;
        if !names.insert(entry.name.get_ref().clone()) {
            let what = format!("there is a probe `{}` before", entry.name.get_ref());
            return Err(reader.wrong(&entry.name, &what));
        }
        let axes =
            entry.axes.iter().map(|axis| reader.axis(axis)).collect::<Result<Vec<_>, _>>()?;
        reader.check_axes(&entry, &axes)?;
        own.push(OwnProbe {
            file: file.to_owned(),
            id: format!("{}.{}", project.get_ref(), entry.name.get_ref()),
            method: entry.method,
            operation: reader.operation(&entry, file, &axes)?,
            question: entry.question,
            about: entry.about,
            sources: entry.sources,
            axes,
        });
    }
    Ok(own)
}

impl Reader<'_> {
    fn wrong<T>(&self, at: &Spanned<T>, what: &str) -> String {
        let line = toml_text::line_at(self.text, at.span().start);
        format!("{}, line {line}: {what}", self.place)
    }

    /// Names are words of expressions (`2 * text.count(size=64)`), of options, and of files.
    fn check_name(&self, name: &Spanned<String>, of: &str) -> Result<(), String> {
        let text = name.get_ref();
        let may_have = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.len() <= NAME_MAX_CHARS
            && text.chars().all(may_have);
        match is_name {
            true => Ok(()),
            false => Err(self.wrong(
                name,
                &format!(
                    "`{text}` cannot be the name of {of}: it takes a small letter, and up to {} small letters, digits or \
                     underscores",
                    NAME_MAX_CHARS - 1
                ),
            )),
        }
    }

    fn check_axes(&self, entry: &Entry, axes: &[Axis]) -> Result<(), String> {
        for (position, axis) in axes.iter().enumerate() {
            if axes[..position].iter().any(|other| other.name == axis.name) {
                let what = format!("the probe has two axes `{}`", axis.name);
                return Err(self.wrong(&entry.axes[position].name, &what));
            }
        }
        Ok(())
    }

    fn axis(&self, entry: &AxisEntry) -> Result<Axis, String> {
        self.check_name(&entry.name, "an axis")?;
        let name = entry.name.get_ref();
        if name == REST {
            let what = format!(
                "`{name}` cannot be the name of an axis: `--set {name}=` is about the axes that are not set"
            );
            return Err(self.wrong(&entry.name, &what));
        }
        let values = entry.values.get_ref();
        if values.is_empty() || values.len() > MAX {
            let what = format!("axis `{name}` takes 1 to {MAX} values");
            return Err(self.wrong(&entry.values, &what));
        }
        let is_number = |value: &Value| matches!(value, Value::Number(_));
        let are_numbers = entry.unit != AxisUnit::None || values.iter().any(is_number);
        let domain = match are_numbers {
            true => self.numbers(entry)?,
            false => self.words(entry)?,
        };
        Ok(Axis {
            name: Text::Owned(name.clone()),
            about: Text::Owned(entry.about.clone()),
            domain,
        })
    }

    /// Numbers, which may have a unit behind them as on the command line.
    fn numbers(&self, entry: &AxisEntry) -> Result<Domain, String> {
        let unit = match entry.unit {
            AxisUnit::None => Unit::One,
            AxisUnit::Bytes => Unit::Bytes,
            AxisUnit::Ns => Unit::Nanoseconds,
        };
        let any = Axis {
            name: Text::Owned(entry.name.get_ref().clone()),
            about: Text::Borrowed(""),
            domain: Domain::Number { unit, low: 0, high: u64::MAX, defaults: List::Borrowed(&[0]) },
        };
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            Value::Text(text) => any
                .parse(text)
                .map_err(|why| self.wrong(&entry.values, &why))
                .map(|value| value.as_number().unwrap_or_default()),
        };
        let values =
            entry.values.get_ref().iter().map(number).collect::<Result<Vec<u64>, String>>()?;
        let [min, max] = [&entry.min, &entry.max].map(|end| end.as_ref().map(number).transpose());
        let low = min?.or(values.iter().min().copied()).unwrap_or_default();
        let high = max?.or(values.iter().max().copied()).unwrap_or_default();
        if let Some(outside) = values.iter().find(|value| !(low..=high).contains(value)) {
            let what = format!("the value {outside} is below `min` or above `max`");
            return Err(self.wrong(&entry.values, &what));
        }
        Ok(Domain::Number { unit, low, high, defaults: List::Owned(self.distinct(entry, values)?) })
    }

    fn words(&self, entry: &AxisEntry) -> Result<Domain, String> {
        if entry.min.is_some() || entry.max.is_some() {
            return Err(self.wrong(&entry.values, "`min` and `max` are for an axis of numbers"));
        }
        let word = |value: &Value| {
            match value {
            Value::Text(word) if is_word(word) => Ok(word.clone()),
            Value::Text(word) => Err(self.wrong(
                &entry.values,
                &format!(
                    "the value `{word}` is none: it takes letters, digits and `.`, `-` or `_`, at most \
                     {NAME_MAX_CHARS}"
                ),
            )),
            Value::Number(number) => Ok(number.to_string()),
        }
        };
        let words = entry.values.get_ref().iter().map(word).collect::<Result<Vec<_>, _>>()?;
        let words = self.distinct(entry, words)?.into_iter();
        let choices = words.map(|word| Choice {
            value: Text::Owned(word),
            about: Text::Borrowed("given to your code as it stands here"),
        });
        Ok(Domain::Choice(choices.collect()))
    }

    fn distinct<T: Ord + Clone>(
        &self,
        entry: &AxisEntry,
        values: Vec<T>,
    ) -> Result<Vec<T>, String> {
        let distinct: BTreeSet<&T> = values.iter().collect();
        match distinct.len() == values.len() {
            true => Ok(values),
            false => {
                let what = format!("axis `{}` has a value twice", entry.name.get_ref());
                Err(self.wrong(&entry.values, &what))
            }
        }
    }

    /// The one thing that a probe measures.
    fn operation(&self, entry: &Entry, file: &Path, axes: &[Axis]) -> Result<Operation, String> {
        let name = &entry.name;
        let is_function = entry.object.is_some() || entry.function.is_some();
        match (is_function, &entry.program, &entry.command) {
            (true, None, None) => self.function(entry, file, axes),
            (false, Some(program), None) => {
                Ok(Operation::Program(self.line(entry, program, axes)?))
            }
            (false, None, Some(command)) => {
                Ok(Operation::Command(self.line(entry, command, axes)?))
            }
            _ => Err(self.wrong(
                name,
                &format!(
                    "probe `{}` takes one of: `object` and `function`; `program`; `command`",
                    name.get_ref()
                ),
            )),
        }
    }

    fn function(&self, entry: &Entry, file: &Path, axes: &[Axis]) -> Result<Operation, String> {
        let name = &entry.name;
        let (Some(object), Some(function)) = (&entry.object, &entry.function) else {
            let what = "a function takes both `object`, the path of a shared object, and `function`, a symbol of it";
            return Err(self.wrong(name, what));
        };
        if axes.len() > FUNCTION_AXES_MAX {
            let what = format!("a function takes n and at most {FUNCTION_AXES_MAX} axes");
            return Err(self.wrong(name, &what));
        }
        let symbols = [Some(function), entry.setup.as_ref(), entry.teardown.as_ref()];
        if let Some(symbol) = symbols.into_iter().flatten().find(|symbol| !is_symbol(symbol)) {
            return Err(self.wrong(name, &format!("`{symbol}` cannot be a symbol")));
        }
        let folder = file.parent().unwrap_or(Path::new("/"));
        Ok(Operation::Function {
            object: folder.join(object),
            function: function.clone(),
            setup: entry.setup.clone(),
            teardown: entry.teardown.clone(),
        })
    }

    /// The words of a command line, which name each axis.
    fn line(&self, entry: &Entry, line: &Spanned<String>, axes: &[Axis]) -> Result<Words, String> {
        if entry.setup.is_some() || entry.teardown.is_some() {
            return Err(self.wrong(line, "`setup` and `teardown` are for a function"));
        }
        let words = shlex::split(line.get_ref()).filter(|words| !words.is_empty());
        let Some(words) = words.map(Words) else {
            return Err(self.wrong(line, "it is no command: a quote is not closed, or it is empty"));
        };
        if let Some(axis) = axes.iter().find(|axis| !words.have(&axis.name)) {
            let what = format!(
                "axis `{0}` stands nowhere in it: write {{{0}}} where its value belongs",
                axis.name
            );
            return Err(self.wrong(line, &what));
        }
        let names = axes.iter().map(|axis| &*axis.name);
        if let Some(other) =
            words.placeholders().find(|name| !names.clone().any(|own| own == *name))
        {
            let what = format!(
                "the probe has no axis for {{{other}}}{} (a script of its own may have such braces)",
                nearest::hint(other, names)
            );
            return Err(self.wrong(line, &what));
        }
        Ok(words)
    }
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
    fn a_mistake_is_named_with_its_line() {
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
            ("project = 'memory'".to_owned(), ["line 1", "costof's own probes"]),
            (probe(""), ["line 3", "takes one of"]),
            (probe("program = 'a'\ncommand = 'b'"), ["line 3", "takes one of"]),
            (probe("object = 'a.so'"), ["line 3", "takes both"]),
            (probe("object = 'a.so'\nfunction = 'a b'"), ["line 3", "cannot be a symbol"]),
            (probe("command = \"echo 'a\""), ["line 5", "not closed"]),
            (probe("command = ''"), ["line 5", "is empty"]),
            (probe("command = 'true'\nsetup = 'a'"), ["line 5", "for a function"]),
            (probe("comand = 'true'"), ["line 5", "comand"]),
            (probe("command = 'true'\naxes = [{ name = 'b', values = [1] }]"), ["line 5", "{b}"]),
            (probe("command = 'head -c {size} x'"), ["line 5", "{size}"]),
            (axis("name = 'a', values = []"), ["line 7", "1 to 1000 values"]),
            (axis("name = 'a', values = [1, 1]"), ["line 7", "twice"]),
            (axis("name = 'a', values = ['x y']"), ["line 7", "letters, digits"]),
            (axis("name = 'a', values = [-1]"), ["line 7", "whole number"]),
            (axis("name = 'a', values = ['1KiB', 2]"), ["line 7", "whole number"]),
            (axis("name = 'a', values = [5], min = 6"), ["line 7", "below `min`"]),
            (axis("name = 'a', values = ['x'], max = 6"), ["line 7", "axis of numbers"]),
            (axis("name = 'A', values = [1]"), ["line 7", "name of an axis"]),
            (axis("name = 'rest', values = [1]"), ["line 7", "name of an axis"]),
            (
                axis("name = 'a', values = [1] }, { name = 'a', values = [1]"),
                ["line 7", "two axes"],
            ),
            (
                probe("command = 'true'") + "[[probe]]\nname = 'a'\nquestion = ''",
                ["line 7", "before"],
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
