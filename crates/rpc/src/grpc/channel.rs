//! What gRPC's calls go through: HTTP/2 by hyper over a connection that is there already, as
//! tonic's own channel has it, without what that puts before it for connections that come and go (a
//! queue and a task, which each call would pass).

use super::gathering::Gathering;
use super::stream::Stream;
use super::wire::echo_client::EchoClient;
use crate::{Options, Socket};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tower::Service;

/// One connection.
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

/// What the server is called: the connection is there, and asks for no name.
const ORIGIN: &str = "http://costof.invalid";

/// A client over this socket and no other: a connection that breaks is not made again unseen. Within
/// the runtime that it is to be of.
///
/// # Errors
/// What the system says of the socket.
pub(super) async fn client(socket: Socket, options: &Options) -> io::Result<EchoClient<Channel>> {
    let channel = channel(socket).await?;
    Ok(EchoClient::with_origin(channel, Uri::from_static(ORIGIN))
        .max_decoding_message_size(options.message_most)
        .max_encoding_message_size(options.message_most))
}

async fn channel(socket: Socket) -> io::Result<Channel> {
    socket.set_nodelay()?;
    let io = TokioIo::new(Gathering::new(Stream::new(socket)?));
    let mut http2 = Builder::new(TokioExecutor::new());
    let handshake = http2.timer(TokioTimer::new()).handshake(io).await;
    let (requests, connection) = handshake.map_err(io::Error::other)?;
    // Calls are told what it ends with.
    tokio::spawn(connection);
    Ok(Channel { requests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RpcError;
    use crate::grpc::errors::failed;
    use crate::grpc::{Server, runtime};
    use std::os::unix::net::UnixStream;
    use tonic::client::Grpc;
    use tonic_prost::ProstCodec;

    type Message = crate::grpc::wire::IntMessage;

    #[test]
    fn a_method_or_a_service_that_does_not_exist_is_named_and_the_connection_goes_on() {
        let options = Options::default();
        let server = Server::start(None, &options).unwrap();
        let (ours, its) = UnixStream::pair().unwrap();
        server.serve(its.into()).unwrap();
        runtime().unwrap().block_on(async {
            let channel = channel(ours.into()).await.unwrap();
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
                    let error = failed(&status, &options);
                    assert!(
                        matches!(error, RpcError::NoSuchMethod(_)),
                        "{path}: {error:?}"
                    );
                }
                let answer = call("/costof.rpc.Echo/EchoInt").await.unwrap();
                assert_eq!(answer.get_ref().value, 7);
            }
        });
    }
}
