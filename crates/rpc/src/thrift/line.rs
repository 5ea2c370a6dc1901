//! A connection: Thrift's framed transports and its binary protocol over a socket.

use super::limits;
use crate::Socket;
use ::thrift::protocol::{TBinaryInputProtocol, TBinaryOutputProtocol};
use ::thrift::transport::{TFramedReadTransport, TFramedWriteTransport};
use std::io::{self, BufReader, ErrorKind, IoSlice, Write};
use std::net::TcpStream;

/// The most bytes read ahead of a message; they may belong to the next one.
const AHEAD: usize = 128 << 10;

pub(super) type Input = TBinaryInputProtocol<TFramedReadTransport<BufReader<TcpStream>>>;
pub(super) type Output = TBinaryOutputProtocol<TFramedWriteTransport<Outgoing>>;

/// Both directions of a connection.
///
/// # Errors
/// The system's, for the socket.
pub(super) fn open(socket: &Socket) -> io::Result<(Input, Output)> {
    socket.set_nodelay()?;
    socket.0.set_nonblocking(false)?;
    // A frame's length and the frame are two reads; the buffered reader merges them into one call.
    let incoming = BufReader::with_capacity(AHEAD, socket.0.try_clone()?);
    let outgoing = Outgoing { socket: socket.0.try_clone()?, length: None };
    Ok((
        TBinaryInputProtocol::with_config(TFramedReadTransport::new(incoming), true, limits()),
        TBinaryOutputProtocol::new(TFramedWriteTransport::new(outgoing), true),
    ))
}

/// The sending side. A frame's length, which is written separately, waits for the frame: each would
/// be a packet of its own.
#[derive(Debug)]
pub(super) struct Outgoing {
    socket: TcpStream,
    length: Option<[u8; 4]>,
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(length) = self.length else {
            if let Ok(length) = bytes.try_into() {
                self.length = Some(length);
                return Ok(bytes.len());
            }
            // The rest of a frame; send(2) is cheaper than writev(2).
            return again(|| self.socket.write(bytes));
        };
        let parts = [IoSlice::new(&length), IoSlice::new(bytes)];
        let sent = again(|| self.socket.write_vectored(&parts))?;
        self.length = None;
        self.socket.write_all(&length[sent.min(length.len())..])?;
        Ok(sent.saturating_sub(length.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        // Four bytes that were the rest of a frame.
        self.length.take().map_or(Ok(()), |rest| self.socket.write_all(&rest))
    }
}

/// Thrift takes a send that a signal interrupts for an error.
fn again(mut send: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match send() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn four_bytes_that_are_the_rest_of_a_frame_are_sent_too() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut outgoing = Outgoing { socket, length: None };
        outgoing.write_all(b"rest").unwrap();
        outgoing.flush().unwrap();
        drop(outgoing);
        let mut arrived = String::new();
        listener.accept().unwrap().0.read_to_string(&mut arrived).unwrap();
        assert_eq!(arrived, "rest");
    }
}
