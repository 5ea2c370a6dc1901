//! Copies on the way of a message, and what it is worth to leave them out.

pub(crate) mod send;
