//! A client that waits for what it asked.

use super::channel::{self, Channel};
use super::echo::{Message, echo, request, with_deadline};
use super::errors::failed;
use super::runtime;
use super::wire::echo_client::EchoClient;
use super::wire::{Chunk, Wanted};
use crate::messages::Messages;
use crate::{Options, Payload, RpcError, Socket, Summary};
use bytes::Bytes;
use prost::Message as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedSender;
use tokio_stream::wrappers::UnboundedReceiverStream;

#[derive(Debug)]
pub(crate) struct Client {
    /// What goes over it must end before what it runs on.
    echo: Option<EchoClient<Channel>>,
    messages: Option<Messages<Message>>,
    runtime: io::Result<Runtime>,
    options: Options,
}

/// The connection and the runtime, where both are there.
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
        Ok(Self {
            echo: None,
            messages: None,
            runtime: Ok(runtime),
            options: options.clone(),
        })
    }

    pub(crate) fn over(&mut self, socket: Socket) -> Result<(), RpcError> {
        let runtime = self.runtime.as_ref().map_err(no_runtime)?;
        let client = runtime.block_on(channel::client(socket, &self.options));
        self.echo = Some(client.map_err(RpcError::failed)?);
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        if self.echo.take().is_some() {
            // What holds the connection is a task that nobody would wake any more: it ends with
            // its runtime.
            self.runtime = runtime();
        }
    }

    pub(crate) fn call(&mut self, payload: &Payload) -> Result<(), RpcError> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let make = |payload: &Payload| Message::fitting(payload, &self.options);
        let messages = Messages::reuse(&mut self.messages, payload, make)?;
        let answer = runtime.block_on(with_deadline(
            echo(client, messages.next(), &self.options),
            &self.options,
        ));
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
        let answer = runtime.block_on(with_deadline(call, &self.options));
        let answer = answer.map_err(|status| failed(&status, &self.options))?;
        let arrived = Summary {
            chunks: answer.get_ref().chunks,
            bytes: answer.get_ref().bytes,
        };
        arrived.verify(sent.load(Ordering::Relaxed), size)
    }

    pub(crate) fn download(
        &mut self,
        size: usize,
        mut each: impl FnMut() -> bool,
    ) -> Result<Summary, RpcError> {
        let wanted = Wanted {
            chunks: u64::MAX,
            size: size as u64,
        };
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let options = &self.options;
        let mut received = Received::new(size);
        let call = async {
            let mut chunks = client
                .download(request(wanted, options))
                .await?
                .into_inner();
            while let Some(chunk) = chunks.message().await? {
                if !received.is_right(&chunk) || !each() {
                    break;
                }
            }
            Ok(())
        };
        let done = runtime.block_on(with_deadline(call, options));
        received.summary(done.map_err(|status| failed(&status, options)))
    }

    pub(crate) fn exchange(
        &mut self,
        size: usize,
        ahead: usize,
        mut each: impl FnMut() -> bool,
    ) -> Result<Summary, RpcError> {
        let (client, runtime) = connected(&mut self.echo, &self.runtime)?;
        let options = &self.options;
        let chunk = fitting(size, options)?;
        let (sender, chunks) = tokio::sync::mpsc::unbounded_channel();
        let send = |sender: &UnboundedSender<Chunk>| {
            // It fails where the call is over, whose end is seen below.
            let _ = sender.send(chunk.clone());
        };
        (0..ahead.max(1)).for_each(|_| send(&sender));
        let mut sender = Some(sender);
        let mut received = Received::new(size);
        let call = async {
            let chunks = request(UnboundedReceiverStream::new(chunks), options);
            let mut chunks = client.exchange(chunks).await?.into_inner();
            while let Some(chunk) = chunks.message().await? {
                if !received.is_right(&chunk) {
                    break;
                }
                match &sender {
                    Some(sender) if each() => send(sender),
                    // The stream ends here, and at the server when it has sent back the rest.
                    _ => sender = None,
                }
            }
            Ok(())
        };
        let done = runtime.block_on(with_deadline(call, options));
        received.summary(done.map_err(|status| failed(&status, options)))
    }
}

/// What came of a stream of chunks that are all alike.
struct Received {
    expected: Bytes,
    summary: Summary,
    wrong: Option<usize>,
}

impl Received {
    fn new(size: usize) -> Self {
        Self {
            expected: chunk(size).data,
            summary: Summary::default(),
            wrong: None,
        }
    }

    fn is_right(&mut self, chunk: &Chunk) -> bool {
        self.summary.chunks += 1;
        self.summary.bytes += chunk.data.len() as u64;
        if chunk.data != self.expected {
            self.wrong = Some(chunk.data.len());
        }
        self.wrong.is_none()
    }

    /// What came in all, where the call ended well.
    fn summary(self, done: Result<(), RpcError>) -> Result<Summary, RpcError> {
        done?;
        let Some(length) = self.wrong else {
            return Ok(self.summary);
        };
        Err(RpcError::WrongAnswer(format!(
            "a chunk of {length} B is not the one of {} B that was to come",
            self.expected.len()
        )))
    }
}

/// A chunk of a stream: always the same one for one size.
pub(super) fn chunk(size: usize) -> Chunk {
    let data = crate::client::chunk(size).into();
    Chunk { data }
}

/// A chunk, where it may be sent.
fn fitting(size: usize, options: &Options) -> Result<Chunk, RpcError> {
    let chunk = chunk(size);
    options.fits(chunk.encoded_len()).map(|()| chunk)
}

fn no_runtime(error: &io::Error) -> RpcError {
    RpcError::Failed(format!("cannot make a runtime: {error}"))
}
