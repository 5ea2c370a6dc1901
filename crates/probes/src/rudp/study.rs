//! The two ends of the study's protocol, over a socket between two ends that have met: each is
//! [`rudp::study`]'s, with the waiting around it.

use costof_exchange::conversation::Conversation;
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
        self.sender.retransmissions()
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
        }
    }

    /// Waits for a request and answers it. The message that it brought, if that is a new one; none
    /// too where nothing came for a while.
    ///
    /// # Errors
    /// What the system says of the socket; that the other end has gone.
    pub(crate) fn answer(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.wire.receive(&mut self.request)? {
            return Ok(None);
        }
        if self.request == self.token {
            // The one who calls has not heard its answer, and a request is as long.
            self.wire.send(&self.token)?;
            return Ok(None);
        }
        let message = self
            .receiver
            .handle_datagram(&self.request, &mut self.answer);
        self.wire.send(&self.answer)?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A wire with an end that answers behind it, which loses the first datagram.
    #[derive(Default)]
    struct Lossy {
        receiver: Receiver,
        sent: u32,
        answers: VecDeque<Vec<u8>>,
    }

    impl Wire for Lossy {
        fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
            self.sent += 1;
            let mut answer = Vec::new();
            if self.sent > 1 {
                self.receiver.handle_datagram(datagram, &mut answer);
                // Rubbish, a late answer to something else, and one that comes twice.
                self.answers
                    .extend([vec![0xff; NUMBER], answer.clone(), answer]);
            }
            Ok(())
        }

        fn receive(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
            self.receive_now(datagram)
        }

        fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
            let came = self.answers.pop_front();
            Ok(came.is_some_and(|came| {
                datagram.copy_from_slice(&came);
                true
            }))
        }
    }

    #[test]
    fn what_is_lost_is_sent_again_and_an_answer_that_comes_twice_is_not_the_next_ones() {
        let mut asking = Asking::new(Lossy::default());
        for message in [b"one", b"two"] {
            asking.ask(message.to_vec()).unwrap();
        }
        assert_eq!((asking.resent(), asking.wire.sent), (1, 3));
    }

    /// A wire by which these come, and which keeps what is sent.
    struct Given(VecDeque<Vec<u8>>, Vec<Vec<u8>>);

    impl Wire for Given {
        fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
            self.1.push(datagram.to_vec());
            Ok(())
        }

        fn receive(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
            self.receive_now(datagram)
        }

        fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<bool> {
            let came = self.0.pop_front();
            Ok(came.is_some_and(|came| {
                datagram.copy_from_slice(&came);
                true
            }))
        }
    }

    #[test]
    fn each_request_is_answered_and_a_message_that_comes_twice_is_one() {
        let request = |number: u64| [&number.to_be_bytes()[..], b"message!"].concat();
        let token = "0123456789abcdef";
        let came = [token.into(), request(0), request(0), request(1)];
        let mut answering = Answering::new(Given(came.into(), Vec::new()), 8, token);
        let new: Vec<bool> = (0..5)
            .map(|_| match answering.answer().unwrap() {
                Some(message) => message == b"message!",
                None => false,
            })
            .collect();
        assert_eq!(new, [false, true, false, true, false]);
        let number = |number: u64| number.to_be_bytes().to_vec();
        let sent = [token.into(), number(0), number(0), number(1)];
        assert_eq!(answering.wire.1, sent);
    }
}
