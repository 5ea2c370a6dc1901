//! A server of either stack.

use crate::by_stack::{ByStack, either};
use crate::socket::Listener;
use crate::{Options, RpcError, Socket, Stack, grpc, memory, thrift};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The pause after a connection that could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A server on threads of its own, until it is stopped or dropped. Its threads inherit the CPUs of
/// the thread that starts it.
#[derive(Debug)]
pub struct Server {
    /// Dropped before `serving`, to which it passes connections.
    accepting: Option<Accepting>,
    serving: Arc<Serving>,
}

type Serving = ByStack<grpc::Server, thrift::Server>;

/// A thread that accepts connections, until it is dropped.
#[derive(Debug)]
struct Accepting {
    listener: Arc<Listener>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address`, where port 0 means any free one, and serves every connection.
    ///
    /// # Errors
    /// [`RpcError::Listen`].
    pub fn listen(stack: Stack, address: SocketAddr, options: &Options) -> Result<Self, RpcError> {
        let listen = || {
            let listener = Arc::new(Listener::bind(address)?);
            let serving = Arc::new(start(stack, options)?);
            let accepting = Some(Accepting::start(listener, Arc::clone(&serving))?);
            Ok(Self { accepting, serving })
        };
        listen().map_err(|source| RpcError::Listen { address, source })
    }

    /// Serves only connections that are passed to [`Server::serve`].
    ///
    /// # Errors
    /// [`RpcError::Failed`] if the system has no thread or descriptor left.
    pub fn start(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        let serving = start(stack, options).map_err(|error| cannot_serve(&error))?;
        Ok(Self { accepting: None, serving: Arc::new(serving) })
    }

    /// The listening address with its port; `None` if it does not listen.
    pub fn address(&self) -> Option<SocketAddr> {
        let accepting = self.accepting.as_ref()?;
        Some(accepting.listener.address)
    }

    /// Serves this connection too.
    ///
    /// # Errors
    /// [`RpcError::Failed`] with the system's error for the socket.
    pub fn serve(&self, socket: Socket) -> Result<(), RpcError> {
        let served = either!(&*self.serving, server => server.serve(socket));
        served.map_err(|error| cannot_serve(&error))
    }

    /// Closes all connections and ends its threads.
    pub fn stop(self) {}
}

fn start(stack: Stack, options: &Options) -> io::Result<Serving> {
    memory::keep(options.max_message_bytes);
    Ok(match stack {
        Stack::Grpc => ByStack::Grpc(grpc::Server::start(options)?),
        Stack::Thrift(transport, protocol) => {
            ByStack::Thrift(thrift::Server::new((transport, protocol), options))
        }
    })
}

fn cannot_serve(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot serve: {error}"))
}

impl Accepting {
    fn start(listener: Arc<Listener>, serving: Arc<Serving>) -> io::Result<Self> {
        let named = thread::Builder::new().name("accept".into());
        let thread = named.spawn({
            let listener = Arc::clone(&listener);
            move || accept(&listener, &serving)
        })?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

/// Serves every connection, until the listener is closed.
fn accept(listener: &Listener, serving: &Serving) {
    loop {
        let accepted = match listener.accept() {
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            accepted => accepted,
        };
        let served = accepted.and_then(|socket| either!(serving, server => server.serve(socket)));
        if served.is_err() {
            // Perhaps no descriptors or threads are left; there may be some soon.
            thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.listener.close();
        if let Some(thread) = self.thread.take() {
            // A panic there was a bug, and was reported on standard error.
            let _ = thread.join();
        }
    }
}
