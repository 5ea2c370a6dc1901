//! QUIC by quinn, with a number back for each message where that is to be known.
//!
//! The certificate is made for this launch, and the controller hands it to the other end, which
//! trusts no other.

use super::tcp::{ANSWERED, Answers};
use super::{LOOK, Received, Receives, Sends, Sent, WINDOW_BYTES};
use crate::rudp::datagrams::MEETS;
use crate::rudp::incoming::Incoming;
use crate::rudp::outgoing::Outgoing;
use costof_model::Text;
use costof_model::protocol::Offers;
use costof_os::net::socket::{dropped_datagrams, set_buffer_bytes};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, RecvStream, SendStream,
    ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// By which name the certificate is offered, in hexadecimal digits.
const CERTIFICATE: &str = "certificate";
/// For whom it is.
const NAME: &str = "costof";
/// The least that QUIC allows (RFC 9000 section 14), and the most that quinn takes.
const DATAGRAM_LEAST: usize = 1200;
const DATAGRAM_MOST: u16 = 65_527;
/// What a connection begins with, where the path carries it: quinn's own search ends there.
const DATAGRAM_FIRST: u16 = 1452;
/// quinn hands up to ten datagrams to the kernel at once, which takes no more than 64 KiB: longer
/// ones would be lost there.
const BATCHED_MOST: usize = 6_500;
/// What the socket's buffers should hold; the system may give less.
const SOCKET_BUFFER: usize = 8 << 20;
/// How much is read at once, at most.
const READ_BYTES: usize = 128 << 10;

/// Who the receiver is.
pub(in crate::rudp) struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// A new one, and how the other end knows it.
    ///
    /// # Errors
    /// That none can be made.
    pub(super) fn new() -> io::Result<(Identity, Offers)> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]);
        let made = made.map_err(io::Error::other)?;
        let certificate = made.cert.der().clone();
        let digits: String = certificate
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        let offers = Offers::from([(Text::Borrowed(CERTIFICATE), digits)]);
        Ok((Identity { certificate, key }, offers))
    }
}

/// The certificate that the other end offers.
fn offered(offers: &Offers) -> io::Result<CertificateDer<'static>> {
    let bytes = offers.get(CERTIFICATE).and_then(|digits| {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        pairs.map(byte).collect::<Option<Vec<u8>>>()
    });
    let bytes = bytes.ok_or_else(|| {
        io::Error::new(
            ErrorKind::InvalidData,
            "the other end offered no certificate",
        )
    })?;
    Ok(CertificateDer::from(bytes))
}

/// Windows like those of rudp, so that none of a long link is what limits.
fn transport(by: Option<&str>, datagram: usize) -> TransportConfig {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match by {
        Some("bbr") => Arc::new(BbrConfig::default()),
        Some("reno") => Arc::new(NewRenoConfig::default()),
        _ => Arc::new(CubicConfig::default()),
    };
    let datagram = datagram.max(DATAGRAM_LEAST) as u16;
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram);
    let mut transport = TransportConfig::default();
    transport
        .enable_segmentation_offload(usize::from(datagram) <= BATCHED_MOST)
        .congestion_controller_factory(control)
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into())
        .initial_mtu(datagram.min(DATAGRAM_FIRST))
        .mtu_discovery_config(Some(discovery));
    transport
}

fn endpoint(socket: UdpSocket, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    // As rudp does: quinn leaves it to whoever opens the socket.
    set_buffer_bytes(&socket, SOCKET_BUFFER)?;
    let mut config = EndpointConfig::default();
    config
        .max_udp_payload_size(DATAGRAM_MOST)
        .map_err(io::Error::other)?;
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

const VERSIONS: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

pub(super) struct Sender {
    /// What ends the connection must end before what it runs on.
    connection: Connection,
    stream: (SendStream, RecvStream),
    endpoint: Endpoint,
    runtime: Runtime,
}

impl Sender {
    /// # Errors
    /// `TimedOut` where the other end does not answer in time; why the ends do not understand each
    /// other.
    pub(super) fn connect(
        socket: UdpSocket,
        offers: &Offers,
        by: Option<&str>,
        datagram: usize,
    ) -> io::Result<Sender> {
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(offered(offers)?).map_err(io::Error::other)?;
        let tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(io::Error::other)?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(by, datagram)));
        let to = socket.peer_addr()?;
        let runtime = runtime()?;
        let (endpoint, connection, stream) = runtime.block_on(async {
            let endpoint = endpoint(socket, None)?;
            let meet = async {
                let connecting = endpoint.connect_with(config, to, NAME);
                let connection = connecting.map_err(io::Error::other)?.await?;
                let stream = connection.open_bi().await?;
                io::Result::Ok((connection, stream))
            };
            let (connection, stream) = timeout(MEETS, meet).await??;
            io::Result::Ok((endpoint, connection, stream))
        })?;
        Ok(Sender {
            connection,
            stream,
            endpoint,
            runtime,
        })
    }
}

/// What a call that may wait gives, none where it takes too long.
async fn soon<T, E>(call: impl Future<Output = Result<T, E>>) -> io::Result<Option<T>>
where
    io::Error: From<E>,
{
    match timeout(LOOK, call).await {
        Ok(done) => Ok(Some(done?)),
        Err(_) => Ok(None),
    }
}

async fn write_all(stream: &mut SendStream, outgoing: &mut Outgoing, from: u64) -> io::Result<()> {
    let mut done = 0;
    while done < outgoing.size() {
        match soon(stream.write(&outgoing.last()[done..])).await? {
            Some(more) => done += more,
            None => {
                let bytes = match outgoing.is_answered() {
                    true => outgoing.bytes(),
                    false => from + done as u64,
                };
                outgoing.look(bytes);
                if outgoing.is_over() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

async fn send(
    (stream, answers): &mut (SendStream, RecvStream),
    outgoing: &mut Outgoing,
) -> io::Result<()> {
    let (mut buffer, mut answer) = ([0; 512], Answers::default());
    stream
        .write_all(&[u8::from(outgoing.is_answered())])
        .await?;
    while !outgoing.is_over() {
        let before = outgoing.bytes();
        if outgoing.next().is_some() {
            write_all(stream, outgoing, before).await?;
        } else {
            match soon(answers.read(&mut buffer)).await? {
                Some(None) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(Some(length)) => {
                    if let Some(count) = answer.take(&buffer[..length]) {
                        outgoing.arrived_before(count);
                    }
                }
                None => outgoing.look(outgoing.bytes()),
            }
        }
        outgoing.note(outgoing.bytes());
    }
    Ok(())
}

impl Sends for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let Sender {
            connection,
            stream,
            endpoint,
            runtime,
        } = self;
        runtime.block_on(async {
            send(stream, outgoing).await?;
            connection.close(VarInt::from_u32(0), b"");
            // Until that is said, as far as it can be soon.
            let _ = timeout(LOOK, endpoint.wait_idle()).await;
            Ok(())
        })
    }

    fn counted(&self) -> io::Result<Sent> {
        let stats = self.connection.stats();
        Ok(Sent {
            again: stats.path.lost_packets as f64 / stats.path.sent_packets.max(1) as f64,
            datagrams: Some(stats.udp_tx.datagrams),
        })
    }
}

pub(super) struct Receiver {
    /// What ends the connection must end before what it runs on.
    connection: Option<Connection>,
    endpoint: Endpoint,
    runtime: Runtime,
    /// The same socket, to ask what it dropped.
    asked: UdpSocket,
}

impl Receiver {
    pub(super) fn new(socket: UdpSocket, identity: Identity) -> io::Result<Receiver> {
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate], identity.key)
            .map_err(io::Error::other)?;
        let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport(None, DATAGRAM_LEAST)));
        let asked = socket.try_clone()?;
        let runtime = runtime()?;
        let endpoint = runtime.block_on(async { endpoint(socket, Some(config)) })?;
        Ok(Receiver {
            connection: None,
            endpoint,
            runtime,
            asked,
        })
    }
}

/// The connection and its stream; none where the launch has ended before.
async fn accept(
    endpoint: &Endpoint,
    stop: &AtomicBool,
) -> io::Result<Option<(Connection, SendStream, RecvStream)>> {
    let mut waited = Duration::ZERO;
    while !stop.load(Ordering::Acquire) && waited < MEETS {
        let accepted = timeout(LOOK, endpoint.accept()).await;
        if let Ok(Some(incoming)) = accepted {
            let meet = async {
                let connection = incoming.await?;
                let (answers, stream) = connection.accept_bi().await?;
                io::Result::Ok((connection, answers, stream))
            };
            return timeout(MEETS, meet).await?.map(Some);
        }
        waited += LOOK;
    }
    Ok(None)
}

async fn receive(
    answers: &mut SendStream,
    stream: &mut RecvStream,
    incoming: &mut Incoming,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut is_answered, mut answered) = (None, 0);
    while !stop.load(Ordering::Acquire) {
        let length = match soon(stream.read(&mut buffer)).await {
            Ok(Some(Some(length))) => length,
            Ok(None) => {
                incoming.look();
                continue;
            }
            // The sender is done.
            Ok(Some(None)) | Err(_) => break,
        };
        let mut piece = &buffer[..length];
        let is_answered = *is_answered.get_or_insert_with(|| {
            let first = piece[0];
            piece = &piece[1..];
            first == ANSWERED
        });
        let there = incoming.take_piece(piece)?;
        if is_answered && there > answered {
            answered = there;
            if answers.write_all(&there.to_le_bytes()).await.is_err() {
                break;
            }
        }
    }
    Ok(())
}

impl Receives for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let Receiver {
            connection,
            endpoint,
            runtime,
            ..
        } = self;
        runtime.block_on(async {
            let Some((accepted, mut answers, mut stream)) = accept(endpoint, stop).await? else {
                return Ok(());
            };
            *connection = Some(accepted);
            receive(&mut answers, &mut stream, incoming, stop).await?;
            incoming.look();
            while !stop.load(Ordering::Acquire) {
                tokio::time::sleep(LOOK).await;
            }
            Ok(())
        })
    }

    fn counted(&self) -> io::Result<Option<Received>> {
        let stats = self.connection.as_ref().map(Connection::stats);
        Ok(Some(Received {
            datagrams: stats.map_or(0, |stats| stats.udp_rx.datagrams),
            dropped: dropped_datagrams(&self.asked)?.into(),
        }))
    }
}
