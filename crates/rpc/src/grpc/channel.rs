//! tonic's channel over a connection that is there already.

use super::stream::Stream;
use super::wire::echo_client::EchoClient;
use crate::{Options, Socket};
use hyper_util::rt::TokioIo;
use std::future::ready;
use std::io::{self, ErrorKind};
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;

/// What calls go through.
pub(super) type Channel = tonic::transport::Channel;

/// A client over this socket and no other: a connection that breaks is not made again unseen.
///
/// # Errors
/// What the system says of the socket.
pub(super) async fn client(socket: Socket, options: &Options) -> io::Result<EchoClient<Channel>> {
    socket.set_nodelay()?;
    let mut stream = Some(TokioIo::new(Stream::new(socket)?));
    let connector = service_fn(move |_: Uri| {
        let gone = || io::Error::new(ErrorKind::NotConnected, "the connection is broken");
        ready(stream.take().ok_or_else(gone))
    });
    // The name says nothing: the connection is there.
    let endpoint = Endpoint::from_static("http://costof.invalid");
    let channel = endpoint.connect_with_connector(connector).await;
    let channel = channel.map_err(io::Error::other)?;
    Ok(EchoClient::new(channel)
        .max_decoding_message_size(options.message_most)
        .max_encoding_message_size(options.message_most))
}
