//! Many calls at once: for a load that does not wait for its answers.

use crate::{Address, Options, Payload, RpcError, Socket, Stack};
use std::time::Duration;

/// Calls that were begun and are not answered, over one connection or several, which are used in
/// turn. All work is done on the thread that calls.
#[derive(Debug)]
pub struct InFlight {}

impl InFlight {
    /// Connects so many times.
    ///
    /// # Errors
    /// [`RpcError::Connect`]; [`RpcError::Unsupported`] of Thrift without frames, where nobody can
    /// tell without waiting whether an answer has come whole.
    pub fn connect(
        _stack: Stack,
        _address: &Address,
        _connections: usize,
        _options: &Options,
    ) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Uses these connections.
    ///
    /// # Errors
    /// As [`InFlight::connect`].
    pub fn over(
        _stack: Stack,
        _sockets: Vec<Socket>,
        _options: &Options,
    ) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Begins a call and does not wait: its number, from 0 on. What the kernel does not take at once
    /// is sent by [`InFlight::poll`].
    ///
    /// # Errors
    /// Why it cannot.
    pub fn begin(&mut self, _payload: &Payload) -> Result<u64, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Sends and receives what there is, and gives the number and the outcome of every call that is
    /// over to `answered`, at once when it is. Waits until there is one, for `wait` at most (zero:
    /// does not sleep, for who keeps asking; else in whole milliseconds).
    ///
    /// # Errors
    /// Why no call can be answered any more.
    pub fn poll(
        &mut self,
        _wait: Duration,
        _answered: &mut dyn FnMut(u64, Result<(), RpcError>),
    ) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// How many calls have been begun and not answered.
    pub fn count(&self) -> usize {
        0
    }
}
