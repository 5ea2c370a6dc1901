//! The two ends of the study's protocol, over a socket between two ends that have met: each is
//! [`rudp::study`]'s, with the waiting around it.

use costof_os::conversation::Conversation;
use rudp::Time;
use rudp::study::{Receiver, Sender};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Bytes of the number before a request's data, and of an answer.
pub(crate) const NUMBER: usize = 8;
/// Closer to the time of sending again than this, who waits for an answer spins: a wait in the
/// kernel may last so long.
const CLOSE: Duration = Duration::from_millis(60);
/// After so long without an answer the other end has gone; a worker that takes longer is taken for
/// hung.
const SILENCE: Duration = Duration::from_secs(15);

/// What carries datagrams to the other end.
pub(crate) trait Wire {
    /// Sends a datagram.
    ///
    /// # Errors
    /// What the system says.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;

    /// Receives a datagram of the buffer's size. False where none has come for a while.
    ///
    /// # Errors
    /// What the system says; that the other end has gone.
    fn receive(&mut self, datagram: &mut [u8]) -> io::Result<bool>;

    /// The same without waiting.
    ///
    /// # Errors
    /// Those of [`Wire::receive`].
    fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<bool>;
}

impl Wire for Conversation {
    #[inline]
    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.send(datagram)
    }

    #[inline]
    fn receive(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
        self.receive(datagram)
    }

    #[inline]
    fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
        self.receive_now(datagram)
    }
}

/// The end that sends messages, and hears that they arrived.
#[derive(Debug)]
pub(crate) struct Asking<W> {
    pub(crate) wire: W,
    sender: Sender,
    began: Instant,
    request: Vec<u8>,
}

impl<W: Wire> Asking<W> {
    /// One message at a time.
    pub(crate) fn new(wire: W) -> Asking<W> {
        Asking {
            wire,
            sender: Sender::new(1),
            began: Instant::now(),
            request: Vec::new(),
        }
    }

    /// How often a request was sent again.
    pub(crate) fn resent(&self) -> u64 {
        self.sender.resent()
    }

    /// A message there, and back that it arrived.
    ///
    /// # Errors
    /// What the system says of the socket; `TimedOut` where the other end does not answer.
    pub(crate) fn ask(&mut self, data: Vec<u8>) -> io::Result<()> {
        let number = self.sender.send(data);
        let mut now = self.now();
        let until = now + SILENCE;
        let mut answer = [0; NUMBER];
        loop {
            while self.sender.poll_transmit(now, &mut self.request) {
                self.wire.send(&self.request)?;
            }
            let is_close = |at: Time| at.since(now) < CLOSE;
            let came = match self.sender.poll_timeout().is_some_and(is_close) {
                true => self.wire.receive_now(&mut answer)?,
                false => self.wire.receive(&mut answer)?,
            };
            if came {
                self.sender.handle_datagram(&answer);
                if self.sender.poll_acknowledged() == Some(number) {
                    return Ok(());
                }
            }
            now = self.now();
            if now > until {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    fn now(&self) -> Time {
        Time::default() + self.began.elapsed()
    }
}

/// The end that messages of one size are sent to, and that says so.
#[derive(Debug)]
pub(crate) struct Answering<W> {
    pub(crate) wire: W,
    receiver: Receiver,
    token: Vec<u8>,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Whether the request there is a message.
    has_message: bool,
}

impl<W: Wire> Answering<W> {
    /// For messages of so many bytes, between ends that have met by this token.
    pub(crate) fn new(wire: W, size: usize, token: &str) -> Answering<W> {
        Answering {
            wire,
            receiver: Receiver::default(),
            token: token.into(),
            request: vec![0; NUMBER + size],
            answer: Vec::with_capacity(NUMBER),
            has_message: false,
        }
    }

    /// Waits for a request and answers it. Whether it brought a new message; false too where nothing
    /// came for a while.
    ///
    /// # Errors
    /// What the system says of the socket; that the other end has gone.
    pub(crate) fn answer(&mut self) -> io::Result<bool> {
        if !self.wire.receive(&mut self.request)? {
            return Ok(false);
        }
        if self.request == self.token {
            // The one who calls has not heard its answer, and a request is as long.
            self.wire.send(&self.token)?;
            return Ok(false);
        }
        let handled = self
            .receiver
            .handle_datagram(&self.request, &mut self.answer);
        let is_new = handled.is_some();
        self.has_message |= is_new;
        self.wire.send(&self.answer)?;
        Ok(is_new)
    }

    /// The last message that came.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.has_message.then(|| &self.request[NUMBER..])
    }
}
