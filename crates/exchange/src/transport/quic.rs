//! QUIC with quinn. If the sender needs to know when each message arrived, the receiver sends a
//! count back for it.
//!
//! The receiver's key is generated for this launch. The controller passes its public part to the sender, which
//! trusts no other.

pub mod key;

use super::{
    Accepted, Connected, Endpoint, KEY, Parameters, READ_BYTES, STREAM_POLL_INTERVAL, Transport,
    WINDOW_BYTES,
};
use crate::rendezvous::Listener;
use crate::rendezvous::{self, datagrams};
use crate::stream::{
    Datagrams, Incoming, MessageReceiver, MessageSender, Outgoing, SenderStatistics,
};
use costof_os::net::socket::set_buffer_bytes;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{
    Connection, ConnectionError, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, TransportErrorCode, VarInt,
};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

/// The name of the receiver, which QUIC wants and nobody resolves.
const NAME: &str = "costof";
/// The least that QUIC allows (RFC 9000 section 14), and the most that quinn takes.
const MIN_DATAGRAM: u16 = 1200;
const MAX_DATAGRAM: u16 = 65_527;
/// The datagram size with which a connection begins, if the path carries it: quinn's own search ends there.
const FIRST_DATAGRAM: u16 = 1452;
/// quinn hands up to ten datagrams to the kernel at once, which takes no more than 64 KiB: longer
/// ones would be lost there.
const MAX_BATCHED_DATAGRAM: u16 = 6_500;
/// What the socket's buffers should hold, in bytes; the system may grant less.
const SOCKET_BUFFER: usize = 8 << 20;

/// QUIC by the congestion control of this name, and what its receiver is prepared with.
#[derive(Debug)]
pub struct Quic {
    control: Option<&'static str>,
    server: Option<ServerConfig>,
}

impl Quic {
    /// CUBIC if none is named.
    pub fn new(control: Option<&'static str>) -> Quic {
        Quic { control, server: None }
    }
}

impl Transport for Quic {
    fn prepare(&mut self) -> io::Result<Parameters> {
        let (mut server, digits) = key::server()?;
        let transport = transport(None, MIN_DATAGRAM)?;
        server.transport_config(Arc::new(transport));
        self.server = Some(server);
        Ok(Parameters::from([(KEY.into(), digits)]))
    }

    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted {
        let socket = datagrams::accept(listener, stop)?;
        let (endpoint, runtime) = endpoint(socket.try_clone()?, self.server)?;
        Ok(Box::new(Receiver { connection: None, endpoint, runtime, socket }))
    }

    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected> {
        super::connect_datagrams(receiver, |socket, datagram| {
            Sender::connect(socket, receiver.parameters, self.control, datagram)
        })
    }
}

/// Windows like those of rudp, so that they limit none of the links.
///
/// # Errors
/// `NotFound` for a congestion control that quinn does not have.
fn transport(control: Option<&str>, datagram: u16) -> io::Result<TransportConfig> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match control {
        Some("bbr") => Arc::new(BbrConfig::default()),
        Some("reno") => Arc::new(NewRenoConfig::default()),
        None | Some("cubic") => Arc::new(CubicConfig::default()),
        Some(_) => return Err(ErrorKind::NotFound.into()),
    };
    let datagram = datagram.max(MIN_DATAGRAM);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram);
    let mut transport = TransportConfig::default();
    transport
        .enable_segmentation_offload(datagram <= MAX_BATCHED_DATAGRAM)
        .congestion_controller_factory(control)
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into())
        .initial_mtu(datagram.min(FIRST_DATAGRAM))
        .mtu_discovery_config(Some(discovery));
    Ok(transport)
}

/// An end of a connection, and its single-threaded runtime.
fn endpoint(
    socket: UdpSocket,
    server: Option<ServerConfig>,
) -> io::Result<(quinn::Endpoint, Runtime)> {
    // As rudp does: quinn leaves this to whoever opens the socket.
    set_buffer_bytes(&socket, SOCKET_BUFFER)?;
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(MAX_DATAGRAM).map_err(io::Error::other)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let endpoint = quinn::Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?;
    drop(entered);
    Ok((endpoint, runtime))
}

struct Sender {
    /// The connection must be dropped before the runtime.
    connection: Connection,
    stream: SendStream,
    counts: RecvStream,
    endpoint: quinn::Endpoint,
    runtime: Runtime,
}

impl Sender {
    /// # Errors
    /// `TimedOut` if the receiver does not answer in time; why the handshake failed.
    fn connect(
        socket: UdpSocket,
        parameters: &Parameters,
        control: Option<&str>,
        datagram: usize,
    ) -> io::Result<Sender> {
        let missing = || io::Error::new(ErrorKind::InvalidData, "the receiver offered no key");
        let mut client = key::client(parameters.get(KEY).ok_or_else(missing)?)?;
        client.transport_config(Arc::new(transport(control, datagram as u16)?));
        let to = socket.peer_addr()?;
        let (endpoint, runtime) = endpoint(socket, None)?;
        let handshake = async {
            let connecting = endpoint.connect_with(client, to, NAME);
            let connection = connecting.map_err(io::Error::other)?.await?;
            let streams = connection.open_bi().await?;
            io::Result::Ok((connection, streams))
        };
        let (connection, (stream, counts)) =
            runtime.block_on(async { timeout(rendezvous::TIMEOUT, handshake).await? })?;
        Ok(Sender { connection, stream, counts, endpoint, runtime })
    }
}

/// The result of a call; `None` if it takes longer than the poll interval.
async fn soon<T, E>(call: impl Future<Output = Result<T, E>>) -> io::Result<Option<T>>
where
    io::Error: From<E>,
{
    Ok(timeout(STREAM_POLL_INTERVAL, call).await.ok().transpose()?)
}

async fn send(
    stream: &mut SendStream,
    counts: &mut RecvStream,
    outgoing: &mut Outgoing,
) -> io::Result<()> {
    let mut buffer = [0; 512];
    stream.write_all(&outgoing.preamble()).await?;
    while !outgoing.is_over() {
        // A write that does not wait gives way to nobody: quinn would send nothing until the end.
        consume_budget().await;
        let done = match outgoing.to_write() {
            Some(bytes) => {
                let written = soon(stream.write(bytes)).await?;
                written.map(|length| outgoing.handle_written(length))
            }
            None => match soon(counts.read(&mut buffer)).await? {
                Some(None) => return Err(ErrorKind::UnexpectedEof.into()),
                read => read.flatten().map(|length| outgoing.handle_counts(&buffer[..length])),
            },
        };
        if done.is_none() {
            outgoing.record(outgoing.bytes());
        }
    }
    Ok(())
}

impl MessageSender for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        self.runtime.block_on(async {
            send(&mut self.stream, &mut self.counts, outgoing).await?;
            self.connection.close(VarInt::from_u32(0), b"");
            // Waits until the receiver knows, if that is soon.
            let _ = timeout(STREAM_POLL_INTERVAL, self.endpoint.wait_idle()).await;
            Ok(())
        })
    }

    fn statistics(&self) -> io::Result<SenderStatistics> {
        let stats = self.connection.stats();
        let sent = stats.path.sent_packets.max(1);
        Ok(SenderStatistics {
            retransmissions: stats.path.lost_packets as f64 / sent as f64,
            datagrams: Some(stats.udp_tx.datagrams),
        })
    }
}

struct Receiver {
    /// The connection must be dropped before the runtime.
    connection: Option<Connection>,
    endpoint: quinn::Endpoint,
    runtime: Runtime,
    /// The same socket, for the kernel's counts.
    socket: UdpSocket,
}

/// The connection and its streams; `None` if the launch has ended first, or if the sender was done before any of its
/// stream arrived.
async fn accept(
    endpoint: &quinn::Endpoint,
    stop: &AtomicBool,
) -> io::Result<Option<(Connection, SendStream, RecvStream)>> {
    let mut waited = Duration::ZERO;
    while !stop.load(Ordering::Acquire) && waited < rendezvous::TIMEOUT {
        let accepted = timeout(STREAM_POLL_INTERVAL, endpoint.accept()).await;
        if let Ok(Some(incoming)) = accepted {
            let handshake = async {
                let connection = incoming.await?;
                let (counts, stream) = connection.accept_bi().await?;
                Ok((connection, counts, stream))
            };
            return match timeout(rendezvous::TIMEOUT, handshake).await? {
                Ok(accepted) => Ok(Some(accepted)),
                Err(ConnectionError::ApplicationClosed(_)) => Ok(None),
                // The same before the handshake is confirmed (RFC 9000, section 10.2.3).
                Err(ConnectionError::ConnectionClosed(close))
                    if close.error_code == TransportErrorCode::APPLICATION_ERROR =>
                {
                    Ok(None)
                }
                Err(error) => Err(error.into()),
            };
        }
        waited += STREAM_POLL_INTERVAL;
    }
    Ok(None)
}

/// Receives until the sender is done.
async fn receive(
    counts: &mut SendStream,
    stream: &mut RecvStream,
    incoming: &mut Incoming,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    while !stop.load(Ordering::Acquire) {
        match soon(stream.read(&mut buffer)).await {
            Ok(Some(Some(length))) => {
                if let Some(count) = incoming.handle_bytes(&buffer[..length])?
                    && counts.write_all(&count).await.is_err()
                {
                    break;
                }
            }
            Ok(None) => incoming.nothing_arrived()?,
            Ok(Some(None)) | Err(_) => break,
        }
    }
    Ok(())
}

impl MessageReceiver for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        self.runtime.block_on(async {
            let accepted = accept(&self.endpoint, stop).await?;
            let Some((connection, mut counts, mut stream)) = accepted else {
                return Ok(());
            };
            self.connection = Some(connection);
            receive(&mut counts, &mut stream, incoming, stop).await?;
            incoming.record();
            while !stop.load(Ordering::Acquire) {
                tokio::time::sleep(STREAM_POLL_INTERVAL).await;
            }
            Ok(())
        })
    }

    fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        let stats = self.connection.as_ref().map(Connection::stats);
        let arrived = stats.map_or(0, |stats| stats.udp_rx.datagrams);
        Datagrams::at(&self.socket, arrived).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Order;
    use std::net::Ipv4Addr;
    use std::thread::JoinHandle;

    /// A receiver, and a thread whose sender has connected to it and sends.
    fn ends(
        send: impl FnOnce(Sender) + Send + 'static,
    ) -> ((quinn::Endpoint, Runtime), JoinHandle<()>) {
        let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut quic = Quic::new(None);
        let parameters = quic.prepare().unwrap();
        let receiver = socket();
        let address = receiver.local_addr().unwrap();
        let sending = std::thread::spawn(move || {
            let socket = socket();
            socket.connect(address).unwrap();
            send(Sender::connect(socket, &parameters, None, FIRST_DATAGRAM.into()).unwrap());
        });
        (endpoint(receiver, quic.server).unwrap(), sending)
    }

    /// As on a machine where the receiver gets no CPU until the sender is done.
    #[test]
    fn a_sender_that_is_done_before_its_stream_arrives_is_no_failure() {
        let ((endpoint, runtime), sending) = ends(|sender| {
            sender.connection.close(VarInt::from_u32(0), b"");
            sender.runtime.block_on(sender.endpoint.wait_idle());
        });
        let accepted = runtime.block_on(accept(&endpoint, &AtomicBool::new(false)));
        assert!(accepted.unwrap().is_none());
        drop((endpoint, runtime));
        sending.join().unwrap();
    }

    /// No window is ever full of them, so no write waits.
    #[test]
    fn messages_of_a_byte_are_sent_before_the_last_one_is_written() {
        let duration = Duration::from_millis(300);
        let ((endpoint, runtime), sending) = ends(move |mut sender| {
            let mut outgoing = Outgoing::new(Order {
                size: 1,
                window: None,
                duration,
                grace: Duration::ZERO,
                messages: None,
                has_header: false,
            });
            outgoing.start();
            sender.send(&mut outgoing).unwrap();
        });
        let never = AtomicBool::new(false);
        let mut incoming = Incoming::without_header(1, duration);
        runtime.block_on(async {
            let accepted = accept(&endpoint, &never).await.unwrap();
            let (_connection, mut counts, mut stream) = accepted.expect("something is sent");
            receive(&mut counts, &mut stream, &mut incoming, &never).await.unwrap();
        });
        assert!(incoming.bytes > 0);
        drop((endpoint, runtime));
        sending.join().unwrap();
    }
}
