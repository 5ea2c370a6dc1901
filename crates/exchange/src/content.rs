//! What messages contain: written by the sender, and compared by the receiver.

pub(crate) mod fields;
pub(crate) mod numbered;

use std::io::{self, ErrorKind};

pub(crate) fn wrong_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the received bytes differ from those sent")
}
