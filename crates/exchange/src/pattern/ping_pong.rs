//! Messages of one size to a server and back, one at a time, over any transport.
//!
//! A message begins with its sequence number, or as much of it as fits, which identifies its
//! answer. If a transport loses messages, the client retransmits one without an answer, and does
//! not take a late answer for that of the next message.
//!
//! Source: RFC 6298, sections 2 and 5.

mod stamped;

pub use stamped::{ClientStages, ServerStages};

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::progress::no_answer;
use crate::transport::{Channel, RTO_ROUND_TRIPS, message};

/// The minimum retransmission timeout of the first message, which may take longer than the token
/// did.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The longest retransmission timeout that an expected round trip can cause.
const MAX_EXPECTED_RTO: Duration = Duration::from_secs(10);
/// How often a message is retransmitted.
const MAX_RETRIES: u32 = 10;
/// Bytes of a sequence number.
const SEQUENCE_NUMBER_BYTES: usize = 8;

/// The end that sends messages and receives their answers.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
    sequence_number: u64,
    message: Vec<u8>,
    answer: Vec<u8>,
    /// What an answer is compared with.
    expected: Vec<u8>,
    /// The retransmission timeout, if the transport loses messages.
    rto: Option<Duration>,
    retransmitted: u64,
}

impl<T: Channel> Client<T> {
    /// For messages of this size.
    pub fn new(transport: T, size: usize) -> Self {
        let expected = message(size);
        Self {
            rto: transport.initial_rto(),
            transport,
            sequence_number: 0,
            message: expected.clone(),
            answer: vec![0; size],
            expected,
            retransmitted: 0,
        }
    }

    /// A round trip of these messages may take this long: longer than that of the token, if they
    /// are long and the link is slow. No message counts as lost before three such round trips, or
    /// ten seconds.
    pub fn set_min_rto(&mut self, round_trip: Duration) {
        self.raise_rto((RTO_ROUND_TRIPS * round_trip).min(MAX_EXPECTED_RTO));
    }

    /// How many messages were retransmitted, by this client or by the transport.
    pub fn retransmissions(&mut self) -> u64 {
        self.retransmitted + self.transport.retransmissions()
    }

    /// Returns the transport, to continue without waiting for answers.
    pub fn into_transport(self) -> T {
        self.transport
    }

    /// Sends a message to the server and receives its answer. The message is numbered, and
    /// retransmitted if it is lost. If the transport takes ownership of a message's bytes,
    /// [`Client::verify`] must be called between two exchanges.
    ///
    /// # Errors
    ///
    /// Those of the transport; `TimedOut` if there is no answer, `InvalidData` if it has another
    /// number.
    #[inline]
    pub fn exchange(&mut self) -> io::Result<()> {
        let first = (self.sequence_number == 0).then(Instant::now);
        let rto = match first {
            Some(_) => self.first_rto(),
            None => self.rto,
        };
        self.send_next()?;
        let mut silent_since = None;
        let mut retries = 0;
        while !self.receive_answer()? {
            if !self.is_lost(&mut silent_since, rto)? {
                continue;
            }
            if retries == MAX_RETRIES {
                return Err(no_answer());
            }
            self.transport.send(&mut self.message)?;
            retries += 1;
            silent_since = None;
        }
        self.retransmitted += u64::from(retries > 0);
        if let (Some(first), 0) = (first, retries) {
            self.raise_rto(RTO_ROUND_TRIPS * first.elapsed());
        }
        Ok(())
    }

    /// Compares the last answer with its message, and prepares the next message: everything that
    /// need not be timed.
    ///
    /// # Errors
    ///
    /// `InvalidData` if they differ.
    pub fn verify(&mut self) -> io::Result<()> {
        if !T::ECHOES {
            self.message.clone_from(&self.expected);
            return Ok(());
        }
        std::mem::swap(&mut self.message, &mut self.answer);
        if self.message == self.expected { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// Numbers a message and sends it. A message that is only acknowledged stays unchanged: its
    /// transport numbers it.
    #[inline]
    fn send_next(&mut self) -> io::Result<()> {
        debug_assert_eq!(self.message.len(), self.expected.len(), "verify() between");
        self.sequence_number += 1;
        if T::ECHOES {
            let length = self.expected.len().min(SEQUENCE_NUMBER_BYTES);
            let number = &self.sequence_number.to_le_bytes()[..length];
            self.message[..length].copy_from_slice(number);
            self.expected[..length].copy_from_slice(number);
        }
        self.transport.send(&mut self.message)
    }

    /// Whether the answer to the last message has arrived.
    #[inline]
    fn receive_answer(&mut self) -> io::Result<bool> {
        if !self.transport.receive(&mut self.answer)? {
            return Ok(false);
        }
        let length = self.expected.len().min(SEQUENCE_NUMBER_BYTES);
        if !T::ECHOES || self.answer.starts_with(&self.expected[..length]) {
            return Ok(true);
        }
        match self.rto {
            // A late answer to a message that was retransmitted.
            Some(_) => Ok(false),
            None => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Whether a message without an answer counts as lost.
    fn is_lost(
        &self,
        silent_since: &mut Option<Instant>,
        rto: Option<Duration>,
    ) -> io::Result<bool> {
        let silence = silent_since.get_or_insert_with(Instant::now).elapsed();
        match rto {
            Some(rto) => Ok(silence >= rto),
            None if silence > self.transport.answer_timeout() => Err(no_answer()),
            None => Ok(false),
        }
    }

    fn first_rto(&self) -> Option<Duration> {
        self.rto.map(|rto| rto.max(INITIAL_RTO))
    }

    fn raise_rto(&mut self, least: Duration) {
        self.rto = self.rto.map(|rto| rto.max(least));
    }
}

/// The end that answers messages with their own bytes.
#[derive(Debug)]
pub struct Server<T> {
    pub(crate) transport: T,
    message: Vec<u8>,
}

impl<T: Channel> Server<T> {
    /// For messages of this size.
    pub fn new(transport: T, size: usize) -> Self {
        let message = vec![0; size];
        Self { transport, message }
    }

    /// Answers a message if one arrives; false if none has arrived for a while.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    #[inline]
    pub fn answer(&mut self) -> io::Result<bool> {
        if !self.transport.receive(&mut self.message)? {
            return Ok(false);
        }
        self.transport.send(&mut self.message)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
