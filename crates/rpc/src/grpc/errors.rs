//! What a status of gRPC says of a call.

use crate::{Options, RpcError, Stack};
use std::error::Error;
use tonic::{Code, Status};

/// Why a call failed.
pub(super) fn failed(status: &Status, options: &Options) -> RpcError {
    let said = || status.message().to_owned();
    match status.code() {
        Code::DeadlineExceeded => RpcError::DeadlineExceeded(options.deadline.unwrap_or_default()),
        Code::OutOfRange | Code::ResourceExhausted => RpcError::TooLong(said()),
        Code::Unimplemented => RpcError::NoSuchMethod(said()),
        _ => transport(status).unwrap_or_else(|| RpcError::Failed(status.to_string())),
    }
}

/// What HTTP/2 or the connection has to do with it.
fn transport(status: &Status) -> Option<RpcError> {
    let mut closed = None;
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return Some(match error.reason() {
                // It says so in its own words that it is ending, or refuses: it does speak HTTP/2.
                Some(h2::Reason::NO_ERROR | h2::Reason::CANCEL | h2::Reason::REFUSED_STREAM) => {
                    RpcError::Closed(error.to_string())
                }
                None => RpcError::Closed(error.to_string()),
                Some(_) => RpcError::OtherProtocol {
                    stack: Stack::Grpc,
                    reason: error.to_string(),
                },
            });
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_closed() || error.is_canceled() || error.is_incomplete_message())
        {
            closed = Some(RpcError::Closed(error.to_string()));
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            closed = Some(RpcError::Closed(error.to_string()));
        }
        cause = error.source();
    }
    closed
}
