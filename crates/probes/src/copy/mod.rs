//! Two copies, one, none.

pub(crate) mod receive;
