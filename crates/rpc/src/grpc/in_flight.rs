//! Many calls at once, multiplexed by HTTP/2.

use super::channel::{self, Channel};
use super::echo::{Message, echo, with_deadline};
use super::errors::failed;
use super::runtime;
use super::wire::echo_client::EchoClient;
use crate::messages::Messages;
use crate::{Options, Payload, RpcError, Socket};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::Status;

/// A call: its number, and its answer.
type Call = Pin<Box<dyn Future<Output = (u64, Result<Message, Status>)> + Send>>;

#[derive(Debug)]
pub(crate) struct InFlight {
    /// Dropped before the runtime on which they run.
    calls: FuturesUnordered<Call>,
    clients: Vec<EchoClient<Channel>>,
    messages: Option<Messages<Message>>,
    runtime: Runtime,
    options: Arc<Options>,
}

impl InFlight {
    pub(crate) fn over(sockets: Vec<Socket>, options: &Options) -> Result<Self, RpcError> {
        let runtime = runtime().map_err(RpcError::failed)?;
        let clients = runtime.block_on(async {
            let mut clients = Vec::with_capacity(sockets.len());
            for socket in sockets {
                clients.push(channel::client(socket, options).await?);
            }
            std::io::Result::Ok(clients)
        });
        Ok(Self {
            calls: FuturesUnordered::new(),
            clients: clients.map_err(RpcError::failed)?,
            messages: None,
            runtime,
            options: Arc::new(options.clone()),
        })
    }

    pub(crate) fn begin(&mut self, number: u64, payload: &Payload) -> Result<(), RpcError> {
        let make = |payload: &Payload| Message::fitting(payload, &self.options);
        let messages = Messages::reuse(&mut self.messages, payload, make)?;
        let message = messages.next();
        let client = (number % self.clients.len() as u64) as usize;
        let mut client = self.clients[client].clone();
        let options = Arc::clone(&self.options);
        self.calls.push(Box::pin(async move {
            let call = echo(&mut client, message, &options);
            (number, with_deadline(call, &options).await)
        }));
        Ok(())
    }

    pub(crate) fn poll(
        &mut self,
        wait: Duration,
        answered: &mut dyn FnMut(u64, Result<(), RpcError>),
    ) -> Result<(), RpcError> {
        let (calls, messages, options) = (&mut self.calls, &mut self.messages, &self.options);
        let mut over = |(number, answer): (u64, Result<Message, Status>)| {
            let answer = answer.map_err(|status| failed(&status, options));
            let messages = messages.as_mut().expect("created by the call that was begun");
            answered(number, answer.and_then(|answer| messages.check_reply(answer)));
        };
        self.runtime.block_on(async {
            let mut any = false;
            // Sends calls that were begun; answers arrive after the connection's task has run.
            for _ in 0..2 {
                while let Poll::Ready(Some(call)) = now(calls).await {
                    over(call);
                    any = true;
                }
                yield_now().await;
            }
            if !any
                && !wait.is_zero()
                && let Ok(Some(call)) = timeout(wait, calls.next()).await
            {
                over(call);
            }
        });
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.len()
    }
}

/// What is ready without waiting.
async fn now(calls: &mut FuturesUnordered<Call>) -> Poll<Option<(u64, Result<Message, Status>)>> {
    poll_fn(|cx| Poll::Ready(calls.poll_next_unpin(cx))).await
}
