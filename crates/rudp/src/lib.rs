//! Reliable messages over UDP, for trusted networks.
//!
//! Messages of up to 16 MiB are delivered once and unchanged, in order or as they arrive, or
//! they are reported as undeliverable. Links may lose, duplicate, reorder and damage packets.
//! Nothing is encrypted.
//!
//! The protocol is a state machine without socket, clock, thread or randomness. Datagrams, the time
//! and a secret are its inputs; datagrams, events and the time of the next timeout are its outputs.
//! So it runs over any socket, and in virtual time over a simulated network (`tests/simulation`).
//!
//! | | |
//! |---|---|
//! | [`Endpoint`] | many [connections](Connection) over one socket: [`connect`](Endpoint::connect), [`handle_datagram`](Endpoint::handle_datagram), [`handle_timeout`](Endpoint::handle_timeout), [`poll_transmit`](Endpoint::poll_transmit), [`poll_timeout`](Endpoint::poll_timeout), [`poll_event`](Endpoint::poll_event) |
//! | [`Connection`] | [`send`](Connection::send), [`close`](Connection::close), [`abort`](Connection::abort), [`stats`](Connection::stats) |
//! | [`Config`] | order, windows, timeouts, and the [`Control`] of the rate |
//! | [`Event`] | what happened |
//! | [`socket`] | an endpoint over a UDP socket, driven by the thread that calls it |
//! | [`study`] | the much simpler protocol that this one is measured against |
//!
//! # How it works
//!
//! - **The handshake** takes two round trips. The first proves the client's address by a token
//!   that the server issues and checks without keeping state (RFC 9000 section 8.1.2). A stranger
//!   costs it one hash, and gets no more bytes than it sent.
//! - **Recovery** follows RFC 9002: a packet number for every transmission, acknowledged ranges,
//!   packet and time thresholds, probe timeouts. The thresholds grow when a packet that was
//!   declared lost arrives. A retransmission is sent a second time while nothing else is to be
//!   sent, since a second loss would cost a second round trip.
//! - **Flow control** grants credit in bytes and in messages, as the caller takes messages. This
//!   bounds the memory of a connection.
//! - **Closing** by either end closes both. All messages that either end has queued arrive and are
//!   acknowledged first.
//! - A packet that is damaged, forged, from an older connection or against the rules changes
//!   nothing. A tag in every packet detects the first three.
//!
//! # Example
//!
//! Two ends, and a network that is a loop:
//!
//! ```
//! use rudp::{Accept, Config, Endpoint, Event, Reason, Time};
//!
//! let (here, there) = ("192.0.2.1:1".parse()?, "192.0.2.2:2".parse()?);
//! let mut client = Endpoint::new([1; 16], None)?;
//! let mut server = Endpoint::new([2; 16], Some(Accept::default()))?;
//! let mut now = Time::from_nanos(0);
//! let connection = client.connect(now, there, Config::default())?;
//! let mut datagrams = Vec::new();
//! let mut received = Vec::new();
//! let mut is_closed = false;
//! while !is_closed {
//!     // Deliver what each end sends.
//!     while client.poll_transmit(now, 1, 1500, &mut datagrams).is_some() {
//!         server.handle_datagram(now, here, &datagrams);
//!     }
//!     while server.poll_transmit(now, 1, 1500, &mut datagrams).is_some() {
//!         client.handle_datagram(now, there, &datagrams);
//!     }
//!     while let Some((_, event)) = server.poll_event() {
//!         if let Event::Message(message) = event {
//!             received.push(message);
//!         }
//!     }
//!     while let Some((_, event)) = client.poll_event() {
//!         match event {
//!             Event::Connected => {
//!                 let connection = client.connection(connection).expect("it was not closed");
//!                 connection.send(b"hello".to_vec())?;
//!                 connection.close(now);
//!             }
//!             Event::Closed(reason) => is_closed = reason == Reason::Finished,
//!             _ => {}
//!         }
//!     }
//!     // Nothing else happens before one of these.
//!     if let Some(next) = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten().min() {
//!         now = now.max(next);
//!         client.handle_timeout(now);
//!         server.handle_timeout(now);
//!     }
//! }
//! assert_eq!(received, [b"hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod config;
mod connection;
mod control;
mod endpoint;
mod event;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
#[path = "tests/fuzzing.rs"]
pub mod fuzzing;
mod outcome;
mod pacing;
mod packet;
mod range_set;
mod reassembly;
mod received;
mod recovery;
mod rtt;
mod schedule;
mod send;
#[cfg(feature = "socket")]
pub mod socket;
mod stats;
pub mod study;
mod time;
mod token;
mod wire;

pub use admission::Accept;
pub use config::{Config, ConfigError, Control};
pub use connection::{Connection, Transmit};
pub use endpoint::{ConnectionId, Endpoint};
pub use event::{Event, MessageId, Reason, SendError};
pub use stats::Stats;
pub use time::Time;
