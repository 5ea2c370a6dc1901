//! Many calls in flight: for a load that does not wait for its answers.

use crate::by_stack::{ByStack, either};
use crate::{Kind, Options, Payload, RpcError, Socket, Stack, grpc, memory, thrift};
use std::time::Duration;

/// Unanswered calls over one or several connections, which are used in turn. All work is done on
/// the calling thread.
#[derive(Debug)]
pub struct InFlight {
    kind: Option<Kind>,
    begun: u64,
    inner: ByStack<Box<grpc::InFlight>, Box<thrift::InFlight>>,
}

impl InFlight {
    /// Uses these connections.
    ///
    /// # Errors
    /// [`RpcError::NotConnected`] without connections.
    pub fn over(stack: Stack, sockets: Vec<Socket>, options: &Options) -> Result<Self, RpcError> {
        if sockets.is_empty() {
            return Err(RpcError::NotConnected);
        }
        memory::keep(options.max_message_bytes);
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(Box::new(grpc::InFlight::over(sockets, options)?)),
            Stack::Thrift(protocol) => {
                let calls = thrift::InFlight::over(protocol, sockets, options)?;
                ByStack::Thrift(Box::new(calls))
            }
        };
        Ok(Self { kind: None, begun: 0, inner })
    }

    /// Begins a call without waiting. Returns its number, counted from 0. Bytes that are not sent
    /// at once are sent by [`InFlight::poll`].
    ///
    /// # Errors
    /// Why it failed; [`RpcError::Unsupported`] while calls of another kind of payload are in
    /// flight.
    pub fn begin(&mut self, payload: &Payload) -> Result<u64, RpcError> {
        if self.kind != Some(payload.kind()) {
            if self.count() > 0 {
                return Err(RpcError::Unsupported(
                    "calls that are in flight together have one kind of payload",
                ));
            }
            self.kind = Some(payload.kind());
        }
        let number = self.begun;
        either!(&mut self.inner, calls => calls.begin(number, payload))?;
        self.begun += 1;
        Ok(number)
    }

    /// Sends and receives without blocking, and passes the number and the outcome of each finished
    /// call to `answered`. Waits at most `wait` for the first one (zero: does not sleep, for a
    /// caller that spins; gRPC rounds to whole milliseconds).
    ///
    /// # Errors
    /// Why no call can be answered any more.
    pub fn poll(
        &mut self,
        wait: Duration,
        answered: &mut dyn FnMut(u64, Result<(), RpcError>),
    ) -> Result<(), RpcError> {
        either!(&mut self.inner, calls => calls.poll(wait, answered))
    }

    /// The number of unanswered calls.
    pub fn count(&self) -> usize {
        either!(&self.inner, calls => calls.count())
    }
}
