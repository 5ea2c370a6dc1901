//! TLS below HTTP/2, with a key that this process makes for itself.

use crate::tls;
use rustls::pki_types::ServerName;
use std::io::{self, ErrorKind};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// How this process accepts, and the public part of its key.
fn own() -> io::Result<&'static (TlsAcceptor, String)> {
    static OWN: OnceLock<(TlsAcceptor, String)> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(own);
    }
    let (config, key) = tls::server()?;
    Ok(OWN.get_or_init(|| (Arc::new(config).into(), key)))
}

pub(super) fn own_key() -> io::Result<&'static str> {
    Ok(&own()?.1)
}

pub(super) async fn accept(
    stream: io::Result<TcpStream>,
) -> io::Result<server::TlsStream<TcpStream>> {
    own()?.0.accept(stream?).await
}

pub(super) async fn connect(
    stream: TcpStream,
    key: Option<&str>,
) -> io::Result<client::TlsStream<TcpStream>> {
    let missing = || io::Error::new(ErrorKind::InvalidData, "the server offered no key");
    let config = tls::client(key.ok_or_else(missing)?)?;
    // A name that nobody resolves.
    let name = ServerName::try_from("costof").map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}
