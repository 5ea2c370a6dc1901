//! What carries messages, as words of an axis.

use costof_model::{PointRow, Select};

/// The axis that says what carries the messages of a point.
pub(crate) const AXIS: &str = "over";

/// The first of these rows whose messages this carries.
pub(crate) fn first<'r>(rows: &Select<'r>, word: &str) -> Option<&'r PointRow> {
    rows.iter().copied().find(|row| row.is_at(AXIS, word))
}
