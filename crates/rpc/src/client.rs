//! A client of either stack that waits for each answer.

use crate::by_stack::{ByStack, either};
use crate::{Options, Payload, RpcError, Socket, Stack, Summary, grpc, memory, thrift};

/// A client with at most one connection, which does all its work on the calling thread.
#[derive(Debug)]
pub struct Client {
    inner: ByStack<Box<grpc::Client>, Box<thrift::Client>>,
}

impl Client {
    /// A client that is not connected. Creates the runtime, once per process.
    ///
    /// # Errors
    /// [`RpcError::Failed`] if the system has no descriptor left.
    pub fn new(stack: Stack, options: &Options) -> Result<Self, RpcError> {
        memory::keep(options.max_message_bytes);
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(Box::new(grpc::Client::new(options)?)),
            Stack::Thrift(protocol) => {
                ByStack::Thrift(Box::new(thrift::Client::new(protocol, options)))
            }
        };
        Ok(Self { inner })
    }

    /// Uses this connection; an earlier one is closed first. gRPC's preface and settings are sent without waiting for
    /// an answer.
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

    /// Sends the payload, waits for the answer, and checks that it is the same. From the second
    /// call with one kind of payload on, the last answer is reused as the message.
    ///
    /// # Errors
    /// Why it failed.
    #[inline]
    pub fn call(&mut self, payload: &Payload) -> Result<(), RpcError> {
        either!(&mut self.inner, client => client.call(payload))
    }

    /// Calls `more` before each chunk of `size` bytes, and sends chunks while it returns true. Then
    /// waits for the server's count of what arrived, and compares it with what was sent. gRPC uses
    /// a client stream; Thrift, which has none, uses oneway calls followed by one with an answer.
    ///
    /// # Errors
    /// Why it failed; [`RpcError::WrongAnswer`] if the counts differ.
    pub fn upload(
        &mut self,
        size: usize,
        more: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Summary, RpcError> {
        either!(&mut self.inner, client => client.upload(size, more))
    }
}
