//! Many calls in flight, multiplexed by HTTP/2: for a load that does not wait for its answers.

use super::channel::{self, Channel};
use super::echo::{Message, echo};
use super::runtime;
use super::wire::echo_client::EchoClient;
use crate::client::not_connected;
use crate::messages::Messages;
use crate::{Payload, Socket, Stack, memory};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tonic::Status;

/// A call: its number, and its answer.
type Call = Pin<Box<dyn Future<Output = (u64, Result<Message, Status>)> + Send>>;

/// Unanswered calls of gRPC with one payload over one or several connections, which are used in turn. All work is
/// done on the calling thread.
#[derive(Debug)]
pub struct InFlight {
    /// Dropped before the runtime on which they run.
    calls: FuturesUnordered<Call>,
    clients: Vec<EchoClient<Channel>>,
    messages: Messages<Message>,
    begun: u64,
    runtime: Runtime,
}

impl InFlight {
    /// Uses these connections.
    ///
    /// # Errors
    /// The system's, for the sockets; `NotConnected` without any.
    pub fn over(sockets: Vec<Socket>, payload: &Payload) -> io::Result<Self> {
        if sockets.is_empty() {
            return Err(not_connected());
        }
        memory::keep();
        let runtime = runtime()?;
        let clients = runtime.block_on(async {
            let mut clients = Vec::with_capacity(sockets.len());
            for socket in sockets {
                clients.push(channel::client(Stack::Grpc, None, socket).await?);
            }
            io::Result::Ok(clients)
        });
        let (calls, messages) = (FuturesUnordered::new(), Messages::new(payload));
        Ok(Self { calls, clients: clients?, messages, begun: 0, runtime })
    }

    /// Begins a call without waiting. Returns its number, counted from 0. It is sent by [`InFlight::poll`].
    pub fn begin(&mut self) -> u64 {
        let number = self.begun;
        self.begun += 1;
        let message = self.messages.next();
        let mut client = self.clients[(number % self.clients.len() as u64) as usize].clone();
        self.calls.push(Box::pin(async move { (number, echo(&mut client, message).await) }));
        number
    }

    /// Sends and receives without blocking, and passes the number and the outcome of each finished
    /// call to `answered`.
    pub fn poll(&mut self, answered: &mut dyn FnMut(u64, io::Result<()>)) {
        let (calls, messages) = (&mut self.calls, &mut self.messages);
        self.runtime.block_on(async {
            // Sends calls that were begun; answers arrive after the connection's task has run.
            for _ in 0..2 {
                while let Poll::Ready(Some((number, answer))) = now(calls).await {
                    let answer = answer.map_err(io::Error::other);
                    answered(number, answer.and_then(|answer| messages.check_reply(answer)));
                }
                yield_now().await;
            }
        });
    }

    /// The number of unanswered calls.
    pub fn count(&self) -> usize {
        self.calls.len()
    }
}

/// What is ready without waiting.
async fn now(calls: &mut FuturesUnordered<Call>) -> Poll<Option<(u64, Result<Message, Status>)>> {
    poll_fn(|cx| Poll::Ready(calls.poll_next_unpin(cx))).await
}
