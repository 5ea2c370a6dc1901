//! The study's protocol over a socket.

use super::{LOOK, Received, Receives, Sends, Sent};
use crate::rudp::datagrams::{is_passing, send};
use crate::rudp::incoming::Incoming;
use crate::rudp::outgoing::Outgoing;
use ::rudp::Time;
use ::rudp::study;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use costof_os::net::socket::dropped_datagrams;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a sequence number.
const NUMBER_BYTES: usize = 8;

pub(super) struct Sender {
    socket: UdpSocket,
    protocol: study::Sender,
    request: Vec<u8>,
    sent: u64,
}

impl Sender {
    pub(super) fn new(socket: UdpSocket, window: Option<u64>) -> io::Result<Sender> {
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Sender {
            socket,
            protocol: study::Sender::new(window.unwrap_or(1) as usize),
            request: Vec::with_capacity(DATAGRAM_MOST_BYTES),
            sent: 0,
        })
    }
}

impl Sends for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut answer = [0; NUMBER_BYTES + 1];
        while !outgoing.is_over() {
            while let Some(message) = outgoing.next() {
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
                outgoing.arrived(number);
            }
            outgoing.note(outgoing.bytes());
        }
        Ok(())
    }

    fn counted(&self) -> io::Result<Sent> {
        Ok(Sent {
            again: self.protocol.retransmissions() as f64 / self.sent.max(1) as f64,
            datagrams: Some(self.sent),
        })
    }
}

pub(super) struct Receiver {
    socket: UdpSocket,
    protocol: study::Receiver,
    size: usize,
    came: u64,
}

impl Receiver {
    pub(super) fn new(socket: UdpSocket, size: usize) -> io::Result<Receiver> {
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Receiver {
            socket,
            protocol: study::Receiver::default(),
            size,
            came: 0,
        })
    }
}

impl Receives for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_MOST_BYTES];
        let mut answer = Vec::with_capacity(NUMBER_BYTES);
        while !stop.load(Ordering::Acquire) {
            match self.socket.recv(&mut datagram) {
                // The token, once more.
                Ok(length) if length != NUMBER_BYTES + self.size => {}
                Ok(length) => {
                    self.came += 1;
                    let message = self
                        .protocol
                        .handle_datagram(&datagram[..length], &mut answer);
                    if let Some(message) = message {
                        incoming.take(message, false)?;
                    }
                    send(&self.socket, &answer)?;
                }
                Err(error) if is_passing(&error) => incoming.look(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn counted(&self) -> io::Result<Option<Received>> {
        Ok(Some(Received {
            datagrams: self.came,
            dropped: dropped_datagrams(&self.socket)?.into(),
        }))
    }
}
