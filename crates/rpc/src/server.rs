//! A server of either stack.

use crate::{Address, Options, RpcError, Socket, Stack};

/// A server, on threads of its own, until it is stopped or dropped. Its threads begin on the
/// processors of the thread that starts it.
#[derive(Debug)]
pub struct Server {
    address: Option<Address>,
}

impl Server {
    /// Serves whoever connects to `address`.
    ///
    /// # Errors
    /// [`RpcError::Listen`].
    pub fn listen(_stack: Stack, _address: &Address, _options: &Options) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Serves only the connections that [`Server::serve`] is given.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where the system has no thread or descriptor left.
    pub fn start(_stack: Stack, _options: &Options) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Where it listens, the port filled in; none where it does not.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Serves this connection too. No token is expected of it.
    ///
    /// # Errors
    /// [`RpcError::Failed`] with what the system says of the socket.
    pub fn serve(&self, _socket: Socket) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Closes all connections and ends its threads.
    pub fn stop(self) {}
}
