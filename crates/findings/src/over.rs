//! What carries messages, as words of an axis.

use costof_model::{PointRow, Select};

/// The axis that says what carries the messages of a point.
pub(crate) const AXIS: &str = "over";

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
    Rudp,
    /// The study's protocol.
    Study,
    Quic,
    Thrift,
    Grpc,
}

impl Over {
    const ALL: [Over; 7] =
        [Over::Udp, Over::Tcp, Over::Rudp, Over::Study, Over::Quic, Over::Thrift, Over::Grpc];

    /// What carries the messages of a row; none if nothing does, or what this version does not know.
    pub(crate) fn of_row(row: &PointRow) -> Option<Over> {
        let word = row.word(AXIS)?;
        Over::ALL.into_iter().find(|over| over.word() == word)
    }

    /// Its word on the axis.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Over::Udp => "udp",
            Over::Tcp => "tcp",
            Over::Rudp => "rudp",
            Over::Study => "study",
            Over::Quic => "quic",
            Over::Thrift => "thrift",
            Over::Grpc => "grpc",
        }
    }

    /// The first of these rows whose messages it carries.
    pub(crate) fn first<'r>(self, rows: &Select<'r>) -> Option<&'r PointRow> {
        rows.iter().copied().find(|row| Over::of_row(row) == Some(self))
    }
}
