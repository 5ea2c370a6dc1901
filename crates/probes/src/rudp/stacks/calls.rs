//! Streams of calls of procedures over a TCP connection: a client stream of gRPC, one-way calls of
//! Thrift with an answered one behind the last.

use super::{LOOK, Received, Receives, Sends, Sent};
use crate::rpc::served::Served;
use crate::rudp::incoming::Incoming;
use crate::rudp::outgoing::Outgoing;
use costof_exchange::rendezvous::Flow;
use costof_os::net::socket;
use costof_rpc::{Client, Options, RpcError, Stack};
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// A stack that says no is no other end that has gone.
fn failed(error: RpcError) -> io::Error {
    io::Error::other(error)
}

/// The end that calls.
pub(super) struct Sender {
    stack: Stack,
    /// The other end's threads are there until they are asked what they have used.
    client: Option<Client>,
    /// For the stack, and to ask the kernel of.
    stream: TcpStream,
}

impl Sender {
    pub(super) fn new(stack: Stack, met: Flow) -> io::Result<Sender> {
        let stream = TcpStream::from(met.into_socket()?);
        Ok(Sender {
            stack,
            client: None,
            stream,
        })
    }

    pub(super) fn mtu_bytes(&self) -> io::Result<u32> {
        socket::mtu_bytes(&self.stream)
    }
}

impl Sends for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut client = Client::new(self.stack, &Options::default()).map_err(failed)?;
        client
            .over(self.stream.try_clone()?.into())
            .map_err(failed)?;
        // The stack keeps what says whether there is more, and gives it back when there is not.
        let (done, given_back) = mpsc::sync_channel(1);
        let size = outgoing.size();
        let mut kept = Some(std::mem::replace(outgoing, Outgoing::new(outgoing.order())));
        let more = move || {
            let Some(outgoing) = kept.as_mut().filter(|outgoing| !outgoing.is_over()) else {
                if let Some(outgoing) = kept.take() {
                    // Nobody waits for it where the call has failed.
                    let _ = done.send(outgoing);
                }
                return false;
            };
            let more = outgoing.next().is_some();
            outgoing.note(outgoing.bytes());
            more
        };
        client.upload(size, more).map_err(failed)?;
        self.client = Some(client);
        *outgoing = given_back.recv().map_err(io::Error::other)?;
        Ok(())
    }

    fn counted(&self) -> io::Result<Sent> {
        let info = socket::tcp_info(&self.stream)?;
        Ok(Sent {
            again: info.sent_again_bytes as f64 / info.sent_bytes.max(1) as f64,
            datagrams: None,
        })
    }
}

/// The end that is called. What came is looked at by the stack, and counted by it for the sender alone.
pub(super) struct Receiver {
    stack: Stack,
    stream: Option<TcpStream>,
    served: Option<Served>,
}

impl Receiver {
    pub(super) fn new(stack: Stack, met: Flow, token: &[u8]) -> io::Result<Receiver> {
        let mut stream = TcpStream::from(met.into_socket()?);
        // The sender waits for it.
        stream.write_all(token)?;
        Ok(Receiver {
            stack,
            stream: Some(stream),
            served: None,
        })
    }
}

impl Receives for Receiver {
    fn receive(&mut self, _: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let stream = self.stream.take().ok_or(ErrorKind::NotConnected)?;
        // On the processor that this thread has been moved to.
        let served = Served::start(self.stack).and_then(|served| {
            served.serve(vec![stream.into()])?;
            Ok(served)
        });
        let served = served.map_err(|failure| io::Error::other(failure.reason))?;
        self.served = Some(served);
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn counted(&self) -> io::Result<Option<Received>> {
        Ok(None)
    }

    fn cpu_ns(&self) -> Option<f64> {
        self.served.as_ref()?.cpu_ns()
    }
}
