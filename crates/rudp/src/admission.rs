//! Decides which clients an endpoint accepts. Keeps no state for a client whose address is not
//! proven.

use crate::config::Config;
use crate::packet::{Handshake, Step};
use crate::time::Time;
use crate::token::{Client, TOKEN_LIFETIME, Token, TokenIssuer};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Which connections an endpoint accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// How accepted connections behave.
    pub config: Config,
    /// The largest number of connections, including those in their handshake and those that close.
    pub connections: usize,
    /// The largest number of connections from one IP address.
    pub connections_per_address: usize,
}

impl Default for Accept {
    fn default() -> Accept {
        Config::default().into()
    }
}

impl From<Config> for Accept {
    fn from(config: Config) -> Accept {
        Accept { config, connections: 1024, connections_per_address: 256 }
    }
}

#[derive(Debug)]
pub(crate) struct Admission {
    accept: Accept,
    tokens: TokenIssuer,
    /// By address and the id that the client chose.
    clients: BTreeMap<(SocketAddr, u64), State>,
    /// Tokens of ended connections that have not expired. They admit no client again (RFC 9000 section
    /// 8.1.4).
    used_tokens: VecDeque<(Time, SocketAddr, u64)>,
    accepted: usize,
    per_address: BTreeMap<IpAddr, usize>,
    retries: VecDeque<(SocketAddr, Handshake)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Connected { slot: u32, token_expires: Time },
    Ended,
}

/// What to do with a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The client already has this connection.
    Known(u32),
    /// It may connect. Its token expires at this time.
    Admitted(Time),
    Refused,
}

/// At most this many retries are queued; further clients get no answer.
const MAX_RETRIES_QUEUED: usize = 256;
/// At most this many used tokens are remembered; beyond that, no client is accepted.
const MAX_USED_TOKENS: usize = 1 << 16;

// A token outlives its connection by less than this, which bounds what is remembered.
const _: () = assert!(TOKEN_LIFETIME.as_secs() <= 60);

impl Admission {
    pub(crate) fn new(accept: Accept, key: [u8; 16]) -> Admission {
        Admission {
            accept,
            tokens: TokenIssuer::new(key),
            clients: BTreeMap::new(),
            used_tokens: VecDeque::new(),
            accepted: 0,
            per_address: BTreeMap::new(),
            retries: VecDeque::new(),
        }
    }

    pub(crate) fn hello(&mut self, now: Time, client: &Client, token: Option<Token>) -> Verdict {
        self.forget_expired(now);
        match self.clients.get(&(client.address, client.id)) {
            Some(State::Connected { slot, .. }) => return Verdict::Known(*slot),
            Some(State::Ended) => return Verdict::Refused,
            None => {}
        }
        let Some(expires) = token.and_then(|token| self.tokens.check(&token, now, client)) else {
            self.retry(now, client);
            return Verdict::Refused;
        };
        let same_address = self.per_address.get(&client.address.ip()).copied();
        let is_full = self.accepted >= self.accept.connections
            || same_address.unwrap_or(0) >= self.accept.connections_per_address
            || self.used_tokens.len() >= MAX_USED_TOKENS;
        if is_full { Verdict::Refused } else { Verdict::Admitted(expires) }
    }

    fn retry(&mut self, now: Time, client: &Client) {
        if self.retries.len() < MAX_RETRIES_QUEUED {
            let retry = Handshake {
                client: client.id,
                nonce: client.nonce,
                step: Step::Retry(self.tokens.issue(now, client)),
            };
            self.retries.push_back((client.address, retry));
        }
    }

    pub(crate) fn poll_retry(&mut self) -> Option<(SocketAddr, Handshake)> {
        self.retries.pop_front()
    }

    #[cfg(feature = "socket")]
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Records that an admitted client has this connection. Returns the configuration of the
    /// connection.
    pub(crate) fn connected(&mut self, client: &Client, slot: u32, token_expires: Time) -> Config {
        let state = State::Connected { slot, token_expires };
        self.clients.insert((client.address, client.id), state);
        self.accepted += 1;
        *self.per_address.entry(client.address.ip()).or_default() += 1;
        self.accept.config.clone()
    }

    /// Records that this client's connection has ended, if it had one.
    pub(crate) fn ended(&mut self, address: SocketAddr, id: u64, ended: u32) {
        let Some(state) = self.clients.get_mut(&(address, id)) else {
            return;
        };
        match *state {
            State::Connected { slot, token_expires } if slot == ended => {
                *state = State::Ended;
                // They expire in about this order, and each is kept no longer than a token is
                // valid.
                self.used_tokens.push_back((token_expires, address, id));
            }
            _ => return,
        }
        self.accepted -= 1;
        if let Some(count) = self.per_address.get_mut(&address.ip()) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address.ip());
            }
        }
    }

    fn forget_expired(&mut self, now: Time) {
        while let Some((expires, address, id)) = self.used_tokens.front().copied() {
            if now <= expires {
                return;
            }
            self.used_tokens.pop_front();
            self.clients.remove(&(address, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_admitted_while_too_many_used_tokens_are_remembered() {
        let now = Time::from_nanos(1);
        let address = "192.0.2.1:1".parse().unwrap();
        let mut admission = Admission::new(Accept::default(), [1; 16]);
        for id in 0..MAX_USED_TOKENS as u64 {
            admission.clients.insert((address, id), State::Ended);
            let used = (now + TOKEN_LIFETIME, address, id);
            admission.used_tokens.push_back(used);
        }
        let client = Client { address, id: MAX_USED_TOKENS as u64, nonce: 7 };
        let token = admission.tokens.issue(now, &client);
        let hello = |admission: &mut Admission, now| admission.hello(now, &client, Some(token));
        assert_eq!(hello(&mut admission, now), Verdict::Refused);
        // Expired tokens need not be remembered.
        admission.used_tokens[0].0 = now;
        let later = now + std::time::Duration::from_nanos(1);
        let admitted = Verdict::Admitted(now + TOKEN_LIFETIME);
        assert_eq!(hello(&mut admission, later), admitted);
        assert!(!admission.clients.contains_key(&(address, 0)));
        admission.connected(&client, 5, now + TOKEN_LIFETIME);
        assert_eq!(hello(&mut admission, later), Verdict::Known(5));
    }
}
