//! Address validation: a token proves that a client receives what is sent to its address. The server
//! issues and checks it without keeping state (RFC 9000 section 8.1.2).
//!
//! A token is the time and SipHash-2-4 with 128 bits over the time, the client's address and the
//! numbers that it chose, under a key that only the server has.

use crate::time::Time;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Long enough for a few lost packets.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_secs(10);

/// When it was issued, and the hash.
const TOKEN_LEN: usize = 24;
pub(crate) type Token = [u8; TOKEN_LEN];

/// A client as its hello describes it: its address, and the numbers that it chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) id: u64,
    pub(crate) nonce: u64,
}

#[derive(Debug)]
pub(crate) struct TokenIssuer {
    key: [u8; 16],
}

impl TokenIssuer {
    pub(crate) fn new(key: [u8; 16]) -> TokenIssuer {
        TokenIssuer { key }
    }

    pub(crate) fn issue(&self, now: Time, client: &Client) -> Token {
        let mut token = [0; TOKEN_LEN];
        token[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        token[8..].copy_from_slice(&self.hash(now.as_nanos(), client));
        token
    }

    /// When the token expires, if it was issued to this client and is still valid.
    pub(crate) fn check(&self, token: &Token, now: Time, client: &Client) -> Option<Time> {
        let (issued, hash) = token.split_first_chunk()?;
        let issued = u64::from_be_bytes(*issued);
        let expires = Time::from_nanos(issued) + TOKEN_LIFETIME;
        let is_current = issued <= now.as_nanos() && now <= expires;
        let expected = self.hash(issued, client);
        // Compared without a branch per byte, so that the time it takes reveals nothing.
        let pairs = expected.iter().zip(hash);
        let difference = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
        (is_current && difference == 0).then_some(expires)
    }

    fn hash(&self, issued: u64, client: &Client) -> [u8; 16] {
        let address = match client.address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(&address.octets());
        hasher.write(&client.address.port().to_be_bytes());
        for number in [issued, client.id, client.nonce] {
            hasher.write(&number.to_be_bytes());
        }
        hasher.finish128().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_client_and_for_a_while() {
        let tokens = TokenIssuer::new([7; 16]);
        let client = Client { address: "192.0.2.1:4000".parse().unwrap(), id: 1, nonce: 2 };
        let address = "192.0.2.1:4001".parse().unwrap();
        let at = Time::from_nanos(5_000_000_000);
        let token = tokens.issue(at, &client);
        let expires = at + TOKEN_LIFETIME;
        let late = expires + Duration::from_nanos(1);
        for (now, is_good) in [(at, true), (expires, true), (late, false)] {
            let expected = is_good.then_some(expires);
            assert_eq!(tokens.check(&token, now, &client), expected);
        }
        assert_eq!(tokens.check(&token, Time::default(), &client), None);
        for other in [
            Client { address, ..client },
            Client { id: 2, ..client },
            Client { nonce: 1, ..client },
        ] {
            assert_eq!(tokens.check(&token, at, &other), None, "{other:?}");
        }
        let stranger = TokenIssuer::new([8; 16]);
        assert_eq!(stranger.check(&token, at, &client), None);
        for bit in 0..TOKEN_LEN * 8 {
            let mut forged = token;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tokens.check(&forged, at, &client), None, "bit {bit}");
        }
    }
}
