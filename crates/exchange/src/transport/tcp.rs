//! A TCP connection. If the sender needs to know when each message arrived, the receiver sends a
//! count back for it.

use super::{Accepted, Connected, Endpoint, READ_BYTES, STREAM_POLL_INTERVAL, Transport};
use crate::rendezvous::datagrams::is_passing;
use crate::rendezvous::{self, Listener, Over, only};
use crate::stream::{Incoming, MessageReceiver, MessageSender, Outgoing, SenderStatistics};
use costof_os::net::socket::{has_gone, mtu_bytes, reset_on_close, tcp_info};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// TCP by the congestion control of this name, or by the kernel's own choice.
#[derive(Clone, Copy, Debug)]
pub struct Tcp(pub Option<&'static str>);

impl Transport for Tcp {
    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted {
        let stream = accept(listener, stop)?;
        stream.set_read_timeout(Some(STREAM_POLL_INTERVAL))?;
        Ok(Box::new(Receiver(stream)))
    }

    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected> {
        connect(receiver, self.0, |stream| {
            stream.set_read_timeout(Some(STREAM_POLL_INTERVAL))?;
            stream.set_write_timeout(Some(STREAM_POLL_INTERVAL))?;
            Ok(Sender(stream))
        })
    }
}

/// The connection from the sender.
pub(super) fn accept(listener: &Listener, stop: &AtomicBool) -> io::Result<TcpStream> {
    let flow = only(listener.accept(stop)?);
    flow.send_token()?;
    Ok(flow.into_socket()?.into())
}

/// A sender over a connection to the receiver.
pub(super) fn connect<S: MessageSender + 'static>(
    receiver: &Endpoint<'_>,
    control: Option<&str>,
    sender: impl FnOnce(TcpStream) -> io::Result<S>,
) -> io::Result<Connected> {
    let Endpoint { address, token, .. } = receiver;
    let flow = only(rendezvous::connect_by(Over::Tcp, address, 1, control, token)?);
    let round_trip = flow.round_trip;
    let stream = TcpStream::from(flow.into_socket()?);
    Ok(Connected { mtu: mtu_bytes(&stream)?, sender: Box::new(sender(stream)?), round_trip })
}

/// What the kernel has counted at the sender.
pub(super) fn statistics(stream: &TcpStream) -> io::Result<SenderStatistics> {
    let info = tcp_info(stream)?;
    Ok(SenderStatistics {
        retransmissions: info.retransmitted_bytes as f64 / info.sent_bytes.max(1) as f64,
        datagrams: None,
    })
}

struct Sender(TcpStream);

impl MessageSender for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let Sender(stream) = self;
        let mut counts = [0; 512];
        stream.write_all(&outgoing.preamble())?;
        while !outgoing.is_over() {
            let done = match outgoing.to_write() {
                Some(bytes) => stream.write(bytes).map(|length| outgoing.handle_written(length)),
                None => match stream.read(&mut counts) {
                    Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                    read => read.map(|length| outgoing.handle_counts(&counts[..length])),
                },
            };
            match done {
                Err(error) if is_passing(&error) => outgoing.record(outgoing.bytes()),
                done => done?,
            }
        }
        // What has not arrived is no longer needed.
        reset_on_close(stream)
    }

    fn statistics(&self) -> io::Result<SenderStatistics> {
        statistics(&self.0)
    }
}

struct Receiver(TcpStream);

impl Receiver {
    /// # Errors
    /// `ConnectionReset` if the sender has closed the connection, with or without a reset; those of
    /// [`Incoming::handle_bytes`].
    fn receive_piece(&mut self, buffer: &mut [u8], incoming: &mut Incoming) -> io::Result<()> {
        let length = match self.0.read(buffer)? {
            0 => return Err(ErrorKind::ConnectionReset.into()),
            length => length,
        };
        let count = incoming.handle_bytes(&buffer[..length])?;
        count.map_or(Ok(()), |count| self.0.write_all(&count))
    }
}

impl MessageReceiver for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while !stop.load(Ordering::Acquire) {
            match self.receive_piece(&mut buffer, incoming) {
                Err(error) if is_passing(&error) => incoming.nothing_arrived()?,
                Err(error) if has_gone(&error) => break,
                received => received?,
            }
        }
        incoming.record();
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(STREAM_POLL_INTERVAL);
        }
        Ok(())
    }
}
