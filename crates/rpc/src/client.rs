//! A client of either stack that waits for what it asked.

use crate::{Address, Options, Payload, RpcError, Socket, Stack};

/// What a stream was: at the end that received it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many chunks came.
    pub chunks: u64,
    /// How many bytes they had, the stack's own not counted.
    pub bytes: u64,
}

/// A client with one connection at most, which does all its work on the thread that calls it.
#[derive(Debug)]
pub struct Client {}

impl Client {
    /// A client that is not connected. What a process has once is made here: the runtime.
    ///
    /// # Errors
    /// [`RpcError::Failed`] where the system has no descriptor left.
    pub fn new(_stack: Stack, _options: &Options) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Connects; an earlier connection is closed first. gRPC's preface and settings are sent, and
    /// not waited for.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub fn connect(&mut self, _address: &Address) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Uses this connection; no token is said.
    ///
    /// # Errors
    /// [`RpcError::Failed`] with what the system says of the socket.
    pub fn over(&mut self, _socket: Socket) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Closes the connection, if there is one.
    pub fn disconnect(&mut self) {}

    /// Sends the payload, waits for the answer, and looks that it is the same. From the second call
    /// with one kind of payload on, the message is the last answer: it is not made anew.
    ///
    /// # Errors
    /// Why it failed.
    pub fn call(&mut self, _payload: &Payload) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Sends chunks of `size` bytes for as long as `more` says so, which is asked before each, and
    /// waits until the server says what has arrived, which is what was sent. gRPC: a client stream.
    /// Thrift has none: oneway calls, and an answered one after the last.
    ///
    /// # Errors
    /// Why it failed; [`RpcError::WrongAnswer`] where another sum has arrived than was sent.
    pub fn upload(
        &mut self,
        _size: usize,
        _more: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Summary, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Has the server send chunks of `size` bytes until `each`, which is called after each came,
    /// says no. gRPC only: a server stream, which is then cancelled.
    ///
    /// # Errors
    /// Why it failed; [`RpcError::Unsupported`] of Thrift.
    pub fn download(
        &mut self,
        _size: usize,
        _each: impl FnMut() -> bool,
    ) -> Result<Summary, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Sends chunks of `size` bytes which the server sends back, `ahead` of them before the first
    /// came back and another one for each that did, until `each`, which is called after each came
    /// back, says no; those under way are then waited for. gRPC only: a bidirectional stream.
    ///
    /// # Errors
    /// Why it failed; [`RpcError::Unsupported`] of Thrift.
    pub fn exchange(
        &mut self,
        _size: usize,
        _ahead: usize,
        _each: impl FnMut() -> bool,
    ) -> Result<Summary, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }
}
