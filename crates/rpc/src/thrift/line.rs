//! A connection below Thrift's transports, which limits the size of messages and the time of calls.

use super::MAX_FRAME;
use crate::Socket;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The prefix of errors about too long messages.
pub(super) const TOO_LONG: &str = "it is too long: ";
/// The most bytes read ahead of a message; they may belong to the next one.
pub(super) const AHEAD: usize = 128 << 10;

#[derive(Debug)]
pub(super) struct Line {
    socket: Socket,
    /// The largest message with its framing, and the bytes read since it began.
    most: usize,
    taken: AtomicUsize,
    /// The call's deadline, in nanoseconds since `made`; 0 for none.
    until: AtomicU64,
    made: Instant,
}

impl Line {
    /// Over this socket, for messages of this size.
    ///
    /// # Errors
    /// The system's, for the socket.
    pub(super) fn new(socket: Socket, most: usize) -> io::Result<Arc<Self>> {
        socket.set_nodelay()?;
        socket.0.set_nonblocking(false)?;
        Ok(Arc::new(Self {
            socket,
            // A frame is read completely before its message's length is known, so the crate's limit on
            // frames applies.
            most: most.max(MAX_FRAME).saturating_add(2 * AHEAD),
            taken: AtomicUsize::new(0),
            until: AtomicU64::new(0),
            made: Instant::now(),
        }))
    }

    /// Sets how long one read or write may wait. The call's deadline is checked after each, so a
    /// call ends within twice its deadline, even if the other end is slow.
    ///
    /// # Errors
    /// The system's, for the socket.
    pub(super) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        // The system rejects a zero timeout.
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_micros(1)));
        self.socket.0.set_read_timeout(timeout)?;
        self.socket.0.set_write_timeout(timeout)
    }

    /// A message begins: its bytes count from here.
    pub(super) fn begin_message(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    /// A call begins, with this deadline.
    pub(super) fn begin_call(&self, deadline: Option<Duration>) {
        self.begin_message();
        let until =
            deadline.map_or(0, |deadline| (self.made.elapsed() + deadline).as_nanos() as u64);
        self.until.store(until, Ordering::Relaxed);
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    fn check_deadline(&self) -> io::Result<()> {
        let until = self.until.load(Ordering::Relaxed);
        if until != 0 && self.made.elapsed().as_nanos() as u64 > until {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let taken = self.taken.load(Ordering::Relaxed) + bytes;
        self.taken.store(taken, Ordering::Relaxed);
        if taken <= self.most {
            return Ok(());
        }
        let reason = format!("{TOO_LONG}{taken} B, and more follows");
        Err(io::Error::new(ErrorKind::InvalidData, reason))
    }
}

/// Maps the several errors of the system for one condition to one.
fn normalize(error: io::Error) -> io::Error {
    match error.kind() {
        // A socket's timeout has passed.
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        // Thrift's crate has a name for only one of them.
        ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            io::Error::new(ErrorKind::ConnectionReset, error)
        }
        _ => error,
    }
}

/// Repeats a call that a signal interrupted.
fn retry_interrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done.map_err(normalize),
        }
    }
}

/// The receiving side.
#[derive(Debug)]
pub(super) struct Incoming(pub(super) Arc<Line>);

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = &self.0.socket.0;
        let read = retry_interrupted(|| stream.read(buffer))?;
        self.0.check_deadline()?;
        self.0.count(read)?;
        Ok(read)
    }
}

/// The sending side. A frame's length, which is written separately, waits for the frame: each would
/// be a packet of its own.
#[derive(Debug)]
pub(super) struct Outgoing {
    line: Arc<Line>,
    length: Option<[u8; 4]>,
}

impl Outgoing {
    pub(super) fn new(line: Arc<Line>) -> Self {
        Self { line, length: None }
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut stream = &self.line.socket.0;
        let sent = retry_interrupted(|| match parts {
            // send(2) is cheaper than writev(2).
            [part] => stream.write(part),
            parts => stream.write_vectored(parts),
        })?;
        self.line.check_deadline()?;
        Ok(sent)
    }

    fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send(&[IoSlice::new(bytes)])?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(length) = self.length.take() else {
            if let Ok(length) = bytes.try_into() {
                self.length = Some(length);
                return Ok(bytes.len());
            }
            return self.send(&[IoSlice::new(bytes)]);
        };
        let sent = self.send(&[IoSlice::new(&length), IoSlice::new(bytes)])?;
        self.send_all(&length[sent.min(length.len())..])?;
        Ok(sent.saturating_sub(length.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.length.take() {
            // Four bytes that were not a frame's length.
            Some(bytes) => self.send_all(&bytes),
            None => Ok(()),
        }
    }
}
