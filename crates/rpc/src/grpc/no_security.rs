//! A build without TLS.

use std::io::{self, ErrorKind};
use tokio::net::TcpStream;

pub(super) fn own_key() -> io::Result<&'static str> {
    Err(ErrorKind::Unsupported.into())
}

pub(super) async fn accept(_: io::Result<TcpStream>) -> io::Result<TcpStream> {
    Err(ErrorKind::Unsupported.into())
}

pub(super) async fn connect(_: TcpStream, _: Option<&str>) -> io::Result<TcpStream> {
    Err(ErrorKind::Unsupported.into())
}
