//! The study's protocol over a socket.

use super::SEQUENCE_NUMBER_BYTES;
use crate::rendezvous::Listener;
use crate::rendezvous::datagrams::{self, is_passing, send};
use crate::stream::{
    Datagrams, Incoming, MessageReceiver, MessageSender, Outgoing, SenderStatistics,
};
use crate::transport::{
    Accepted, Connected, Endpoint, STREAM_POLL_INTERVAL, Transport, connect_datagrams,
};
use ::rudp::{Time, study};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The protocol with messages of this size in bytes, and this many in flight.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    size: usize,
    window: usize,
    retry: Duration,
}

impl Study {
    /// Without a window, one message is in flight. Each is sent again after `retry` without an answer.
    pub fn new(size: usize, window: Option<u64>, retry: Duration) -> Study {
        let window = window.unwrap_or(1) as usize;
        Study { size, window, retry }
    }
}

impl Transport for Study {
    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted {
        let socket = datagrams::accept(listener, stop)?;
        socket.set_read_timeout(Some(STREAM_POLL_INTERVAL))?;
        Ok(Box::new(Receiver {
            socket,
            protocol: study::Receiver::default(),
            size: self.size,
            arrived: 0,
        }))
    }

    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected> {
        connect_datagrams(receiver, |socket, _| {
            socket.set_read_timeout(Some(STREAM_POLL_INTERVAL.min(self.retry)))?;
            Ok(Sender {
                socket,
                protocol: study::Sender::new(self.window).retry_after(self.retry),
                request: Vec::with_capacity(DATAGRAM_MAX_BYTES),
                sent: 0,
            })
        })
    }
}

struct Sender {
    socket: UdpSocket,
    protocol: study::Sender,
    request: Vec<u8>,
    sent: u64,
}

impl MessageSender for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut answer = [0; SEQUENCE_NUMBER_BYTES + 1];
        while !outgoing.is_over() {
            while let Some(message) = outgoing.next_message() {
                self.protocol.send(message.to_vec());
            }
            let now = || Time::from_nanos(now_ns(ClockId::MonotonicRaw));
            while self.protocol.poll_transmit(now(), &mut self.request) {
                send(&self.socket, &self.request)?;
                self.sent += 1;
            }
            match self.socket.recv(&mut answer) {
                Ok(length) => self.protocol.handle_datagram(&answer[..length]),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            while let Some(number) = self.protocol.poll_acknowledged() {
                outgoing.handle_arrived(number);
            }
            outgoing.record_if_due(outgoing.bytes());
        }
        Ok(())
    }

    fn statistics(&self) -> io::Result<SenderStatistics> {
        Ok(SenderStatistics {
            retransmissions: self.protocol.retransmissions() as f64 / self.sent.max(1) as f64,
            datagrams: Some(self.sent),
        })
    }
}

struct Receiver {
    socket: UdpSocket,
    protocol: study::Receiver,
    size: usize,
    arrived: u64,
}

impl MessageReceiver for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_MAX_BYTES];
        let mut answer = Vec::with_capacity(SEQUENCE_NUMBER_BYTES);
        while !stop.load(Ordering::Acquire) {
            match self.socket.recv(&mut datagram) {
                // The token, sent once more.
                Ok(length) if length != SEQUENCE_NUMBER_BYTES + self.size => {}
                Ok(length) => {
                    self.arrived += 1;
                    incoming.something_arrived();
                    let message = self.protocol.handle_datagram(&datagram[..length], &mut answer);
                    if let Some(message) = message {
                        incoming.handle_message(message, false)?;
                    }
                    send(&self.socket, &answer)?;
                }
                Err(error) if is_passing(&error) => incoming.nothing_arrived()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        Datagrams::at(&self.socket, self.arrived).map(Some)
    }
}
