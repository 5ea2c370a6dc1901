//! The protocol of the reliable-datagrams study, over any transport of datagrams: [`rudp::study`]
//! and the waiting around it.

pub mod stream;

use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rudp::Time;
use rudp::study::{Receiver, Sender};

use super::socket::Socket;
use super::stamped::{Stamped, StampedChannels, Stamps};
use super::{Channel, Channels, IDLE_TIMEOUT, Messages, TryReceive, message};
use crate::rendezvous::{Address, Listener};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;

/// Bytes of the sequence number before a request's data, and of an acknowledgement.
pub const SEQUENCE_NUMBER_BYTES: usize = 8;
/// The longest message, which one datagram holds.
pub const MAX_MESSAGE_BYTES: usize = DATAGRAM_MAX_BYTES - SEQUENCE_NUMBER_BYTES;
/// Closer to a retransmission than this, a waiting client spins: a wait in the kernel may take that long.
const MIN_WAIT: Duration = Duration::from_millis(60);

/// The end that sends messages, and receives acknowledgements.
#[derive(Debug)]
pub struct StudyClient<T> {
    datagrams: T,
    sender: Sender,
    began: Instant,
    now: Time,
    request: Vec<u8>,
    acknowledgement: Vec<u8>,
}

impl<T: TryReceive> StudyClient<T> {
    /// One message at a time.
    pub fn new(datagrams: T) -> Self {
        Self {
            datagrams,
            sender: Sender::new(1),
            began: Instant::now(),
            now: Time::default(),
            request: Vec::new(),
            acknowledgement: vec![0; SEQUENCE_NUMBER_BYTES],
        }
    }

    /// Sends what is due.
    fn transmit(&mut self) -> io::Result<()> {
        self.now = Time::default() + self.began.elapsed();
        while self.sender.poll_transmit(self.now, &mut self.request) {
            self.datagrams.send(&mut self.request)?;
        }
        Ok(())
    }
}

impl<T: TryReceive> Channel for StudyClient<T> {
    const ECHOES: bool = false;

    #[inline]
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        self.sender.send(std::mem::take(message));
        self.transmit()
    }

    /// Receives the acknowledgement of the last message sent; the buffer stays as it is.
    #[inline]
    fn receive(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        let is_close = |at: Time| at.since(self.now) < MIN_WAIT;
        let came = if self.sender.poll_timeout().is_some_and(is_close) {
            self.datagrams.try_receive(&mut self.acknowledgement)?
        } else {
            self.datagrams.receive(&mut self.acknowledgement)?
        };
        if came {
            self.sender.handle_datagram(&self.acknowledgement);
            if self.sender.poll_acknowledged().is_some() {
                return Ok(true);
            }
        }
        self.transmit()?;
        Ok(false)
    }

    fn answer_timeout(&self) -> Duration {
        IDLE_TIMEOUT
    }

    fn retransmissions(&mut self) -> u64 {
        self.sender.retransmissions()
    }
}

/// The end that receives and acknowledges messages of one size.
#[derive(Debug)]
pub struct StudyServer<T> {
    datagrams: T,
    receiver: Receiver,
    request: Vec<u8>,
    acknowledgement: Vec<u8>,
    /// What every message must contain.
    expected: Vec<u8>,
}

impl<T: Channel> StudyServer<T> {
    /// For messages of this size in bytes.
    pub fn new(datagrams: T, size: usize) -> Self {
        Self {
            datagrams,
            receiver: Receiver::default(),
            request: vec![0; SEQUENCE_NUMBER_BYTES + size],
            acknowledgement: Vec::with_capacity(SEQUENCE_NUMBER_BYTES),
            expected: message(size),
        }
    }
}

impl<T: Channel> Channel for StudyServer<T> {
    const ECHOES: bool = false;

    /// Receives a new message; the buffer stays as it is. A message that was retransmitted although it had
    /// arrived is acknowledged here.
    #[inline]
    fn receive(&mut self, _: &mut Vec<u8>) -> io::Result<bool> {
        if !self.datagrams.receive(&mut self.request)? {
            return Ok(false);
        }
        let new = self.receiver.handle_datagram(&self.request, &mut self.acknowledgement);
        if new.is_some() {
            return Ok(true);
        }
        self.datagrams.send(&mut self.acknowledgement)?;
        Ok(false)
    }

    /// Acknowledges the last message received, and checks it.
    #[inline]
    fn send(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        self.datagrams.send(&mut self.acknowledgement)?;
        if self.request[SEQUENCE_NUMBER_BYTES..] == self.expected {
            Ok(())
        } else {
            Err(ErrorKind::InvalidData.into())
        }
    }
}

impl Channels for StudyClient<Socket> {
    type Client = Self;
    type Server = StudyServer<Socket>;

    fn connect(address: &Address, token: &[u8], messages: &Messages) -> io::Result<Self> {
        Ok(Self::new(Socket::connect(messages.over, address, messages.wait, token)?))
    }

    fn accept(
        listener: &Listener,
        messages: &Messages,
        stop: &AtomicBool,
    ) -> io::Result<Self::Server> {
        let socket = Socket::accept(listener, messages.wait, stop)?;
        Ok(StudyServer::new(socket, messages.size))
    }
}

impl StampedChannels for StudyClient<Stamped> {
    type Client = Self;
    type Server = StudyServer<Stamped>;

    fn client(socket: Stamped, _: usize) -> io::Result<Self> {
        Ok(Self::new(socket))
    }

    fn server(socket: Stamped, size: usize) -> io::Result<Self::Server> {
        Ok(StudyServer::new(socket, size))
    }
}

impl Stamps for StudyClient<Stamped> {
    fn stamped(&mut self) -> &mut Stamped {
        &mut self.datagrams
    }
}

impl Stamps for StudyServer<Stamped> {
    fn stamped(&mut self) -> &mut Stamped {
        &mut self.datagrams
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::ping_pong::{Client, Server};
    use std::collections::VecDeque;

    /// Datagrams to a server behind them. The first is lost.
    #[derive(Default)]
    struct Lossy {
        receiver: Receiver,
        sent: u32,
        answers: VecDeque<Vec<u8>>,
    }

    impl Channel for Lossy {
        fn send(&mut self, datagram: &mut Vec<u8>) -> io::Result<()> {
            self.sent += 1;
            let mut answer = Vec::new();
            if self.sent > 1 {
                self.receiver.handle_datagram(datagram, &mut answer);
                // Garbage, a late answer to another message, and a duplicate.
                let rubbish = vec![0xff; SEQUENCE_NUMBER_BYTES];
                self.answers.extend([rubbish, answer.clone(), answer]);
            }
            Ok(())
        }

        fn receive(&mut self, datagram: &mut Vec<u8>) -> io::Result<bool> {
            self.try_receive(datagram)
        }
    }

    impl TryReceive for Lossy {
        fn try_receive(&mut self, datagram: &mut Vec<u8>) -> io::Result<bool> {
            let came = self.answers.pop_front();
            Ok(came.map(|came| *datagram = came).is_some())
        }
    }

    #[test]
    fn a_lost_request_is_retransmitted_and_an_answer_that_comes_twice_is_not_the_next_ones() {
        let mut client = Client::new(StudyClient::new(Lossy::default()), 3);
        for _ in 0..2 {
            client.exchange().unwrap();
            client.verify().unwrap();
        }
        let retransmissions = client.retransmissions();
        let sent = client.into_transport().datagrams.sent;
        assert_eq!((retransmissions, sent), (1, 3));
    }

    /// Given incoming datagrams, and those sent.
    struct Given(VecDeque<Vec<u8>>, Vec<Vec<u8>>);

    impl Channel for Given {
        fn send(&mut self, datagram: &mut Vec<u8>) -> io::Result<()> {
            self.1.push(datagram.clone());
            Ok(())
        }

        fn receive(&mut self, datagram: &mut Vec<u8>) -> io::Result<bool> {
            let came = self.0.pop_front();
            Ok(came.map(|came| *datagram = came).is_some())
        }
    }

    #[test]
    fn each_request_is_acknowledged_and_a_message_that_comes_twice_is_one() {
        let request = |number: u64, data: &[u8]| [&number.to_be_bytes()[..], data].concat();
        // As the other end may be of an earlier build.
        let [first, second] = [0, 1].map(|number| request(number, &[0, 1, 2, 3, 4, 5, 6, 7]));
        let wrong = request(2, b"message!");
        let came = [first.clone(), first, second, wrong];
        let datagrams = Given(came.into(), Vec::new());
        let mut server = Server::new(StudyServer::new(datagrams, 8), 8);
        let new: Vec<bool> = (0..3).map(|_| server.answer().unwrap()).collect();
        assert_eq!(new, [true, false, true]);
        let error = server.answer().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(!server.answer().unwrap());
        let number = |number: u64| number.to_be_bytes().to_vec();
        let sent = [number(0), number(0), number(1), number(2)];
        assert_eq!(server.transport.datagrams.1, sent);
    }
}
