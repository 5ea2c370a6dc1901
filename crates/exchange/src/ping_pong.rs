//! Messages of one size to a server and back, one at a time, over any transport.
//!
//! A message begins with its sequence number, as far as it is long enough for one, so that an answer
//! is known to be that of its message. Where a transport loses messages, the client retransmits one
//! that has no answer, and does not take a late answer for that of the next one.
//!
//! Source: RFC 6298, sections 2 and 5.

mod stamped;

pub use stamped::{ClientStages, ServerStages};

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::transport::{RTO_ROUND_TRIPS, Transport, message, no_answer};

/// The least retransmission timeout of the first message, which may take longer than the token took.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The longest retransmission timeout that an expected round trip asks for.
const MAX_EXPECTED_RTO: Duration = Duration::from_secs(10);
/// How often a message is retransmitted.
const MAX_RETRIES: u32 = 10;
/// Bytes of a sequence number.
const SEQUENCE_NUMBER_BYTES: usize = 8;

/// The end that sends messages, and receives their answers.
#[derive(Debug)]
pub struct Client<T> {
    transport: T,
    sequence_number: u64,
    message: Vec<u8>,
    answer: Vec<u8>,
    /// What an answer is compared with.
    expected: Vec<u8>,
    /// The retransmission timeout, of a transport that loses messages.
    rto: Option<Duration>,
    retransmitted: u64,
}

impl<T: Transport> Client<T> {
    /// For messages of so many bytes.
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

    /// A round trip of these messages may take as long as this: longer than the token's, where they
    /// are long and the link is slow. None counts as lost before three of them, or ten seconds.
    pub fn set_min_rto(&mut self, round_trip: Duration) {
        self.raise_rto((RTO_ROUND_TRIPS * round_trip).min(MAX_EXPECTED_RTO));
    }

    /// How many messages were retransmitted, or how often the transport did that itself.
    pub fn retransmissions(&mut self) -> u64 {
        self.retransmitted + self.transport.retransmissions()
    }

    /// The transport, to go on by without waiting for answers.
    pub fn into_transport(self) -> T {
        self.transport
    }

    /// A message to the server and its answer back. The message is numbered, and retransmitted where
    /// it is lost. Where a transport takes a message's bytes, [`Client::verify`] has to come between
    /// two exchanges.
    ///
    /// # Errors
    ///
    /// Those of the transport; `TimedOut` where there is no answer, `InvalidData` where it has
    /// another number.
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

    /// Compares the last answer with its message, and prepares the next message: what needs no
    /// timing.
    ///
    /// # Errors
    ///
    /// `InvalidData` where they differ.
    pub fn verify(&mut self) -> io::Result<()> {
        if !T::ECHOES {
            self.message.clone_from(&self.expected);
            return Ok(());
        }
        std::mem::swap(&mut self.message, &mut self.answer);
        if self.message == self.expected {
            Ok(())
        } else {
            Err(ErrorKind::InvalidData.into())
        }
    }

    /// Numbers a message and sends it. One that is only acknowledged stays as it is: its transport
    /// numbers it.
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

    /// Whether the answer to the last message is there.
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

    /// Whether a message counts as lost, where no answer came.
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

impl<T: Transport> Server<T> {
    /// For messages of so many bytes.
    pub fn new(transport: T, size: usize) -> Self {
        let message = vec![0; size];
        Self { transport, message }
    }

    /// Answers a message, if one comes; false where none has come for a while.
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
