//! A client of either stack that waits for each answer.

use crate::by_stack::{ByStack, either};
use crate::{Options, Payload, RpcError, Socket, Stack, grpc, memory, thrift};
use std::net::SocketAddr;

/// What the receiver of a stream has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many chunks arrived.
    pub chunks: u64,
    /// How many bytes they had, the stack's own not counted.
    pub bytes: u64,
}

impl Summary {
    /// Itself, where that many chunks of this size were sent.
    ///
    /// # Errors
    /// [`RpcError::WrongAnswer`].
    pub(crate) fn verify(self, chunks: u64, size: usize) -> Result<Self, RpcError> {
        let bytes = chunks * size as u64;
        if self == (Summary { chunks, bytes }) {
            return Ok(self);
        }
        Err(RpcError::WrongAnswer(format!(
            "{chunks} chunks of {size} B were sent, and {} of {} B together arrived",
            self.chunks, self.bytes
        )))
    }
}

/// The bytes of a chunk: always the same for one size, no two neighbours alike.
pub(crate) fn chunk(size: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(size).collect()
}

/// A client with one connection at most, which does all its work on the thread that calls it.
#[derive(Debug)]
pub struct Client {
    inner: ByStack<Box<grpc::Client>, Box<thrift::Client>>,
}

impl Client {
    /// A client that is not connected. What a process has once is made here: the runtime.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where the system has no descriptor left.
    pub fn new(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        memory::keep(options.max_message_bytes);
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(Box::new(grpc::Client::new(options)?)),
            Stack::Thrift(transport, protocol) => {
                ByStack::Thrift(Box::new(thrift::Client::new(transport, protocol, options)))
            }
        };
        Ok(Self { inner })
    }

    /// Connects; an earlier connection is closed first. gRPC's preface and settings are sent, and
    /// not waited for.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub fn connect(&mut self, address: SocketAddr) -> Result<(), RpcError> {
        self.disconnect();
        let socket = Socket::connect(address)?;
        self.over(socket)
    }

    /// Uses this connection.
    ///
    /// # Errors
    /// [`RpcError::Failed`] with the system's error for the socket.
    pub fn over(&mut self, socket: Socket) -> Result<(), RpcError> {
        self.disconnect();
        either!(&mut self.inner, client => client.over(socket))
    }

    /// Closes the connection, if there is one.
    pub fn disconnect(&mut self) {
        either!(&mut self.inner, client => client.disconnect())
    }

    /// Sends the payload, waits for the answer, and checks that it is the same. From the second call
    /// with one kind of payload on, the message is the last answer: it is not made anew.
    ///
    /// # Errors
    /// Why it failed.
    #[inline]
    pub fn call(&mut self, payload: &Payload) -> Result<(), RpcError> {
        either!(&mut self.inner, client => client.call(payload))
    }

    /// Sends chunks of `size` bytes while `more` returns true, which is called before each, and waits for
    /// the server's count of what has arrived, which is what was sent. gRPC: a client stream.
    /// Thrift has none: oneway calls, and an answered one after the last.
    ///
    /// # Errors
    /// Why it failed; [`RpcError::WrongAnswer`] where another sum has arrived than was sent.
    pub fn upload(
        &mut self,
        size: usize,
        more: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Summary, RpcError> {
        either!(&mut self.inner, client => client.upload(size, more))
    }
}
