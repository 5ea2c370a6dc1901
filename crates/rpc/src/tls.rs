//! A key for one launch, with which a server of TLS or QUIC proves who it is. The client gets its public part from the
//! controller, and trusts no other. There is no certificate: between the two it would say nothing more.
//!
//! Source: RFC 7250, raw public keys in TLS.

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::{default_provider, sign::any_eddsa_type};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::UnixTime;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A server's configuration with a new key, and the public part of that in hexadecimal digits.
///
/// # Errors
/// The libraries'.
pub fn server() -> io::Result<(ServerConfig, String)> {
    let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| io::Error::other("the system gave no random bytes"))?;
    let pair =
        any_eddsa_type(&PrivatePkcs8KeyDer::from(pair.as_ref())).map_err(io::Error::other)?;
    let public = pair.public_key().ok_or(ErrorKind::Unsupported)?.to_vec();
    let digits = public.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = Arc::new(CertifiedKey::new(vec![public.into()], pair));
    let tls = ServerConfig::builder_with_details(default_provider().into(), Arc::new(Clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    Ok((tls, digits))
}

/// The configuration of a client that trusts the server with this public key, in hexadecimal digits.
///
/// # Errors
/// `InvalidData` if these are no such digits; the libraries'.
pub fn client(digits: &str) -> io::Result<ClientConfig> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let public: Option<Vec<u8>> = pairs.map(byte).collect();
    let public = public.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "not a key"))?;
    let tls = ClientConfig::builder_with_details(default_provider().into(), Arc::new(Clock))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusted(public)))
        .with_no_client_auth();
    Ok(tls)
}

/// The machine's clock, also where it is before 1970: rustls's own panics there. No key of ours expires.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Some(UnixTime::since_unix_epoch(since.unwrap_or_default()))
    }
}

/// The only public key that is trusted.
#[derive(Debug)]
struct Trusted(Vec<u8>);

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        offered: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match **offered == *self.0 {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("there is no TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        offered: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(offered.as_ref());
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
