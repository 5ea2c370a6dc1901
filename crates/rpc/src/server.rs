//! A server of either stack.

use crate::address::Listener;
use crate::by_stack::{ByStack, either};
use crate::{Address, Options, RpcError, Socket, Stack, grpc, memory, thrift};
use std::io;
use std::time::Duration;

/// How many connections a server has at once; one more is closed at once.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// How long who connects has to say the token.
pub(crate) const TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long is waited where a connection cannot be accepted.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A server, on threads of its own, until it is stopped or dropped. Its threads begin on the
/// processors of the thread that starts it.
#[derive(Debug)]
pub struct Server {
    address: Option<Address>,
    inner: ByStack<grpc::Server, thrift::Server>,
}

impl Server {
    /// Serves whoever connects to `address`.
    ///
    /// # Errors
    /// [`RpcError::Listen`].
    pub fn listen(stack: Stack, address: &Address, options: &Options) -> Result<Self, RpcError> {
        let listener = address.listen()?;
        let listening = listener.address.clone();
        Self::launch(stack, Some(listener), options)
            .map(|server| Self {
                address: Some(listening),
                ..server
            })
            .map_err(|source| RpcError::Listen {
                address: address.clone(),
                source,
            })
    }

    /// Serves only the connections that [`Server::serve`] is given.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where the system has no thread or descriptor left.
    pub fn start(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        Self::launch(stack, None, options).map_err(|error| cannot_serve(&error))
    }

    fn launch(stack: Stack, listener: Option<Listener>, options: &Options) -> io::Result<Self> {
        memory::keep(options.message_most);
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(grpc::Server::start(listener, options)?),
            Stack::Thrift(transport, protocol) => {
                let way = (transport, protocol);
                ByStack::Thrift(thrift::Server::start(way, listener, options)?)
            }
        };
        let address = None;
        Ok(Self { address, inner })
    }

    /// Where it listens, the port filled in; none where it does not.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Serves this connection too. No token is expected of it.
    ///
    /// # Errors
    /// [`RpcError::Failed`] with what the system says of the socket.
    pub fn serve(&self, socket: Socket) -> Result<(), RpcError> {
        let served = either!(&self.inner, server => server.serve(socket));
        served.map_err(|error| cannot_serve(&error))
    }

    /// Closes all connections and ends its threads.
    pub fn stop(self) {}
}

fn cannot_serve(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot serve: {error}"))
}
