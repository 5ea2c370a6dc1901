//! Streams of procedure calls over a TCP connection: a client stream of gRPC, or one-way calls of
//! Thrift followed by one with an answer.

mod server;

pub use server::RpcServer;

use super::{Accepted, Connected, Endpoint, KEY, Parameters, STREAM_POLL_INTERVAL, Transport, tcp};
use crate::rendezvous::Listener;
use crate::stream::{Incoming, MessageReceiver, MessageSender, Outgoing, SenderStatistics};
use costof_rpc::{Client, Stack};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Calls by this stack.
#[derive(Clone, Copy, Debug)]
pub struct Calls(pub Stack);

impl Transport for Calls {
    fn prepare(&mut self) -> io::Result<Parameters> {
        offers(self.0)
    }

    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted {
        Ok(Box::new(Receiver {
            stack: self.0,
            stream: Some(tcp::accept(listener, stop)?),
            server: None,
        }))
    }

    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected> {
        let key = receiver.parameters.get(KEY).cloned();
        tcp::connect(receiver, None, |stream| {
            Ok(Sender { stack: self.0, key, client: None, stream })
        })
    }
}

/// What a client needs to know of a server of this stack: its key, if it has one.
///
/// # Errors
/// Those of [`costof_rpc::key`].
pub fn offers(stack: Stack) -> io::Result<Parameters> {
    let key = costof_rpc::key(stack)?;
    Ok(key.into_iter().map(|key| (KEY.into(), key.to_owned())).collect())
}

/// The error of a stack does not mean that the other end is gone.
fn failed(error: io::Error) -> io::Error {
    io::Error::other(error)
}

/// The end that calls.
struct Sender {
    stack: Stack,
    key: Option<String>,
    /// Kept until the receiver has read the CPU time of its threads, which end with the connection.
    client: Option<Box<dyn Client>>,
    /// Used by the stack, and for the kernel's counts.
    stream: TcpStream,
}

impl MessageSender for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut client = costof_rpc::client(self.stack, self.key.as_deref()).map_err(failed)?;
        client.over(self.stream.try_clone()?.into()).map_err(failed)?;
        // The stack owns the decision whether there is more to send; it sends `outgoing` back at the end.
        let (done, returned) = mpsc::sync_channel(1);
        let order = outgoing.order;
        let size = order.size;
        let mut owned = Some(std::mem::replace(outgoing, Outgoing::new(order)));
        let more = move || {
            let Some(outgoing) = owned.as_mut().filter(|outgoing| !outgoing.is_over()) else {
                if let Some(outgoing) = owned.take() {
                    // Nobody waits for it if the call has failed.
                    let _ = done.send(outgoing);
                }
                return false;
            };
            let more = outgoing.next_message().is_some();
            outgoing.record_if_due(outgoing.bytes());
            more
        };
        client.upload(size, Box::new(more)).map_err(failed)?;
        self.client = Some(client);
        *outgoing = returned.recv().map_err(io::Error::other)?;
        Ok(())
    }

    fn statistics(&self) -> io::Result<SenderStatistics> {
        tcp::statistics(&self.stream)
    }
}

/// The end that is called. The stack checks what arrives, and counts it for the sender alone.
struct Receiver {
    stack: Stack,
    stream: Option<TcpStream>,
    server: Option<RpcServer>,
}

impl MessageReceiver for Receiver {
    fn receive(&mut self, _: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let stream = self.stream.take().ok_or(ErrorKind::NotConnected)?;
        // Its threads start on the CPU of this thread.
        let server = RpcServer::start(self.stack).map_err(failed)?;
        server.serve(vec![stream.into()]).map_err(failed)?;
        self.server = Some(server);
        while !stop.load(Ordering::Acquire) {
            std::thread::sleep(STREAM_POLL_INTERVAL);
        }
        Ok(())
    }

    fn cpu_ns(&self) -> Option<f64> {
        self.server.as_ref()?.cpu_ns()
    }
}
