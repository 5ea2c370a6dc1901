//! A client that waits for each answer.

use super::errors::failed;
use super::line::Line;
use super::protocols::protocols;
use super::wire::calls::{Chunk, Message, finish};
use super::wire::{EchoSyncClient, TEchoSyncClient};
use super::{MAX_FRAME, MAX_OVERHEAD, limits};
use crate::messages::Messages;
use crate::payload::Value;
use crate::{Options, Payload, Protocol, RpcError, Socket, Stack, Summary};
use ::thrift::TThriftClient;
use std::fmt;
use std::net::Shutdown;
use std::sync::Arc;

/// A generated client by either protocol.
trait Calls: TThriftClient + TEchoSyncClient + Send {}

impl<C: TThriftClient + TEchoSyncClient + Send> Calls for C {}

pub(crate) struct Client {
    connection: Option<(Box<dyn Calls>, Arc<Line>)>,
    messages: Option<Messages<Message>>,
    protocol: Protocol,
    options: Options,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = self.connection.as_ref().map(|(_, line)| line);
        f.debug_struct("Client").field("connection", &connection).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(protocol: Protocol, options: &Options) -> Self {
        Self { connection: None, messages: None, protocol, options: options.clone() }
    }

    pub(crate) fn over(&mut self, socket: Socket) -> Result<(), RpcError> {
        let line = Line::new(socket, self.options.max_message_bytes)
            .and_then(|line| line.set_timeout(self.options.deadline).map(|()| line))
            .map_err(|error| RpcError::Failed(format!("cannot use the connection: {error}")))?;
        let limits = limits(&self.options);
        let calls: Box<dyn Calls> =
            protocols!(self.protocol, &line, limits, (i, o) => Box::new(EchoSyncClient::new(i, o)));
        self.connection = Some((calls, line));
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        if let Some((_, line)) = self.connection.take() {
            line.socket().shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn call(&mut self, payload: &Payload) -> Result<(), RpcError> {
        let deadline = self.options.deadline;
        let make = |payload: &Payload| fitting(payload, &self.options);
        let messages = Messages::reuse(&mut self.messages, payload, make)?;
        let (client, line) = self.connection.as_mut().ok_or(RpcError::NotConnected)?;
        line.begin_call(deadline);
        let answer = match messages.next() {
            Message::Int(value) => client.echo_int(value).map(Message::Int),
            Message::Double(value) => client.echo_double(value).map(Message::Double),
            Message::String(value) => client.echo_string(value).map(Message::String),
            Message::Structure(value) => client.echo_structure(value).map(Message::Structure),
        };
        match answer {
            Ok(answer) => messages.check_reply(answer),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub(crate) fn upload(
        &mut self,
        size: usize,
        mut more: impl FnMut() -> bool,
    ) -> Result<Summary, RpcError> {
        fits(size, &self.options)?;
        let (client, line) = self.connection.as_mut().ok_or(RpcError::NotConnected)?;
        line.begin_call(self.options.deadline);
        let chunk = Chunk::new(crate::summary::chunk(size));
        let mut sent = 0;
        let mut send = || {
            while more() {
                let number = client.increment_sequence_number();
                chunk.write(number, client.o_prot_mut())?;
                sent += 1;
            }
            finish(&mut **client)
        };
        match send() {
            Ok(arrived) => Summary { chunks: arrived.chunks as u64, bytes: arrived.bytes as u64 }
                .verify(sent, size),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Why a call failed. If the two ends are out of step, the connection is not used again.
    fn failed(&mut self, error: ::thrift::Error) -> RpcError {
        let stack = Stack::Thrift(self.protocol);
        let (error, usable) = failed(error, stack, &self.options);
        if !usable {
            self.disconnect();
        }
        error
    }
}

/// The message of this payload, if its size is allowed.
///
/// # Errors
/// [`RpcError::TooLong`].
pub(super) fn fitting(payload: &Payload, options: &Options) -> Result<Message, RpcError> {
    if let Value::String(text) = payload.value() {
        fits(text.len(), options)?;
    }
    Ok(Message::from(payload))
}

/// Checks the size of a string or chunk, the only values that can be long.
fn fits(bytes: usize, options: &Options) -> Result<(), RpcError> {
    options.fits(bytes)?;
    if bytes > MAX_FRAME - MAX_OVERHEAD {
        return Err(RpcError::TooLong(format!(
            "{bytes} B to send; Thrift's frames have {MAX_FRAME} B at most"
        )));
    }
    Ok(())
}
