//! Copies on the way of a message, and what it is worth to leave them out.

pub(crate) mod parts;
mod pieces;
pub(crate) mod receive;
pub(crate) mod send;
