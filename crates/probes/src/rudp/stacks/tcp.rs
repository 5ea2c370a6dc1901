//! A TCP connection, with a number back for each message where that is to be known.

use super::{LOOK, Received, Receives, Sends, Sent};
use crate::rudp::datagrams::is_passing;
use crate::rudp::incoming::Incoming;
use crate::rudp::outgoing::Outgoing;
use costof_exchange::rendezvous::Flow;
use costof_os::net::socket;
use costof_os::net::socket::has_gone;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of an answer: how many messages have come.
const ANSWER_BYTES: usize = 8;
/// How much is read at once, at most.
const READ_BYTES: usize = 128 << 10;
/// What the sender says first: whether it wants answers.
pub(in crate::rudp) const ANSWERED: u8 = 1;

pub(super) struct Sender {
    stream: TcpStream,
    /// What of an answer has come, of several the last.
    answer: Answers,
}

impl Sender {
    pub(super) fn new(met: Flow) -> io::Result<Sender> {
        let stream = TcpStream::from(met.into_socket()?);
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(LOOK))?;
        Ok(Sender {
            stream,
            answer: Answers::default(),
        })
    }

    pub(super) fn mtu_bytes(&self) -> io::Result<u32> {
        socket::mtu_bytes(&self.stream)
    }

    fn write_all(&mut self, outgoing: &mut Outgoing, from: u64) -> io::Result<()> {
        let mut done = 0;
        while done < outgoing.size() {
            match self.stream.write(&outgoing.last()[done..]) {
                Ok(more) => done += more,
                Err(error) if is_passing(&error) => {
                    let bytes = match outgoing.is_answered() {
                        true => outgoing.bytes(),
                        false => from + done as u64,
                    };
                    outgoing.look(bytes);
                    if outgoing.is_over() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Sends for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut buffer = [0; 64 * ANSWER_BYTES];
        self.stream.write_all(&[u8::from(outgoing.is_answered())])?;
        while !outgoing.is_over() {
            let before = outgoing.bytes();
            if outgoing.next().is_some() {
                self.write_all(outgoing, before)?;
            } else {
                match self.stream.read(&mut buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(length) => {
                        if let Some(count) = self.answer.take(&buffer[..length]) {
                            outgoing.arrived_before(count);
                        }
                    }
                    Err(error) if is_passing(&error) => outgoing.look(outgoing.bytes()),
                    Err(error) => return Err(error),
                }
            }
            outgoing.note(outgoing.bytes());
        }
        // What has not arrived is of no use any more.
        socket::reset_on_close(&self.stream)
    }

    fn counted(&self) -> io::Result<Sent> {
        let info = socket::tcp_info(&self.stream)?;
        Ok(Sent {
            again: info.sent_again_bytes as f64 / info.sent_bytes.max(1) as f64,
            datagrams: None,
        })
    }
}

/// Answers in whatever pieces they come.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::rudp) struct Answers {
    part: [u8; ANSWER_BYTES],
    have: usize,
}

impl Answers {
    /// The last whole answer in what has come, if there is one.
    pub(in crate::rudp) fn take(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut last = None;
        for byte in bytes {
            self.part[self.have] = *byte;
            self.have += 1;
            if self.have == ANSWER_BYTES {
                self.have = 0;
                last = Some(u64::from_le_bytes(self.part));
            }
        }
        last
    }
}

pub(super) struct Receiver {
    stream: TcpStream,
    /// What the sender may have begun with: it goes on behind the token.
    is_answered: Option<bool>,
}

impl Receiver {
    pub(super) fn new(met: Flow, token: &[u8]) -> io::Result<Receiver> {
        let mut stream = TcpStream::from(met.into_socket()?);
        stream.set_read_timeout(Some(LOOK))?;
        // The sender waits for it.
        stream.write_all(token)?;
        Ok(Receiver {
            stream,
            is_answered: None,
        })
    }
}

impl Receives for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut answered = 0;
        while !stop.load(Ordering::Acquire) {
            let length = match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if is_passing(&error) => {
                    incoming.look();
                    continue;
                }
                Err(error) if has_gone(&error) => break,
                Err(error) => return Err(error),
            };
            let mut piece = &buffer[..length];
            let is_answered = *self.is_answered.get_or_insert_with(|| {
                let first = piece[0];
                piece = &piece[1..];
                first == ANSWERED
            });
            let there = incoming.take_piece(piece)?;
            if is_answered && there > answered {
                answered = there;
                match self.stream.write_all(&there.to_le_bytes()) {
                    Err(error) if has_gone(&error) => break,
                    written => written?,
                }
            }
        }
        incoming.look();
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn counted(&self) -> io::Result<Option<Received>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_may_come_in_any_pieces() {
        let said: Vec<u8> = (1..=9_u64).flat_map(u64::to_le_bytes).collect();
        for piece in [1, 3, 8, 11, 72] {
            let mut answers = Answers::default();
            let heard = said.chunks(piece).filter_map(|piece| answers.take(piece));
            assert_eq!(heard.last(), Some(9), "{piece}");
        }
    }
}
