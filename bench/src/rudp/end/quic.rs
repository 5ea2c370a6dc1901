//! Ends that use QUIC by quinn: one stream, quinn's own defaults, which means TLS 1.3,
//! CUBIC, and datagrams of up to 1,452 bytes.

use super::{MESSAGE_BYTES, RoleResult, print_address};
use crate::rudp::tally::Tally;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "peer";

fn run<T>(end: impl Future<Output = RoleResult<T>>) -> RoleResult<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(end)
}

pub(super) fn receive(at: SocketAddr, lasts: Duration) -> RoleResult<Tally> {
    run(async {
        let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let config = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key)?;
        let endpoint = Endpoint::server(config, at)?;
        print_address(endpoint.local_addr()?, &hex(own.cert.der()));
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

/// As much as goes, until it is ended, to who has this certificate.
pub(super) fn send(to: SocketAddr, certificate: &str) -> RoleResult<()> {
    run(async {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(bytes(certificate)?))?;
        let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        endpoint.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
        let connection = endpoint.connect(to, NAME)?.await?;
        let mut stream = connection.open_uni().await?;
        let message = vec![7; MESSAGE_BYTES];
        loop {
            stream.write_all(&message).await?;
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>, String> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).map_err(|error| error.to_string())?;
            u8::from_str_radix(pair, 16).map_err(|error| error.to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_read_as_it_was_printed() {
        assert_eq!(bytes(&hex(&[0, 255, 16])), Ok(vec![0, 255, 16]));
        assert!(bytes("0g").is_err());
    }
}
