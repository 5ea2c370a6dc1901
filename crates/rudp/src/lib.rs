//! Reliable messages over UDP.
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
//! let mut came = Vec::new();
//! let mut is_closed = false;
//! while !is_closed {
//!     // What one end sends the other one gets.
//!     while client.poll_transmit(now, 1, &mut datagrams).is_some() {
//!         server.handle_datagram(now, here, &datagrams);
//!     }
//!     while server.poll_transmit(now, 1, &mut datagrams).is_some() {
//!         client.handle_datagram(now, there, &datagrams);
//!     }
//!     while let Some((_, event)) = server.poll_event() {
//!         if let Event::Message(message) = event {
//!             came.push(message);
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
//! assert_eq!(came, [b"hello"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod connection;
mod control;
mod cookie;
mod endpoint;
mod event;
mod frame;
mod pacing;
mod packet;
mod ranges;
mod reassembly;
mod received;
mod recovery;
mod rtt;
mod send;
mod stats;
mod time;
mod wire;

pub use config::{Config, ConfigError, Control};
pub use connection::Connection;
pub use endpoint::{Accept, ConnectionId, Endpoint, Transmit};
pub use event::{Event, MessageId, Reason, SendError};
pub use stats::Stats;
pub use time::Time;
