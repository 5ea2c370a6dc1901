//! A client that waits for each answer.

use super::channel::{self, Channel};
use super::echo::{Message, echo, request, with_deadline};
use super::errors::failed;
use super::runtime;
use super::wire::Chunk;
use super::wire::echo_client::EchoClient;
use crate::messages::Messages;
use crate::{Options, Payload, RpcError, Socket, Summary};
use prost::Message as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Runtime;

#[derive(Debug)]
pub(crate) struct Client {
    /// Dropped before the runtime on which it runs.
    echo: Option<EchoClient<Channel>>,
    messages: Option<Messages<Message>>,
    runtime: io::Result<Runtime>,
    options: Options,
}

/// The connection and the runtime, if both exist.
fn connected<'a>(
    echo: &'a mut Option<EchoClient<Channel>>,
    runtime: &'a io::Result<Runtime>,
) -> Result<(&'a mut EchoClient<Channel>, &'a Runtime), RpcError> {
    match (echo, runtime) {
        (Some(echo), Ok(runtime)) => Ok((echo, runtime)),
        _ => Err(RpcError::NotConnected),
    }
}

impl Client {
    pub(crate) fn new(options: &Options) -> Result<Self, RpcError> {
        let runtime = runtime().map_err(|error| no_runtime(&error))?;
        Ok(Self { echo: None, messages: None, runtime: Ok(runtime), options: options.clone() })
    }

    pub(crate) fn over(&mut self, socket: Socket) -> Result<(), RpcError> {
        let runtime = self.runtime.as_ref().map_err(no_runtime)?;
        let client = runtime.block_on(channel::client(socket, &self.options));
        self.echo = Some(client.map_err(RpcError::failed)?);
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        if self.echo.take().is_some() {
            // A task of the runtime holds the connection, and nobody would wake it again: it ends
            // with its runtime.
            self.runtime = runtime();
        }
    }

    pub(crate) fn call(&mut self, payload: &Payload) -> Result<(), RpcError> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let make = |payload: &Payload| Message::fitting(payload, &self.options);
        let messages = Messages::reuse(&mut self.messages, payload, make)?;
        let answer = runtime
            .block_on(with_deadline(echo(client, messages.next(), &self.options), &self.options));
        messages.check_reply(answer.map_err(|status| failed(&status, &self.options))?)
    }

    pub(crate) fn upload(
        &mut self,
        size: usize,
        mut more: impl FnMut() -> bool + Send + 'static,
    ) -> Result<Summary, RpcError> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let chunk = fitting(size, &self.options)?;
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        let chunks = tokio_stream::iter(std::iter::from_fn(move || {
            let chunk = more().then(|| chunk.clone())?;
            counted.fetch_add(1, Ordering::Relaxed);
            Some(chunk)
        }));
        let call = client.upload(request(chunks, &self.options));
        let answer = runtime
            .block_on(with_deadline(call, &self.options))
            .map_err(|status| failed(&status, &self.options))?;
        let arrived = Summary { chunks: answer.get_ref().chunks, bytes: answer.get_ref().bytes };
        arrived.verify(sent.load(Ordering::Relaxed), size)
    }
}

/// A chunk of a stream, if its size is allowed.
fn fitting(size: usize, options: &Options) -> Result<Chunk, RpcError> {
    let data = crate::summary::chunk(size).into();
    let chunk = Chunk { data };
    options.fits(chunk.encoded_len()).map(|()| chunk)
}

fn no_runtime(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot create a runtime: {error}"))
}
