//! Two copies, one, none.

pub(crate) mod parts;
pub(crate) mod receive;
