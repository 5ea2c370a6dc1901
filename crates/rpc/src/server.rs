//! A server of either stack.

use crate::by_stack::{ByStack, either};
use crate::{Options, RpcError, Socket, Stack, grpc, memory, thrift};
use std::io;

/// Serves the connections that it is given, until it is dropped: that closes them. It returns their arguments, and
/// counts what streams carry.
#[derive(Debug)]
pub struct Server(ByStack<grpc::Server, thrift::Server>);

impl Server {
    /// Starts a server of this stack, without a connection.
    ///
    /// # Errors
    /// [`RpcError::Failed`] if it cannot start another thread.
    pub fn start(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        memory::keep(options.max_message_bytes);
        Ok(Self(match stack {
            Stack::Grpc => {
                let started = grpc::Server::start(options);
                ByStack::Grpc(started.map_err(|error| cannot_serve(&error))?)
            }
            Stack::Thrift(protocol) => ByStack::Thrift(thrift::Server::new(protocol, options)),
        }))
    }

    /// Serves one more connection.
    ///
    /// # Errors
    /// [`RpcError::Failed`] if the socket cannot be used, or no thread be started.
    pub fn serve(&self, socket: Socket) -> Result<(), RpcError> {
        let served = either!(&self.0, server => server.serve(socket));
        served.map_err(|error| cannot_serve(&error))
    }
}

fn cannot_serve(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot serve: {error}"))
}
