//! A client of either stack that waits for each answer.

use crate::{Payload, Socket, Stack, Summary, grpc, memory, thrift};
use std::io;

/// A client with at most one connection, which does all its work on the calling thread.
pub trait Client: Send {
    /// Uses this connection; an earlier one is closed first. gRPC's preface and settings are sent without waiting for
    /// an answer, behind the handshake of TLS if there is one.
    ///
    /// # Errors
    /// The system's, for the socket; why the handshake failed.
    fn over(&mut self, socket: Socket) -> io::Result<()>;

    /// Closes the connection, if there is one.
    fn disconnect(&mut self);

    /// Sends the payload, waits for the answer, and checks that it is the same. From the second
    /// call with one kind of payload on, the last answer is reused as the message.
    ///
    /// # Errors
    /// Why it failed, in the stack's words.
    fn call(&mut self, payload: &Payload) -> io::Result<()>;

    /// Calls `more` before each chunk of `size` bytes, and sends chunks while it returns true. Then
    /// waits for the server's count of what arrived, and compares it with what was sent. gRPC uses
    /// a client stream; Thrift, which has none, uses oneway calls followed by one with an answer.
    ///
    /// # Errors
    /// Why it failed, also that the counts differ.
    fn upload(&mut self, size: usize, more: Box<dyn FnMut() -> bool + Send>)
    -> io::Result<Summary>;
}

/// A client of this stack that is not connected. Creates what a process makes once: the runtime. Over TLS, it trusts the
/// server with this [key](crate::key).
///
/// # Errors
/// The system's, if it has no descriptor left.
pub fn client(stack: Stack, key: Option<&str>) -> io::Result<Box<dyn Client>> {
    memory::keep();
    Ok(match stack {
        Stack::Thrift => Box::new(thrift::Client::default()),
        grpc => Box::new(grpc::Client::new(grpc, key)?),
    })
}

pub(crate) fn not_connected() -> io::Error {
    let why =
        "there is no connection (it was not made, or an earlier call broke it; connect again)";
    io::Error::new(io::ErrorKind::NotConnected, why)
}
