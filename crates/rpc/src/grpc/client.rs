//! A client that waits for each answer.

use super::channel::{self, Channel};
use super::echo::{Message, echo};
use super::runtime;
use super::wire::Chunk;
use super::wire::echo_client::EchoClient;
use crate::client::not_connected;
use crate::messages::Messages;
use crate::{Payload, Socket, Stack, Summary};
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
    stack: Stack,
    key: Option<String>,
}

/// The connection and the runtime, if both exist.
fn connected<'a>(
    echo: &'a mut Option<EchoClient<Channel>>,
    runtime: &'a io::Result<Runtime>,
) -> io::Result<(&'a mut EchoClient<Channel>, &'a Runtime)> {
    match (echo, runtime) {
        (Some(echo), Ok(runtime)) => Ok((echo, runtime)),
        _ => Err(not_connected()),
    }
}

impl Client {
    pub(crate) fn new(stack: Stack, key: Option<&str>) -> io::Result<Self> {
        let (runtime, key) = (Ok(runtime()?), key.map(str::to_owned));
        Ok(Self { echo: None, messages: None, runtime, stack, key })
    }
}

impl crate::Client for Client {
    fn over(&mut self, socket: Socket) -> io::Result<()> {
        self.disconnect();
        let runtime = self.runtime.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
        let client = channel::client(self.stack, self.key.as_deref(), socket);
        self.echo = Some(runtime.block_on(client)?);
        Ok(())
    }

    fn disconnect(&mut self) {
        if self.echo.take().is_some() {
            // A task of the runtime holds the connection, and nobody would wake it again: it ends
            // with its runtime.
            self.runtime = runtime();
        }
    }

    fn call(&mut self, payload: &Payload) -> io::Result<()> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let messages = Messages::reuse(&mut self.messages, payload);
        let answer = runtime.block_on(echo(client, messages.next()));
        messages.check_reply(answer.map_err(io::Error::other)?)
    }

    fn upload(
        &mut self,
        size: usize,
        mut more: Box<dyn FnMut() -> bool + Send>,
    ) -> io::Result<Summary> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let chunk = Chunk { data: crate::summary::chunk(size).into() };
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        let chunks = tokio_stream::iter(std::iter::from_fn(move || {
            let chunk = more().then(|| chunk.clone())?;
            counted.fetch_add(1, Ordering::Relaxed);
            Some(chunk)
        }));
        let answer = runtime.block_on(client.upload(chunks)).map_err(io::Error::other)?;
        let arrived = Summary { chunks: answer.get_ref().chunks, bytes: answer.get_ref().bytes };
        arrived.verify(sent.load(Ordering::Relaxed), size)
    }
}
