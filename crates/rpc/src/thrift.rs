//! Thrift by Apache's own crate, and the code that Apache's compiler generates from
//! `idl/echo.thrift`.

mod client;
mod line;
mod marshal;
mod server;

pub(crate) use client::Client;
pub(crate) use marshal::Marshal;
pub(crate) use server::Server;

use crate::MAX_MESSAGE_BYTES;
use ::thrift::{Error, TConfiguration, TransportErrorKind};
use std::io;

/// What Apache's compiler generates from `idl/echo.thrift`, unchanged (`crates/rpc/generate`;
/// `./check --all` generates it again and compares). Nobody reads or edits it, so its lints are allowed,
/// here and nowhere else.
#[allow(dead_code, unreachable_pub, unused_imports, clippy::all, clippy::unwrap_used)]
mod wire {
    include!("thrift/generated/echo.rs");

    pub(super) mod calls;
}

/// What an end believes of the lengths that it is told.
fn limits() -> TConfiguration {
    let limits = TConfiguration::builder()
        .max_frame_size(None)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_string_size(Some(MAX_MESSAGE_BYTES));
    limits.build().expect("only frames longer than messages are refused")
}

/// An error with its message, which the crate's own text leaves out.
fn failed(error: Error) -> io::Error {
    io::Error::other(match error {
        Error::Transport(error) if error.kind == TransportErrorKind::EndOfFile => {
            "the other end closed the connection".to_owned()
        }
        Error::Transport(error) => error.message,
        Error::Protocol(error) => error.message,
        Error::Application(error) => error.message,
        Error::User(error) => error.to_string(),
    })
}
