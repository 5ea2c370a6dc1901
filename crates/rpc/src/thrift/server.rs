//! A server: one thread for each connection.

use super::limits;
use super::line::{Line, TOO_LONG};
use super::protocols::protocols;
use super::wire::{EchoSyncHandler, Structure, Summary, TEchoProcessFunctions as Methods};
use crate::{Options, Protocol, Socket};
use ::thrift::protocol::{
    TInputProtocol, TMessageIdentifier, TMessageType, TOutputProtocol, TType,
};
use ::thrift::{
    ApplicationError, ApplicationErrorKind, Error, OrderedFloat, ProtocolErrorKind, TConfiguration,
    TransportErrorKind,
};
use std::cell::Cell;
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the rest of a refused message is read, so that the client reads the reason before the
/// connection closes.
const REFUSAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Server {
    protocol: Protocol,
    options: Options,
    connections: Mutex<Vec<Connection>>,
}

/// A connection, and the thread that closes it at the end.
#[derive(Debug)]
struct Connection {
    line: Weak<Line>,
    thread: JoinHandle<()>,
}

impl Server {
    pub(crate) fn new(protocol: Protocol, options: &Options) -> Self {
        Self { protocol, options: options.clone(), connections: Mutex::default() }
    }

    /// Serves a connection, on a thread of its own.
    pub(crate) fn serve(&self, socket: Socket) -> io::Result<()> {
        let line = Line::new(socket, self.options.max_message_bytes)?;
        let weak = Arc::downgrade(&line);
        let (protocol, limits) = (self.protocol, limits(&self.options));
        let named = thread::Builder::new().name("thrift".into());
        let thread = named.spawn(move || {
            serve_connection(&line, protocol, limits);
            line.socket().shutdown(Shutdown::Both);
        })?;
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.thread.is_finished());
        connections.push(Connection { line: weak, thread });
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let connections = self.connections.get_mut().unwrap_or_else(PoisonError::into_inner);
        for connection in connections.iter() {
            if let Some(line) = connection.line.upgrade() {
                line.socket().shutdown(Shutdown::Both);
            }
        }
        for connection in connections.drain(..) {
            // A panic there was a bug, and was reported on standard error.
            let _ = connection.thread.join();
        }
    }
}

/// Answers until the connection ends.
fn serve_connection(line: &Arc<Line>, protocol: Protocol, limits: TConfiguration) {
    protocols!(protocol, line, limits, (i, o) => {
        let (mut i, mut o) = (i, o);
        let handler = Handler::default();
        while answer(&handler, line, &mut i, &mut o).is_ok() {}
    });
}

/// Answers one message. Apache's own `TProcessor` loses its position in the stream if the arguments
/// cannot be read.
fn answer(
    handler: &Handler,
    line: &Line,
    i: &mut dyn TInputProtocol,
    o: &mut dyn TOutputProtocol,
) -> Result<(), Error> {
    line.begin_message();
    let begins = i.read_message_begin()?;
    let number = begins.sequence_number;
    let done = match &*begins.name {
        "echo_int" => Methods::process_echo_int(handler, number, i, o),
        "echo_double" => Methods::process_echo_double(handler, number, i, o),
        "echo_string" => Methods::process_echo_string(handler, number, i, o),
        "echo_structure" => Methods::process_echo_structure(handler, number, i, o),
        "chunk" => Methods::process_chunk(handler, number, i, o),
        "finish" => Methods::process_finish(handler, number, i, o),
        unknown => {
            i.skip(TType::Struct)?;
            i.read_message_end()?;
            let what = format!("unknown method {unknown}");
            return refuse(&begins, ApplicationErrorKind::UnknownMethod, what, o);
        }
    };
    done.inspect_err(|error| {
        if let Some(reason) = refusal(error)
            && refuse(&begins, ApplicationErrorKind::ProtocolError, reason, o).is_ok()
        {
            drain(line.socket());
        }
    })
}

/// The reason to send to a client whose message cannot be read.
fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::Protocol(error) if error.kind == ProtocolErrorKind::SizeLimit => {
            Some(format!("{TOO_LONG}{}", error.message))
        }
        Error::Protocol(error) => Some(error.message.clone()),
        Error::Transport(error) if error.kind == TransportErrorKind::Unknown => {
            Some(error.message.clone())
        }
        _ => None,
    }
}

/// Answers with an exception.
fn refuse(
    begins: &TMessageIdentifier,
    kind: ApplicationErrorKind,
    reason: String,
    o: &mut dyn TOutputProtocol,
) -> Result<(), Error> {
    let answer = TMessageIdentifier::new(
        begins.name.clone(),
        TMessageType::Exception,
        begins.sequence_number,
    );
    o.write_message_begin(&answer)?;
    Error::write_application_error_to_out_protocol(&ApplicationError::new(kind, reason), o)?;
    o.write_message_end()?;
    o.flush()
}

/// Reads the remaining input for a while: closing a connection with unread data resets it, and the
/// client would not read the reason.
fn drain(socket: &Socket) {
    socket.shutdown(Shutdown::Write);
    let began = Instant::now();
    let mut buffer = [0; 16 << 10];
    let mut stream = &socket.0;
    if stream.set_read_timeout(Some(REFUSAL)).is_ok() {
        while began.elapsed() < REFUSAL && stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    }
}

/// The methods. Each connection has its own handler, with the count of its stream.
#[derive(Debug, Default)]
struct Handler {
    chunks: Cell<i64>,
    bytes: Cell<i64>,
}

impl EchoSyncHandler for Handler {
    fn handle_echo_int(&self, value: i32) -> ::thrift::Result<i32> {
        Ok(value)
    }

    fn handle_echo_double(&self, value: OrderedFloat<f64>) -> ::thrift::Result<OrderedFloat<f64>> {
        Ok(value)
    }

    fn handle_echo_string(&self, value: String) -> ::thrift::Result<String> {
        Ok(value)
    }

    fn handle_echo_structure(&self, value: Structure) -> ::thrift::Result<Structure> {
        Ok(value)
    }

    fn handle_chunk(&self, data: Vec<u8>) -> ::thrift::Result<()> {
        self.chunks.set(self.chunks.get() + 1);
        self.bytes.set(self.bytes.get() + data.len() as i64);
        Ok(())
    }

    fn handle_finish(&self) -> ::thrift::Result<Summary> {
        Ok(Summary::new(self.chunks.take(), self.bytes.take()))
    }
}
