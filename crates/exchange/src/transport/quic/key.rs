//! QUIC's ends with the keys of [`costof_rpc::tls`].

use costof_rpc::tls;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig};
use std::io;
use std::sync::Arc;

/// A receiver with a new key, and the public part of that in hexadecimal digits.
///
/// # Errors
/// The libraries'.
pub fn server() -> io::Result<(ServerConfig, String)> {
    let (tls, digits) = tls::server()?;
    let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    Ok((ServerConfig::with_crypto(Arc::new(tls)), digits))
}

/// A sender that trusts the receiver with this public key, in hexadecimal digits.
///
/// # Errors
/// `InvalidData` if these are no such digits; the libraries'.
pub fn client(digits: &str) -> io::Result<ClientConfig> {
    let tls = QuicClientConfig::try_from(tls::client(digits)?).map_err(io::Error::other)?;
    Ok(ClientConfig::new(Arc::new(tls)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::Endpoint;
    use std::io::ErrorKind;

    #[test]
    fn no_other_key_is_trusted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let ((own, key), (_, another)) = (server().unwrap(), server().unwrap());
            let receiver = Endpoint::server(own, ([127, 0, 0, 1], 0).into()).unwrap();
            let to = receiver.local_addr().unwrap();
            tokio::spawn(async move {
                while let Some(incoming) = receiver.accept().await {
                    let _ = incoming.await;
                }
            });
            let sender = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
            let connect = |key: &str| sender.connect_with(client(key).unwrap(), to, "any");
            connect(&another).unwrap().await.unwrap_err();
            connect(&key).unwrap().await.unwrap();
        });
        assert_eq!(client("0g").unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
