//! Two endpoints and the network between them, step by step in virtual time.

use crate::network::{Network, Path};
use rudp::{Accept, Config, Connection, ConnectionId, Endpoint, Event, Time};
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) ends: [End; 2],
    pub(crate) network: Network,
    buffer: Vec<u8>,
    /// How many datagrams leave in one go at most.
    pub(crate) batch: usize,
    /// The end whose events are not fetched.
    pub(crate) deaf: Option<usize>,
    /// How many events of an end are fetched before something leaves again.
    pub(crate) events: usize,
    /// Time does not move on beyond this.
    pub(crate) until: u64,
}

pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
}

/// Nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// The client's end and the server's.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

impl World {
    pub(crate) fn new(seed: u64, paths: [Path; 2], accept: Accept) -> World {
        let end = |which: u8, accept| {
            let mut secret = [which; 16];
            secret[..8].copy_from_slice(&seed.to_be_bytes());
            End {
                endpoint: Endpoint::new(secret, accept).expect("the configuration is sound"),
                address: (Ipv4Addr::new(192, 0, 2, which), 7000).into(),
            }
        };
        World {
            now: 1,
            ends: [end(1, None), end(2, Some(accept))],
            network: Network::new(seed, paths),
            buffer: Vec::new(),
            batch: 8,
            deaf: None,
            events: usize::MAX,
            until: u64::MAX,
        }
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    pub(crate) fn connect(&mut self, config: Config) -> ConnectionId {
        let (now, to) = (self.time(), self.ends[SERVER].address);
        let client = &mut self.ends[CLIENT].endpoint;
        client.connect(now, to, config).expect("the configuration is sound")
    }

    pub(crate) fn connection(&mut self, end: usize, id: ConnectionId) -> Option<&mut Connection> {
        self.ends[end].endpoint.connection(id)
    }

    /// The client's end of a connection that is open.
    pub(crate) fn client(&mut self, id: ConnectionId) -> &mut Connection {
        self.connection(CLIENT, id).expect("it is open")
    }

    pub(crate) fn close(&mut self, id: ConnectionId) {
        let now = self.time();
        self.client(id).close(now);
    }

    /// Runs until this time, or until nothing is to happen any more. The events of both ends.
    pub(crate) fn run(&mut self, until_ns: u64) -> Vec<(usize, ConnectionId, Event)> {
        let mut events = Vec::new();
        self.until = until_ns;
        while self.now < until_ns {
            self.take_events(|end, id, event| events.push((end, id, event)));
            if !self.advance() {
                break;
            }
        }
        events
    }

    /// Fetches events. Returns whether there may be more, since an end limits how many it returns
    /// at once.
    pub(crate) fn take_events(
        &mut self,
        mut handle: impl FnMut(usize, ConnectionId, Event),
    ) -> bool {
        let mut may_be_more = false;
        for (which, end) in self.ends.iter_mut().enumerate() {
            let mut left = self.events;
            while self.deaf != Some(which)
                && left > 0
                && let Some((id, event)) = end.endpoint.poll_event()
            {
                handle(which, id, event);
                left -= 1;
            }
            may_be_more |= left == 0;
        }
        may_be_more
    }

    /// Sends what both ends have to send.
    pub(crate) fn transmit_all(&mut self) {
        for end in [CLIENT, SERVER] {
            self.transmit(end);
        }
    }

    /// The same, then moves on to when something happens and lets it happen. Whether anything is
    /// still to happen.
    pub(crate) fn advance(&mut self) -> bool {
        self.transmit_all();
        let timers = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout());
        let next = timers.map(Time::as_nanos).chain(self.network.next_ns()).min();
        let Some(next) = next else {
            return false;
        };
        self.now = self.now.max(next.min(self.until));
        let now = self.time();
        while let Some(datagram) = self.network.receive(self.now) {
            let end = self.ends.iter_mut().find(|end| end.address == datagram.to);
            if let Some(end) = end {
                end.endpoint.handle_datagram(now, datagram.from, &datagram.bytes);
            }
        }
        for end in &mut self.ends {
            if end.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                end.endpoint.handle_timeout(now);
            }
        }
        true
    }

    fn transmit(&mut self, which: usize) {
        let now = self.time();
        let end = &mut self.ends[which];
        while let Some(transmit) =
            end.endpoint.poll_transmit(now, self.batch, 65_000, &mut self.buffer)
        {
            for datagram in self.buffer.chunks(transmit.datagram_bytes) {
                self.network.send(self.now, which, end.address, transmit.to, datagram);
            }
        }
    }
}
