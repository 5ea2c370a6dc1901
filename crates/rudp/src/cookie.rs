//! Proof that a client receives what is sent to its address, which the server
//! makes and checks without remembering anything (RFC 9000 section 8.1.2).
//!
//! A token is the time and SipHash-2-4 with 128 bits over that, the address and
//! what the client said of itself, under a key that only the server has.

use crate::time::Time;
use siphasher::sip128::SipHasher24;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a token is as good as new: time for a few lost packets.
pub(crate) const LIFETIME: Duration = Duration::from_secs(10);

/// When it was made, and the hash.
pub(crate) const TOKEN_LEN: usize = 24;
pub(crate) type Token = [u8; TOKEN_LEN];

#[derive(Debug)]
pub(crate) struct Cookies {
    key: [u8; 16],
}

impl Cookies {
    pub(crate) fn new(key: [u8; 16]) -> Cookies {
        Cookies { key }
    }

    /// The token for the client at this address that chose these numbers.
    pub(crate) fn issue(&self, now: Time, client: SocketAddr, id: u64, nonce: u64) -> Token {
        let hash = self.hash(now.as_nanos(), client, id, nonce);
        let mut token = [0; TOKEN_LEN];
        token[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        token[8..].copy_from_slice(&hash);
        token
    }

    /// Until when the token is good, if it was made for this client and still is.
    pub(crate) fn check(
        &self,
        token: &Token,
        now: Time,
        client: SocketAddr,
        id: u64,
        nonce: u64,
    ) -> Option<Time> {
        let (issued, hash) = token.split_first_chunk()?;
        let issued = u64::from_be_bytes(*issued);
        let good_until = Time::from_nanos(issued) + LIFETIME;
        let is_now = issued <= now.as_nanos() && now <= good_until;
        let expected = self.hash(issued, client, id, nonce);
        // Compared without a branch per byte, so that the time it takes tells nothing.
        let differs = expected
            .iter()
            .zip(hash)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        (is_now && differs == 0).then_some(good_until)
    }

    fn hash(&self, issued: u64, client: SocketAddr, id: u64, nonce: u64) -> [u8; 16] {
        let mut said = [0; 16 + 2 + 3 * 8];
        let address = match client.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        said[..16].copy_from_slice(&address.octets());
        said[16..18].copy_from_slice(&client.port().to_be_bytes());
        said[18..26].copy_from_slice(&issued.to_be_bytes());
        said[26..34].copy_from_slice(&id.to_be_bytes());
        said[34..].copy_from_slice(&nonce.to_be_bytes());
        SipHasher24::new_with_key(&self.key).hash(&said).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_client_and_for_a_while() {
        let cookies = Cookies::new([7; 16]);
        let client: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let other: SocketAddr = "192.0.2.1:4001".parse().unwrap();
        let at = Time::from_nanos(5_000_000_000);
        let token = cookies.issue(at, client, 1, 2);
        let good_until = Some(at + LIFETIME);
        assert_eq!(cookies.check(&token, at, client, 1, 2), good_until);
        assert_eq!(
            cookies.check(&token, at + LIFETIME, client, 1, 2),
            good_until
        );
        let late = at + LIFETIME + Duration::from_nanos(1);
        assert_eq!(cookies.check(&token, late, client, 1, 2), None);
        assert_eq!(cookies.check(&token, Time::default(), client, 1, 2), None);
        assert_eq!(cookies.check(&token, at, other, 1, 2), None);
        assert_eq!(cookies.check(&token, at, client, 2, 2), None);
        assert_eq!(cookies.check(&token, at, client, 1, 1), None);
        assert_eq!(Cookies::new([8; 16]).check(&token, at, client, 1, 2), None);
        for bit in 0..TOKEN_LEN * 8 {
            let mut forged = token;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cookies.check(&forged, at, client, 1, 2), None, "bit {bit}");
        }
    }
}
