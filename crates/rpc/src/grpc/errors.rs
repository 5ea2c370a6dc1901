//! Why a call failed, by its gRPC status.

use crate::{Options, RpcError, Stack};
use std::error::Error;
use tonic::{Code, Status};

pub(super) fn failed(status: &Status, options: &Options) -> RpcError {
    let message = || status.message().to_owned();
    match status.code() {
        Code::DeadlineExceeded => RpcError::DeadlineExceeded(options.deadline.unwrap_or_default()),
        Code::OutOfRange | Code::ResourceExhausted => RpcError::TooLong(message()),
        Code::Unimplemented => RpcError::NoSuchMethod(message()),
        _ => transport(status).unwrap_or_else(|| RpcError::Failed(status.to_string())),
    }
}

/// The error of HTTP/2 or of its connection.
fn transport(status: &Status) -> Option<RpcError> {
    let mut closed = None;
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            use h2::Reason;
            return match error.reason() {
                // It broke, or the peer announces that it closes the connection.
                None | Some(Reason::NO_ERROR | Reason::CANCEL | Reason::REFUSED_STREAM) => {
                    Some(RpcError::Closed(error.to_string()))
                }
                Some(
                    Reason::PROTOCOL_ERROR
                    | Reason::FRAME_SIZE_ERROR
                    | Reason::COMPRESSION_ERROR
                    | Reason::HTTP_1_1_REQUIRED,
                ) => {
                    Some(RpcError::OtherProtocol { stack: Stack::Grpc, reason: error.to_string() })
                }
                Some(_) => None,
            };
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
