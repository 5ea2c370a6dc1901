//! The transport of gRPC's calls: HTTP/2 by hyper over an existing connection, like tonic's own
//! channel, but without the queue and the task that it adds for connections that are replaced.

use super::gathering::Gathering;
use super::wire::echo_client::EchoClient;
use super::{security, tokio_stream};
use crate::{MAX_MESSAGE_BYTES, Socket, Stack};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::codec::CompressionEncoding::Gzip;
use tower::Service;

#[derive(Clone, Debug)]
pub(super) struct Channel {
    requests: SendRequest<Body>,
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.requests.send_request(request))
    }
}

/// The name of the server. It is never resolved, because the connection exists.
const ORIGIN: &str = "http://costof.invalid";

/// A client over this socket alone: a broken connection is not replaced silently. Call this within
/// the runtime that it will use.
///
/// # Errors
/// The system's, for the socket; why the handshake of TLS failed.
pub(super) async fn client(
    stack: Stack,
    key: Option<&str>,
    socket: Socket,
) -> io::Result<EchoClient<Channel>> {
    let stream = tokio_stream(socket)?;
    let channel = match stack {
        Stack::GrpcTls => channel(security::connect(stream, key).await?).await?,
        _ => channel(stream).await?,
    };
    let client = EchoClient::with_origin(channel, Uri::from_static(ORIGIN))
        .max_decoding_message_size(MAX_MESSAGE_BYTES);
    Ok(match stack {
        Stack::GrpcGzip => client.send_compressed(Gzip).accept_compressed(Gzip),
        _ => client,
    })
}

async fn channel<S>(stream: S) -> io::Result<Channel>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // Small writes are one record of TLS, too.
    let io = TokioIo::new(Gathering::new(stream));
    let mut http2 = Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .max_frame_size(super::MAX_FRAME)
        // So that the next bytes to send are still cached; hyper's default of 1 MiB would evict
        // them.
        .max_send_buf_size(super::MAX_FRAME as usize);
    let handshake = http2.handshake(io).await;
    let (requests, connection) = handshake.map_err(io::Error::other)?;
    // The calls report its error.
    tokio::spawn(connection);
    Ok(Channel { requests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server as _;
    use crate::grpc::{MAX_FRAME, Server, runtime};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use tonic::client::Grpc;
    use tonic_prost::ProstCodec;

    type Message = crate::grpc::wire::IntMessage;

    /// The longest frame that the first settings on a connection allow. A frame begins with a
    /// length of three bytes, a type, flags and a stream; a setting has two bytes of name and four
    /// of value. Source: RFC 9113, sections 4.1, 6.5.1 and 6.5.2.
    fn longest_frame(mut from: &UnixStream) -> Option<u32> {
        const SETTINGS: u8 = 4;
        const MAX_FRAME_SIZE: [u8; 2] = [0, 5];
        let mut head = [0; 9];
        from.read_exact(&mut head).unwrap();
        assert_eq!(head[3], SETTINGS);
        let mut settings = vec![0; usize::from(head[2])];
        from.read_exact(&mut settings).unwrap();
        let mut settings = settings.chunks_exact(6);
        let longest = settings.find(|setting| setting[..2] == MAX_FRAME_SIZE)?;
        Some(u32::from_be_bytes(longest[2..].try_into().unwrap()))
    }

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    #[test]
    fn both_ends_take_frames_that_hold_long_messages() {
        let server = Server::start(Stack::Grpc).unwrap();
        let (mut ours, its) = UnixStream::pair().unwrap();
        server.serve(its.into()).unwrap();
        ours.write_all(PREFACE).unwrap();
        ours.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(longest_frame(&ours), Some(MAX_FRAME));

        let (ours, mut its) = UnixStream::pair().unwrap();
        let read = move || {
            let mut preface = [0; PREFACE.len()];
            its.read_exact(&mut preface).unwrap();
            assert_eq!(preface, PREFACE);
            longest_frame(&its)
        };
        let longest = runtime().unwrap().block_on(async {
            let _client = channel(tokio_stream(ours.into()).unwrap()).await.unwrap();
            // The preface is sent while the runtime waits.
            tokio::task::spawn_blocking(read).await.unwrap()
        });
        assert_eq!(longest, Some(MAX_FRAME));
    }

    #[test]
    fn a_method_or_a_service_that_does_not_exist_is_named_and_the_connection_goes_on() {
        let server = Server::start(Stack::Grpc).unwrap();
        let (ours, its) = UnixStream::pair().unwrap();
        server.serve(its.into()).unwrap();
        runtime().unwrap().block_on(async {
            let channel = channel(tokio_stream(ours.into()).unwrap()).await.unwrap();
            let mut grpc = Grpc::with_origin(channel, Uri::from_static(ORIGIN));
            let mut call = async |path: &'static str| {
                grpc.ready().await.unwrap();
                let request = tonic::Request::new(Message { value: 7 });
                let codec = ProstCodec::<Message, Message>::default();
                let path = hyper::http::uri::PathAndQuery::from_static(path);
                grpc.unary(request, path, codec).await
            };
            for _ in 0..2 {
                for path in ["/costof.rpc.Echo/NoSuch", "/NoSuch/EchoInt"] {
                    let status = call(path).await.unwrap_err();
                    assert_eq!(status.code(), tonic::Code::Unimplemented, "{path}: {status}");
                }
                let answer = call("/costof.rpc.Echo/EchoInt").await.unwrap();
                assert_eq!(answer.get_ref().value, 7);
            }
        });
    }
}
