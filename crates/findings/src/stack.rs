//! The stacks that carry messages, as words of an axis.

use costof_model::rows::PointRow;
use costof_model::select::Select;

/// The axis that says which stack carries the messages of a point.
pub(crate) const OVER: &str = "over";
/// The same axis of the probes of one layer, `rudp.` or `rpc.`.
pub(crate) const AXIS: &str = "stack";

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Udp,
    Tcp,
    Rudp,
    /// The study's protocol.
    Study,
    Quic,
    Thrift,
    Grpc,
}

impl Stack {
    const ALL: [Stack; 7] = [
        Stack::Udp,
        Stack::Tcp,
        Stack::Rudp,
        Stack::Study,
        Stack::Quic,
        Stack::Thrift,
        Stack::Grpc,
    ];

    /// The stack of a row; none if it has none, or one that this version does not know.
    pub(crate) fn of_row(row: &PointRow) -> Option<Stack> {
        let word = Stack::word_of(row)?;
        Stack::ALL.into_iter().find(|stack| stack.word() == word)
    }

    /// The word for the stack of a row.
    pub(crate) fn word_of(row: &PointRow) -> Option<&str> {
        row.word(OVER).or_else(|| row.word(AXIS))
    }

    /// Its word on the axis.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Stack::Udp => "udp",
            Stack::Tcp => "tcp",
            Stack::Rudp => "rudp",
            Stack::Study => "study",
            Stack::Quic => "quic",
            Stack::Thrift => "thrift",
            Stack::Grpc => "grpc",
        }
    }

    /// The first of these rows with this stack.
    pub(crate) fn first<'r>(self, rows: &Select<'r>) -> Option<&'r PointRow> {
        rows.iter().copied().find(|row| Stack::of_row(row) == Some(self))
    }
}
