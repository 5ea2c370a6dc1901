//! Many calls at once: for a load that does not wait for its answers.

use crate::by_stack::{ByStack, either};
use crate::{Kind, Options, Payload, RpcError, Socket, Stack, Transport, grpc, memory, thrift};
use std::time::Duration;

/// Calls that were begun and are not answered, over one connection or several, which are used in
/// turn. All work is done on the thread that calls.
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
    /// [`RpcError::Unsupported`] of Thrift without frames, where nobody can tell without waiting whether
    /// an answer is complete; [`RpcError::NotConnected`] where there are no connections.
    pub fn over(stack: Stack, sockets: Vec<Socket>, options: &Options) -> Result<Self, RpcError> {
        if sockets.is_empty() {
            return Err(RpcError::NotConnected);
        }
        memory::keep(options.max_message_bytes);
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(Box::new(grpc::InFlight::over(sockets, options)?)),
            Stack::Thrift(Transport::Framed, protocol) => {
                let calls = thrift::InFlight::over(protocol, sockets, options)?;
                ByStack::Thrift(Box::new(calls))
            }
            Stack::Thrift(Transport::Buffered, _) => {
                return Err(RpcError::Unsupported(
                    "without frames nobody can tell whether an answer of Thrift has come whole: \
                     many calls at once need Thrift's framed transport",
                ));
            }
        };
        Ok(Self {
            kind: None,
            begun: 0,
            inner,
        })
    }

    /// Begins a call and does not wait: its number, from 0 on. What is not sent at once is sent by
    /// [`InFlight::poll`].
    ///
    /// # Errors
    /// Why it cannot; [`RpcError::Unsupported`] while calls of another kind of payload are in flight.
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

    /// Sends and receives what there is, and gives the number and the outcome of every call that is
    /// over to `answered`, as soon as it is. Waits until there is one, for `wait` at most (zero:
    /// does not sleep, for a caller that spins; gRPC's are whole milliseconds).
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

    /// How many calls have been begun and not answered.
    pub fn count(&self) -> usize {
        either!(&self.inner, calls => calls.count())
    }
}
