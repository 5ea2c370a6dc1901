//! A server: one thread for each connection.

use super::limits;
use super::line::{Line, TOO_LONG};
use super::protocols::protocols;
use super::wire::{EchoSyncHandler, Structure, Summary, TEchoProcessFunctions as Methods};
use crate::{Options, Protocol, Socket, Transport};
use ::thrift::protocol::{
    TInputProtocol, TMessageIdentifier, TMessageType, TOutputProtocol, TType,
};
use ::thrift::{
    ApplicationError, ApplicationErrorKind, Error, OrderedFloat, ProtocolErrorKind,
    TransportErrorKind,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long what is left of a message is read that was refused, so that the other end reads why
/// before the connection is closed.
const REFUSAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Server(Arc<Shared>);

/// What all threads know.
#[derive(Debug)]
struct Shared {
    way: (Transport, Protocol),
    options: Options,
    open: Mutex<Open>,
    /// Signals that a connection has ended.
    ended: Condvar,
}

/// The connections that there are.
#[derive(Debug, Default)]
struct Open {
    accepted: u64,
    lines: HashMap<u64, Arc<Line>>,
}

impl Server {
    pub(crate) fn new(way: (Transport, Protocol), options: &Options) -> Self {
        Self(Arc::new(Shared {
            way,
            options: options.clone(),
            open: Mutex::default(),
            ended: Condvar::new(),
        }))
    }

    /// Serves a connection, on a thread of its own.
    pub(crate) fn serve(&self, socket: Socket) -> io::Result<()> {
        let line = Line::new(socket, self.0.way.0, self.0.options.max_message_bytes)?;
        let number = {
            let mut open = self.0.open();
            open.accepted += 1;
            let number = open.accepted;
            open.lines.insert(number, Arc::clone(&line));
            number
        };
        let registered = Registered {
            shared: Arc::clone(&self.0),
            number,
        };
        let named = thread::Builder::new().name("thrift".into());
        named.spawn(move || {
            let registered = registered;
            registered.shared.serve_connection(&line);
            line.socket().shutdown(Shutdown::Both);
        })?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut open = self.0.open();
        for line in open.lines.values() {
            line.socket().shutdown(Shutdown::Both);
        }
        while !open.lines.is_empty() {
            let ended = self.0.ended.wait(open);
            open = ended.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        // What a thread that panicked has left is whole: it is changed by single calls.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers until the connection ends.
    fn serve_connection(&self, line: &Arc<Line>) {
        let limits = limits(&self.options);
        protocols!(self.way.0, self.way.1, line, limits, (i, o) => {
            let (mut i, mut o) = (i, o);
            let handler = Handler::default();
            while answer(&handler, line, &mut i, &mut o).is_ok() {}
        });
    }
}

/// A connection is forgotten when its thread ends, however it does.
struct Registered {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.open().lines.remove(&self.number);
        self.shared.ended.notify_all();
    }
}

/// Answers one message. Apache's own `TProcessor` does this too, and goes on at a wrong place where
/// arguments could not be read.
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

/// What the other end is told, where it said what cannot be taken.
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

/// Reads what still comes, for a while: a connection that is closed with something unread is reset,
/// and the other end would not read why.
fn drain(socket: &Socket) {
    socket.shutdown(Shutdown::Write);
    let began = Instant::now();
    let mut buffer = [0; 16 << 10];
    let mut stream = &socket.0;
    if stream.set_read_timeout(Some(REFUSAL)).is_ok() {
        while began.elapsed() < REFUSAL && stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    }
}

/// What the methods do; one for each connection, with what has arrived of its stream.
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
