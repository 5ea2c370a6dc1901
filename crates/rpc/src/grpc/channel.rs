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

/// A client over this socket and no other: a connection that breaks is not made again unseen. Within
/// the runtime that it is to be of.
///
/// # Errors
/// What the system says of the socket.
pub(super) async fn client(socket: Socket, options: &Options) -> io::Result<EchoClient<Channel>> {
    socket.set_nodelay()?;
    let io = TokioIo::new(Gathering::new(Stream::new(socket)?));
    let mut http2 = Builder::new(TokioExecutor::new());
    let handshake = http2.timer(TokioTimer::new()).handshake(io).await;
    let (requests, connection) = handshake.map_err(io::Error::other)?;
    // Calls are told what it ends with.
    tokio::spawn(connection);
    // The name says nothing: the connection is there.
    let origin = Uri::from_static("http://costof.invalid");
    Ok(EchoClient::with_origin(Channel { requests }, origin)
        .max_decoding_message_size(options.message_most)
        .max_encoding_message_size(options.message_most))
}
