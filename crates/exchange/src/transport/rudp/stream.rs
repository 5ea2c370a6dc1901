//! The library `rudp` with its own driver.

use super::{accepting, closed, connect};
use crate::rendezvous::{Listener, datagrams};
use crate::stream::{
    Datagrams, Incoming, MessageReceiver, MessageSender, Outgoing, SenderStatistics,
};
use crate::transport::{
    Accepted, Connected, Endpoint, STREAM_POLL_INTERVAL, Transport, WINDOW_BYTES, connect_datagrams,
};
use ::rudp::socket::Socket;
use ::rudp::{Config, ConnectionId, Control, Event, Stats};
use costof_os::net::random_loss;
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// At least this many bytes are queued, so that they can be sent in batches.
const MIN_QUEUED: u64 = 4 << 20;
/// The longest message.
const MAX_MESSAGE: usize = 4 << 20;
/// More messages than those bytes can hold.
const MESSAGES: u32 = 1 << 20;
/// The most messages in flight or queued: at 64 B each, they have as many bytes as should be queued.
const MAX_IN_FLIGHT: u64 = MIN_QUEUED / 64;
/// The receiver reads the connection's statistics after this many bytes. They do not include the last bytes,
/// because the connection ends with the transfer.
const STATISTICS_BYTES: usize = 16 << 10;
/// The shortest message counts as this many bytes there.
const MIN_STATISTICS_BYTES: usize = STATISTICS_BYTES / 64;

/// How long what has arrived may take to be read after the end.
const DRAIN: Duration = Duration::from_millis(100);
/// Nothing more has arrived after so many polls without an event.
const SILENT_POLLS: u32 = 8;

/// The library with this congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Rudp(pub Control);

impl Transport for Rudp {
    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted {
        Ok(Box::new(Receiver::new(datagrams::accept(listener, stop)?)?))
    }

    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected> {
        connect_datagrams(receiver, |socket, datagram| {
            let (socket, id) = connect(socket, config(self.0, datagram))?;
            Ok(Sender { socket, id, stats: Stats::default() })
        })
    }
}

struct Sender {
    socket: Socket,
    id: ConnectionId,
    stats: Stats,
}

fn config(control: Control, datagram_bytes: usize) -> Config {
    let window = u64::from(WINDOW_BYTES);
    Config {
        control,
        datagram_bytes,
        message_bytes: MAX_MESSAGE,
        window_bytes: window,
        queue_bytes: window,
        window_messages: MESSAGES,
        queue_messages: MESSAGES,
        ..Config::default()
    }
}

/// How many bytes are to be queued: some that can leave in batches, and always as many that were never sent
/// as are in flight. Where much is lost, most of what is queued waits to be acknowledged.
fn room(stats: &Stats) -> u64 {
    let queued = MIN_QUEUED.max(2 * stats.bytes_in_flight);
    let for_batches = queued.saturating_sub(stats.queued_bytes);
    let next_flight = stats.bytes_in_flight.saturating_sub(stats.unsent_bytes);
    let most = u64::from(WINDOW_BYTES).saturating_sub(stats.queued_bytes);
    for_batches.max(next_flight).min(most)
}

impl Sender {
    /// Queues as much as fits, given how many messages are acknowledged.
    fn fill(&mut self, outgoing: &mut Outgoing, acknowledged: u64) -> io::Result<()> {
        let connection = self.socket.connection(self.id).ok_or(ErrorKind::UnexpectedEof)?;
        let stats = connection.stats();
        let mut room = room(&stats);
        let size = outgoing.order.size as u64;
        // The number of short messages is limited.
        let most = acknowledged + MAX_IN_FLIGHT;
        while room >= size
            && outgoing.sent < most
            && let Some(message) = outgoing.next_message()
        {
            connection.send(message.to_vec()).map_err(io::Error::other)?;
            room -= size;
        }
        Ok(())
    }
}

impl MessageSender for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let size = outgoing.order.size as u64;
        let mut acknowledged = 0_u64;
        while !outgoing.is_over() {
            self.fill(outgoing, acknowledged)?;
            match self.socket.poll(Some(STREAM_POLL_INTERVAL))? {
                Some((_, Event::Acknowledged(number))) => {
                    acknowledged += 1;
                    outgoing.handle_arrived(number);
                    outgoing.record_if_due(acknowledged * size);
                }
                Some((_, Event::Closed(reason))) => return Err(closed(reason)),
                Some(_) => {}
                None => outgoing.record(acknowledged * size),
            }
        }
        let now = self.socket.now();
        if let Some(connection) = self.socket.connection(self.id) {
            self.stats = connection.stats();
            connection.abort(now, 0);
        }
        self.socket.poll(Some(Duration::ZERO)).map(drop)
    }

    fn statistics(&self) -> io::Result<SenderStatistics> {
        let sent = self.stats.packets_sent;
        Ok(SenderStatistics {
            retransmissions: self.stats.packets_lost as f64 / sent.max(1) as f64,
            datagrams: Some(sent),
        })
    }
}

struct Receiver {
    driver: Socket,
    /// The same socket, for the kernel's counts.
    socket: UdpSocket,
    id: Option<ConnectionId>,
    /// So many bytes until the statistics are read again.
    until_read: usize,
    stats: Stats,
}

impl Receiver {
    fn new(socket: UdpSocket) -> io::Result<Receiver> {
        let config = config(Control::default(), DATAGRAM_MAX_BYTES);
        Ok(Receiver {
            driver: accepting(socket.try_clone()?, config)?,
            socket,
            id: None,
            until_read: 0,
            stats: Stats::default(),
        })
    }

    /// Receives an event, and says whether there was one in this time.
    fn receive_one(&mut self, incoming: &mut Incoming, time: Duration) -> io::Result<bool> {
        let event = self.driver.poll(Some(time))?;
        let has_come = event.is_some();
        match event {
            Some((_, Event::Message(message))) => {
                incoming.handle_message(&message, true)?;
                let bytes = message.len().max(MIN_STATISTICS_BYTES);
                self.until_read = self.until_read.saturating_sub(bytes);
            }
            Some((from, Event::Connected)) => self.id = Some(from),
            Some(_) => {}
            None => {
                incoming.nothing_arrived()?;
                self.until_read = 0;
            }
        }
        // The connection will have ended when the receiver is stopped.
        if self.until_read == 0
            && let Some(connection) = self.id.and_then(|id| self.driver.connection(id))
        {
            self.stats = connection.stats();
            self.until_read = STATISTICS_BYTES;
        }
        Ok(has_come)
    }
}

impl MessageReceiver for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Acquire) {
            self.receive_one(incoming, STREAM_POLL_INTERVAL)?;
        }
        // What has arrived counts: the sender knows of it, and may have ended the transfer for that reason.
        let (end, mut silent) = (Instant::now() + DRAIN, 0);
        while silent < SILENT_POLLS && Instant::now() < end {
            let has_come = self.receive_one(incoming, Duration::ZERO)?;
            silent = if has_come { 0 } else { silent + 1 };
        }
        Ok(())
    }

    fn receive_singly(&self) -> io::Result<()> {
        random_loss::receive_singly(&self.socket)
    }

    fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        let arrived = self.stats.packets_received + self.stats.packets_duplicate;
        Datagrams::at(&self.socket, arrived).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::Over;
    use crate::stream::Order;
    use crate::transport::Parameters;
    use crate::transport::testing::{TOKEN, listen};

    /// As on a machine where the receiver gets no CPU until the sender is done.
    #[test]
    fn what_has_arrived_is_counted_after_the_end() {
        const ALL: u64 = 50;
        let (listener, address) = listen(Over::Udp);
        let sending = std::thread::spawn(move || {
            let parameters = Parameters::new();
            let at = Endpoint { address: &address, parameters: &parameters, token: TOKEN };
            let mut sender = Rudp(Control::default()).connect(&at).unwrap().sender;
            let mut outgoing = Outgoing::new(Order {
                size: 64,
                window: None,
                duration: Duration::from_secs(60),
                grace: Duration::ZERO,
                messages: Some(ALL),
                has_header: true,
            });
            outgoing.start();
            sender.send(&mut outgoing).unwrap();
        });
        let socket = datagrams::accept(&listener, &AtomicBool::new(false)).unwrap();
        let mut receiver = Receiver::new(socket).unwrap();
        let mut incoming = Incoming::new(64, None);
        // They arrive together, and the library has them all when it hands out the first.
        loop {
            match receiver.driver.poll(Some(Duration::from_secs(10))).unwrap() {
                Some((_, Event::Message(message))) => {
                    break incoming.handle_message(&message, true).unwrap();
                }
                event => assert!(event.is_some(), "no message arrives"),
            }
        }
        receiver.receive(&mut incoming, &AtomicBool::new(true)).unwrap();
        assert_eq!(incoming.bytes, ALL * 64);
        sending.join().unwrap();
    }

    #[test]
    fn there_is_always_a_next_flight_to_send_while_the_window_lasts() {
        // In MiB: in flight, waiting to be sent or acknowledged, never sent; how much is queued.
        let cases = [
            (0, 0, 0, 4),
            (1, 4, 3, 0),
            (3, 5, 2, 1),
            // Much is lost: most of it waits for its last piece.
            (3, 9, 0, 3),
            (3, 9, 3, 0),
            (20, 31, 0, 1),
        ];
        for (in_flight, queued, unsent, expected) in cases {
            let stats = Stats {
                bytes_in_flight: in_flight << 20,
                queued_bytes: queued << 20,
                unsent_bytes: unsent << 20,
                ..Stats::default()
            };
            assert_eq!(room(&stats), expected << 20, "{stats:?}");
        }
    }
}
