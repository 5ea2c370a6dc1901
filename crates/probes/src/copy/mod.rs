//! Copies on the way of a message, and what it is worth to leave them out.

pub(crate) mod by_size;
pub(crate) mod parts;
pub(crate) mod pieces;
pub(crate) mod receive;
pub(crate) mod send;

/// Which copies each way of [`send`] makes on each link, as a drawing.
pub(crate) const COPIES: &str = include_str!("send/copies.txt");
/// Where the two copies are, whether they are two, and which one goes.
pub(crate) const TWO_COPIES: &str = include_str!("send/two_copies.txt");
