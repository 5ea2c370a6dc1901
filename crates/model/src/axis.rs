//! Axes: what a probe varies, and the values that it may take.

use crate::unit::{display_ns, parse_bytes, parse_count, parse_ns};
use crate::{Few, List, Text, Unit, display_bytes, few};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// One thing that a probe varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name, shared by all probes that vary the same thing.
    pub name: Text,
    /// What it varies, in one sentence.
    pub about: Text,
    /// The values that it may take.
    pub domain: Domain,
}

/// The values that an axis may take. The first is the default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// One of these words.
    Choice(#[serde(deserialize_with = "crate::read_some")] List<Choice>),
    /// A number within bounds.
    Number {
        /// The unit: bytes, or a count.
        unit: Unit,
        /// The smallest value.
        low: u64,
        /// The largest value.
        high: u64,
        /// The values that a run of this probe takes by default.
        #[serde(rename = "usual", deserialize_with = "crate::read_some")]
        defaults: List<u64>,
    },
    /// A location: one of these words, an absolute path, or a URL with one of these schemes.
    Place {
        /// The words, each for a location that the machine or the probe chooses.
        #[serde(deserialize_with = "crate::read_some")]
        words: List<Choice>,
        /// The schemes, such as `nfs`; if empty, URLs are not allowed.
        schemes: List<Text>,
    },
}

/// The longest path or URL, in bytes: the kernel's `PATH_MAX` minus the terminating zero.
pub const PLACE_MAX_BYTES: usize = 4095;

/// A word that an axis may take, and its meaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The word.
    pub value: Text,
    /// Its meaning.
    pub about: Text,
}

/// A value on an axis.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A number, in the axis's unit.
    Number(u64),
    /// A word.
    Word(Text),
}

/// A value for every axis of a probe, by the axis's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Axes(pub Values, #[serde(skip)] Defaults);

/// Values by the names of their axes. Points share them until one of them changes: each launch of a run repeats points.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Values(Arc<Few<Text, AxisValue>>);

impl Deref for Values {
    type Target = Few<Text, AxisValue>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Values {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        few::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        Ok(Values(Arc::new(few::deserialize(deserializer)?)))
    }
}

/// The default of each axis of the probe, if the probe is known. Ids leave these values out. The defaults follow
/// from the probe, so they do not count when two points are compared.
#[derive(Clone, Default)]
struct Defaults(Option<Values>);

impl fmt::Debug for Defaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "known" } else { "unknown" })
    }
}

impl PartialEq for Defaults {
    fn eq(&self, _: &Defaults) -> bool {
        true
    }
}

impl Eq for Defaults {}

impl PartialOrd for Defaults {
    fn partial_cmp(&self, other: &Defaults) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Defaults {
    fn cmp(&self, _: &Defaults) -> Ordering {
        Ordering::Equal
    }
}

impl Hash for Defaults {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Axis {
    /// The values that a run takes by default; the first is the axis's own default.
    pub fn defaults(&self) -> Vec<AxisValue> {
        match &self.domain {
            Domain::Choice(words) | Domain::Place { words, .. } => {
                let words = words.iter().map(|choice| choice.value.clone());
                words.map(AxisValue::Word).collect()
            }
            Domain::Number { defaults, .. } => {
                defaults.iter().copied().map(AxisValue::Number).collect()
            }
        }
    }

    /// The value of the axis if the user asks for no other.
    ///
    /// # Panics
    /// If the axis has no values, which is a bug in its probe.
    pub fn default(&self) -> AxisValue {
        self.defaults().into_iter().next().expect("an axis has values")
    }

    /// Reads a value of this axis.
    ///
    /// # Errors
    /// A sentence that names the axis, the text and the allowed values.
    pub fn parse(&self, text: &str) -> Result<AxisValue, String> {
        match &self.domain {
            Domain::Choice(choices) => {
                let words: Vec<&str> = choices.iter().map(|choice| &*choice.value).collect();
                if words.contains(&text) {
                    return Ok(AxisValue::Word(Text::Owned(text.to_owned())));
                }
                let hint = crate::nearest::hint(text, words.iter().copied());
                let words = words.join(", ");
                Err(format!("axis {} has no value `{text}`{hint} (values: {words})", self.name))
            }
            Domain::Number { unit, low, high, .. } => {
                let value = match unit {
                    Unit::Bytes => parse_bytes(text),
                    Unit::Nanoseconds => parse_ns(text),
                    // A rate is a number of things a second.
                    _ if self.name == "rate" => parse_count(text.trim().trim_end_matches("/s")),
                    _ => parse_count(text),
                };
                if let Some(value) = value.filter(|value| (*low..=*high).contains(value)) {
                    return Ok(AxisValue::Number(value));
                }
                let of_unit = match unit {
                    Unit::Bytes => " of bytes (KiB, MiB, GiB or TiB may follow it)",
                    Unit::Nanoseconds => " of nanoseconds (us, ms or s may follow it)",
                    _ => "",
                };
                let [low, high] = [*low, *high].map(|end| display_number(*unit, end));
                Err(format!(
                    "axis {} cannot be `{text}`: it takes a whole number{of_unit} from {low} to {high}",
                    self.name
                ))
            }
            Domain::Place { words, schemes } => {
                if is_place(text, words, schemes) {
                    return Ok(AxisValue::Word(Text::Owned(text.to_owned())));
                }
                let mut may_stand: Vec<String> =
                    words.iter().map(|word| word.value.to_string()).collect();
                may_stand.push("an absolute path".to_owned());
                may_stand.extend(schemes.iter().map(|scheme| format!("{scheme}://…")));
                Err(format!(
                    "axis {} cannot be `{}`: it takes {}, of at most {PLACE_MAX_BYTES} bytes",
                    self.name,
                    text.escape_debug(),
                    may_stand.join(" or ")
                ))
            }
        }
    }

    /// Whether this axis may have this value: a file, or a message from another machine, may
    /// contain any.
    pub fn allows(&self, value: &AxisValue) -> bool {
        match (&self.domain, value) {
            (Domain::Choice(choices), AxisValue::Word(word)) => {
                choices.iter().any(|choice| choice.value == *word)
            }
            (Domain::Number { low, high, .. }, AxisValue::Number(number)) => {
                (low..=high).contains(&number)
            }
            (Domain::Place { words, schemes }, AxisValue::Word(text)) => {
                is_place(text, words, schemes)
            }
            _ => false,
        }
    }

    /// A value of this axis as people write it.
    pub fn display(&self, value: &AxisValue) -> String {
        match (&self.domain, value) {
            (Domain::Number { unit, .. }, AxisValue::Number(number)) => {
                display_number(*unit, *number)
            }
            (_, value) => value.to_string(),
        }
    }
}

fn is_place(text: &str, words: &[Choice], schemes: &[Text]) -> bool {
    let is_url = |scheme: &Text| {
        let rest = text.strip_prefix(&**scheme);
        rest.is_some_and(|rest| rest.len() > 3 && rest.starts_with("://"))
    };
    words.iter().any(|word| word.value == text)
        || text.len() <= PLACE_MAX_BYTES
            && !text.contains(crate::harmless::is_harmful)
            && (text.starts_with('/') || schemes.iter().any(is_url))
}

fn display_number(unit: Unit, number: u64) -> String {
    match unit {
        Unit::Bytes => display_bytes(number),
        Unit::Nanoseconds => display_ns(number),
        _ => number.to_string(),
    }
}

impl Axes {
    /// The default value on each of these axes, which are all axes of a probe.
    pub fn defaults<'a>(axes: impl IntoIterator<Item = &'a Axis>) -> Axes {
        let axes = axes.into_iter().map(|axis| (axis.name.clone(), axis.default()));
        let values = Values(Arc::new(axes.collect()));
        let defaults = Defaults(Some(values.clone()));
        Axes(values, defaults)
    }

    /// Makes these the axes of the probe that has these defaults: an axis without a value gets its default.
    pub fn complete(&mut self, defaults: &Axes) {
        for (name, value) in defaults.0.iter() {
            if self.0.get(name).is_none() {
                self.0.insert(name.clone(), value.clone());
            }
        }
        self.know_defaults(defaults);
    }

    /// Makes these the axes of the probe that has these defaults, without adding a value.
    pub(crate) fn know_defaults(&mut self, defaults: &Axes) {
        self.1 = defaults.1.clone();
    }

    /// The axes that are not at their defaults; all of them if the probe is not known.
    pub fn besides_defaults(&self) -> impl Iterator<Item = (&Text, &AxisValue)> {
        let defaults = self.1.0.as_deref();
        let is_default = move |name: &Text, value: &AxisValue| {
            defaults.is_some_and(|defaults| defaults.get(name) == Some(value))
        };
        self.0.iter().filter(move |(name, value)| !is_default(name, value))
    }

    /// The number on the axis `name`, if it has one: a file of another build may not have it.
    pub fn find_number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_number()
    }

    /// The word on the axis `name`, if it has one: a file of another build may not have it.
    pub fn find_word(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            AxisValue::Word(word) => Some(word),
            AxisValue::Number(_) => None,
        }
    }

    /// The number on the axis `name`.
    ///
    /// # Panics
    /// If a probe asks for an axis that it has not declared, which is a bug.
    pub fn number(&self, name: &str) -> u64 {
        self.find_number(name)
            .unwrap_or_else(|| panic!("axis {name} has no number here: {:?}", self.0.get(name)))
    }

    /// The word on the axis `name`.
    ///
    /// # Panics
    /// If a probe asks for an axis that it has not declared, which is a bug.
    pub fn word(&self, name: &str) -> &str {
        self.find_word(name)
            .unwrap_or_else(|| panic!("axis {name} has no word here: {:?}", self.0.get(name)))
    }

    /// These axes, with `name` set to `value`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<AxisValue>) -> Axes {
        self.0.insert(Text::Borrowed(name), value.into());
        self
    }
}

impl AxisValue {
    /// The number, if it is one.
    pub fn as_number(&self) -> Option<u64> {
        match self {
            AxisValue::Number(number) => Some(*number),
            AxisValue::Word(_) => None,
        }
    }
}

impl From<u64> for AxisValue {
    fn from(value: u64) -> AxisValue {
        AxisValue::Number(value)
    }
}

impl From<&'static str> for AxisValue {
    fn from(value: &'static str) -> AxisValue {
        AxisValue::Word(Text::Borrowed(value))
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Number(value) => value.fmt(f),
            AxisValue::Word(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.0.iter().enumerate() {
            let space = if position == 0 { "" } else { " " };
            write!(f, "{space}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::words_axis;
    use crate::typed::{bytes, place};

    #[test]
    fn values_are_parsed_within_their_domain() {
        let size =
            bytes::<u64>(4096..=1 << 30, &[16384, 1 << 20]).into_axis("size", "the working set");
        let source = words_axis("source", &["tsc", "monotonic"]);
        assert_eq!(size.parse("16KiB"), Ok(AxisValue::Number(16384)));
        assert_eq!(size.default(), AxisValue::Number(16384));
        assert!(size.parse("2GiB").unwrap_err().contains("4KiB to 1GiB"));
        assert!(size.parse("big").unwrap_err().contains("`big`"));
        assert_eq!(source.parse("tsc"), Ok("tsc".into()));
        let error = source.parse("monotnic").unwrap_err();
        assert!(error.contains("did you mean `monotonic`"), "{error}");
    }

    #[test]
    fn a_place_is_a_word_a_path_or_an_url_of_a_scheme_that_it_knows() {
        const NFS: &[Text] = &[Text::Borrowed("nfs")];
        let words = [("temporary", "a folder that the probe chooses")];
        let [dir, remote] =
            [&[], NFS].map(|schemes| place(&words, schemes).into_axis("dir", "where"));
        assert_eq!(dir.default(), "temporary".into());
        for text in ["temporary", "/", "/a b/c"] {
            assert_eq!(dir.parse(text).unwrap().to_string(), text);
        }
        assert!(remote.parse("nfs://host:2049/export/file").is_ok());
        let long = format!("/{}", "x".repeat(PLACE_MAX_BYTES));
        for text in ["", "tmp", "./a", "nfs://h/e", "/a\nb", "/\u{202e}a", &long] {
            let error = dir.parse(text).unwrap_err();
            assert!(error.contains("absolute path"), "{error}");
        }
        for text in ["nfs://", "http://h/e", "nfs:/a"] {
            assert!(remote.parse(text).unwrap_err().contains("nfs://…"));
        }
    }

    #[test]
    fn axes_are_written_as_plain_json() {
        let axes = Axes::default().with("size", 4096).with("source", "tsc");
        let json = serde_json::to_string(&axes).unwrap();
        assert_eq!(json, r#"{"size":4096,"source":"tsc"}"#);
        assert_eq!(serde_json::from_str::<Axes>(&json).unwrap(), axes);
        assert_eq!(axes.to_string(), "size=4096 source=tsc");
    }
}
