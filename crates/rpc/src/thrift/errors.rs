//! Translates Thrift's errors.

use super::line::TOO_LONG;
use crate::{Options, RpcError, Stack};
use ::thrift::{ApplicationErrorKind, Error, ProtocolErrorKind, TransportErrorKind};

/// Why a call failed, and whether the connection can be used afterwards.
pub(super) fn failed(error: Error, stack: Stack, options: &Options) -> (RpcError, bool) {
    let other_protocol = |reason| RpcError::OtherProtocol { stack, reason };
    let broken = match error {
        Error::Application(error) => {
            return match error.kind {
                ApplicationErrorKind::UnknownMethod => {
                    (RpcError::NoSuchMethod(error.message), true)
                }
                _ => match error.message.strip_prefix(TOO_LONG) {
                    // The server has not read the rest of the message.
                    Some(reason) => (RpcError::TooLong(reason.to_owned()), false),
                    None => (RpcError::Failed(error.message), false),
                },
            };
        }
        Error::Transport(error) => match error.kind {
            TransportErrorKind::TimedOut => {
                RpcError::DeadlineExceeded(options.deadline.unwrap_or_default())
            }
            TransportErrorKind::EndOfFile => RpcError::Closed("an answer was expected".into()),
            TransportErrorKind::NotOpen => RpcError::Closed(error.message),
            _ => match error.message.strip_prefix(TOO_LONG) {
                Some(reason) => RpcError::TooLong(reason.to_owned()),
                // An invalid frame length.
                None if error.message.contains("rame size") => other_protocol(error.message),
                None => RpcError::Failed(error.message),
            },
        },
        Error::Protocol(error) => match error.kind {
            ProtocolErrorKind::SizeLimit => RpcError::TooLong(error.message),
            _ => other_protocol(error.message),
        },
        error => RpcError::Failed(error.to_string()),
    };
    (broken, false)
}
