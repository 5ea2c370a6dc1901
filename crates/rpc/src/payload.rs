//! What is sent and echoed.

use std::collections::BTreeMap;
use std::fmt;

/// The kind of a payload's value: the study's six, and strings of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A 32-bit number.
    Int,
    /// A 64-bit floating-point number.
    Double,
    /// A structure: numbers, strings, a nested message, repeated fields, a map.
    Structure,
    /// A string of this many bytes, of ASCII letters.
    String(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int => f.write_str("int"),
            Self::Double => f.write_str("double"),
            Self::Structure => f.write_str("structure"),
            Self::String(bytes) => write!(f, "string of {bytes} B"),
        }
    }
}

/// A value to be echoed, always the same for one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    kind: Kind,
    value: Value,
}

/// The value, in no stack's own type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Int(i32),
    Double(f64),
    String(String),
    Structure(Structure),
}

/// The structure of both interfaces.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Structure {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) price: f64,
    pub(crate) sold: bool,
    pub(crate) at: (f64, f64),
    pub(crate) numbers: Vec<i32>,
    pub(crate) notes: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Payload {
    /// The payload of this kind.
    pub fn new(kind: Kind) -> Self {
        let value = match kind {
            // Neither the shortest nor the longest variable-length number.
            Kind::Int => Value::Int(1_234_567),
            Kind::Double => Value::Double(1_234.567_89),
            Kind::String(bytes) => Value::String(letters(bytes)),
            Kind::Structure => Value::Structure(structure()),
        };
        Self { kind, value }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }
}

/// Letters with different neighbours, so that a missing or misplaced one is detected.
fn letters(bytes: usize) -> String {
    ('a'..='z').cycle().take(bytes).collect()
}

fn structure() -> Structure {
    let text = |text: &str| text.to_owned();
    let labels = [("colour", "green"), ("maker", "Zündapp"), ("owner", "none"), ("wheels", "two")];
    Structure {
        id: 9_007_199_254_740_993,
        name: text("a structure with a name"),
        price: -0.125,
        sold: true,
        at: (48.137_154, 11.576_124),
        numbers: vec![0, 1, -1, 127, 128, -65_536, i32::MAX, i32::MIN],
        notes: vec![text("first"), text(""), text("a note that is longer than the others")],
        labels: labels.map(|(key, value)| (text(key), text(value))).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_always_the_same_and_each_is_another() {
        let strings = [0, 512, 1024, 2048].map(Kind::String);
        let others = [Kind::Int, Kind::Double, Kind::Structure];
        let kinds = others.into_iter().chain(strings);
        let payloads: Vec<Payload> = kinds.map(Payload::new).collect();
        for (at, payload) in payloads.iter().enumerate() {
            assert_eq!(*payload, Payload::new(payload.kind()));
            assert!(payloads[..at].iter().all(|other| other != payload));
        }
    }

    #[test]
    fn a_string_has_the_bytes_that_were_asked_for() {
        for bytes in [0, 1, 26, 27, 65_536] {
            let payload = Payload::new(Kind::String(bytes));
            let Value::String(text) = payload.value() else { panic!("{payload:?}") };
            assert_eq!(text.len(), bytes);
        }
    }
}
