//! A server of either stack.

use crate::{Address, Options, RpcError, Socket, Stack, grpc, memory, thrift};
use std::io;
use std::time::Duration;

/// How many connections a server has at once; one more is closed at once.
pub(crate) const CONNECTIONS_MOST: usize = 1024;
/// How long who connects has to say the token.
pub(crate) const GREETING: Duration = Duration::from_secs(10);
/// How long is waited where a connection cannot be accepted.
pub(crate) const REST: Duration = Duration::from_millis(50);

/// A server, on threads of its own, until it is stopped or dropped. Its threads begin on the
/// processors of the thread that starts it.
#[derive(Debug)]
pub struct Server {
    address: Option<Address>,
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Grpc(grpc::Server),
    Thrift(thrift::Server),
}

impl Server {
    /// Serves whoever connects to `address`.
    ///
    /// # Errors
    /// [`RpcError::Listen`].
    pub fn listen(stack: Stack, address: &Address, options: &Options) -> Result<Self, RpcError> {
        let listener = address.listen()?;
        let listening = listener.address.clone();
        memory::keep(options.message_most);
        let inner = match stack {
            Stack::Grpc => grpc::Server::start(Some(listener), options).map(Inner::Grpc),
            Stack::Thrift(transport, protocol) => {
                thrift::Server::start((transport, protocol), Some(listener), options)
                    .map(Inner::Thrift)
            }
        };
        let inner = inner.map_err(|source| RpcError::Listen {
            address: address.clone(),
            source,
        })?;
        Ok(Self {
            address: Some(listening),
            inner,
        })
    }

    /// Serves only the connections that [`Server::serve`] is given.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where the system has no thread or descriptor left.
    pub fn start(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        memory::keep(options.message_most);
        let inner = match stack {
            Stack::Grpc => grpc::Server::start(None, options).map(Inner::Grpc),
            Stack::Thrift(transport, protocol) => {
                thrift::Server::start((transport, protocol), None, options).map(Inner::Thrift)
            }
        };
        Ok(Self {
            address: None,
            inner: inner.map_err(|error| cannot_serve(&error))?,
        })
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
        let served = match &self.inner {
            Inner::Grpc(server) => server.serve(socket),
            Inner::Thrift(server) => server.serve(socket),
        };
        served.map_err(|error| cannot_serve(&error))
    }

    /// Closes all connections and ends its threads.
    pub fn stop(self) {}
}

fn cannot_serve(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot serve: {error}"))
}
