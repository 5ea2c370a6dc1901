//! A server of either stack.

use crate::{Socket, Stack, grpc, memory, thrift};
use std::io;

/// Serves the connections that it is given, until it is dropped: that closes them. It returns their arguments, and
/// counts what streams carry.
pub trait Server: Send + Sync {
    /// Serves one more connection.
    ///
    /// # Errors
    /// The system's, if the socket cannot be used, or no thread be started.
    fn serve(&self, socket: Socket) -> io::Result<()>;
}

/// Starts a server of this stack, without a connection.
///
/// # Errors
/// The system's, if it cannot start another thread.
pub fn server(stack: Stack) -> io::Result<Box<dyn Server>> {
    memory::keep();
    Ok(match stack {
        Stack::Thrift => Box::new(thrift::Server::default()),
        grpc => Box::new(grpc::Server::start(grpc)?),
    })
}
