//! A client that waits for each answer.

use super::failed;
use super::line::{Input, Output, open};
use super::wire::calls::{Chunk, Message};
use super::wire::{EchoSyncClient, TEchoSyncClient};
use crate::client::not_connected;
use crate::messages::Messages;
use crate::{Payload, Socket, Summary};
use ::thrift::TThriftClient;
use std::io;

type Calls = EchoSyncClient<Input, Output>;

#[derive(Default)]
pub(crate) struct Client {
    connection: Option<Calls>,
    messages: Option<Messages<Message>>,
}

impl crate::Client for Client {
    fn over(&mut self, socket: Socket) -> io::Result<()> {
        self.disconnect();
        let (input, output) = open(&socket)?;
        self.connection = Some(EchoSyncClient::new(input, output));
        Ok(())
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }

    fn call(&mut self, payload: &Payload) -> io::Result<()> {
        let messages = Messages::reuse(&mut self.messages, payload);
        let answer = with(&mut self.connection, |client| match messages.next() {
            Message::Int(value) => client.echo_int(value).map(Message::Int),
            Message::Double(value) => client.echo_double(value).map(Message::Double),
            Message::String(value) => client.echo_string(value).map(Message::String),
            Message::Structure(value) => client.echo_structure(value).map(Message::Structure),
        });
        messages.check_reply(answer?)
    }

    fn upload(
        &mut self,
        size: usize,
        mut more: Box<dyn FnMut() -> bool + Send>,
    ) -> io::Result<Summary> {
        let chunk = Chunk::new(crate::summary::chunk(size));
        let mut sent = 0;
        let arrived = with(&mut self.connection, |client| {
            while more() {
                let number = client.increment_sequence_number();
                chunk.write(number, client.o_prot_mut())?;
                sent += 1;
            }
            client.finish()
        })?;
        Summary { chunks: arrived.chunks as u64, bytes: arrived.bytes as u64 }.verify(sent, size)
    }
}

/// Uses the connection. After an error the two ends may be out of step, so it is closed.
fn with<T>(
    connection: &mut Option<Calls>,
    call: impl FnOnce(&mut Calls) -> ::thrift::Result<T>,
) -> io::Result<T> {
    call(connection.as_mut().ok_or_else(not_connected)?).map_err(|error| {
        *connection = None;
        failed(error)
    })
}
