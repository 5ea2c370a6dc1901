//! Ends that use QUIC by quinn: one stream, quinn's own defaults, which means TLS 1.3,
//! CUBIC, and datagrams of up to 1,452 bytes.

use super::{MESSAGE_BYTES, RoleResult, print_address};
use crate::rudp::tally::Tally;
use costof_exchange::transport::quic::key;
use quinn::Endpoint;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const NAME: &str = "peer";

fn run<T>(end: impl Future<Output = RoleResult<T>>) -> RoleResult<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(end)
}

pub(super) fn receive(at: SocketAddr, lasts: Duration) -> RoleResult<Tally> {
    run(async {
        let (config, key) = key::server()?;
        let endpoint = Endpoint::server(config, at)?;
        print_address(endpoint.local_addr()?, &key);
        let mut tally = Tally::new();
        let connection = endpoint.accept().await.ok_or("nobody came")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut buffer = vec![0; 4 * MESSAGE_BYTES];
        while let Some(left) = tally.left(lasts) {
            match tokio::time::timeout(left, stream.read(&mut buffer)).await {
                Ok(Ok(Some(bytes))) => tally.add(bytes),
                Ok(Ok(None)) => return Err("the sender ended first".into()),
                Ok(Err(error)) => return Err(error.into()),
                // The time is over.
                Err(_) => {}
            }
        }
        Ok(tally)
    })
}

/// As much as goes, until it is ended, to who has this key.
pub(super) fn send(to: SocketAddr, key: &str) -> RoleResult<()> {
    run(async {
        let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        endpoint.set_default_client_config(key::client(key)?);
        let connection = endpoint.connect(to, NAME)?.await?;
        let mut stream = connection.open_uni().await?;
        let message = vec![7; MESSAGE_BYTES];
        loop {
            stream.write_all(&message).await?;
        }
    })
}
