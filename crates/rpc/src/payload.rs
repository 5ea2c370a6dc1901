//! What is sent and comes back.

/// What kind of value a payload is: the study's six and strings of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A number of 32 bits.
    Int,
    /// A floating-point number of 64 bits.
    Double,
    /// A structure: numbers, strings, a nested message, a repeated field, a map.
    Structure,
    /// A string of so many bytes, of ASCII letters.
    String(usize),
}

impl Kind {
    /// The payloads of the study.
    pub const STUDY: [Kind; 6] = [
        Kind::Int,
        Kind::Double,
        Kind::Structure,
        Kind::String(512),
        Kind::String(1024),
        Kind::String(2048),
    ];
}

/// A value to be echoed, always the same for one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    kind: Kind,
}

impl Payload {
    /// The payload of this kind.
    pub fn new(kind: Kind) -> Self {
        Self { kind }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
