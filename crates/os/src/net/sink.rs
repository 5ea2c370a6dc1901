//! TCP connections of which only the sender's half exists. The packets are discarded on the way,
//! and a separate thread acknowledges them, so that acknowledging takes no CPU time of the sender.
//!
//! They need a network namespace prepared for them: packets that leave through [`DEVICE`] are
//! dropped before anybody receives them, and packets sent through [`BACK`] arrive at [`DEVICE`].
//!
//! Source: RFC 9293 (TCP), RFC 7323 (scaled windows).

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::mpsc::{self, Receiver as Channel, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::net::network_device;
use crate::net::packet::{FrameSender, checksum, sum};
use crate::net::tcp_repair::{self, Sequence};
pub use crate::net::tcp_repair::{Receiver, in_flight};
use crate::sched::affinity;

/// The device that the sender's packets leave by.
pub const DEVICE: &str = "costof";
/// The device that acknowledgements come from.
pub const BACK: &str = "costof-back";

/// How often a thread that has nothing to acknowledge polls again at once, before it begins to sleep
/// between two polls: for about a millisecond.
const SPINS: u32 = 2000;
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// An acknowledgement without effect is considered lost after this time.
const LOST: Duration = Duration::from_millis(10);

/// A sender's sequence numbers begin so that each connection passes the end of 32 bits soon, and
/// not only those that send 4 GiB.
const SEQUENCE: Sequence = Sequence { sender: u32::MAX - 0xffff, receiver: 1 };

/// The receivers of such connections: a thread that acknowledges everything they send, until this is dropped.
/// It spins while something is sent, and sleeps in steps of 50 µs while nothing is.
#[derive(Debug)]
pub struct Acknowledger {
    flows: Option<Sender<Flow>>,
    thread: Option<JoinHandle<()>>,
}

impl Acknowledger {
    /// Starts the thread on these CPUs; without any, it inherits those of the caller.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without `CAP_NET_RAW` over the network namespace; ENODEV if the namespace is not
    /// prepared for it; `InvalidInput` if it may run on none of the CPUs.
    pub fn start(cpus: &[usize]) -> io::Result<Self> {
        let back = FrameSender::open(BACK)?;
        let (flows, coming) = mpsc::channel();
        let (pinned, is_pinned) = mpsc::channel();
        let cpus = cpus.to_vec();
        let thread = thread::Builder::new().name("acknowledger".to_owned()).spawn(move || {
            let pin = if cpus.is_empty() { Ok(()) } else { affinity::pin(&cpus) };
            let goes_on = pin.is_ok();
            // Whoever started it waits for this.
            let _ = pinned.send(pin);
            if goes_on {
                acknowledge(&coming, &back);
            }
        })?;
        is_pinned.recv().expect("the thread reports how it began")?;
        Ok(Self { flows: Some(flows), thread: Some(thread) })
    }

    /// A connection from an address of this machine to a receiver that is not there. It lasts until the
    /// acknowledger is dropped: what the stream has not sent by then is lost. The congestion control is set
    /// before the connection begins: a connection that began with BBR stays paced, whatever control it uses
    /// later.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` without `CAP_NET_ADMIN` over the network namespace; `InvalidInput` for an
    /// impossible window or segment size; those of connect(2) about the route; those of
    /// [`crate::net::socket::set_congestion_control`].
    pub fn connect(
        &self,
        from: Ipv4Addr,
        to: SocketAddrV4,
        receiver: Receiver,
        control: Option<&str>,
    ) -> io::Result<TcpStream> {
        let from = SocketAddrV4::new(from, 0);
        let stream = tcp_repair::establish(from, to, receiver, SEQUENCE, control)?;
        let flow = Flow::new(stream.try_clone()?, receiver)?;
        let flows = self.flows.as_ref().expect("it is not being dropped");
        flows.send(flow).map_err(|_| io::Error::other("the acknowledging thread has ended"))?;
        Ok(stream)
    }
}

impl Drop for Acknowledger {
    fn drop(&mut self) {
        self.flows = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has reported that.
            let _ = thread.join();
        }
    }
}

fn acknowledge(coming: &Channel<Flow>, back: &FrameSender) {
    let mut flows: Vec<Flow> = Vec::new();
    let mut idle_polls = 0;
    loop {
        match coming.try_recv() {
            Ok(flow) => flows.push(flow),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
        }
        let mut moved = false;
        for flow in &mut flows {
            moved |= flow.acknowledge(back);
        }
        idle_polls = if moved { 0 } else { idle_polls + 1 };
        if idle_polls > SPINS {
            thread::sleep(POLL_INTERVAL);
            for flow in &mut flows {
                flow.repeat_what_was_lost(back);
            }
        } else {
            std::hint::spin_loop();
        }
    }
}

/// One connection, as its receiver sees it.
#[derive(Debug)]
struct Flow {
    stream: TcpStream,
    acknowledgement: Acknowledgement,
    last: Instant,
}

impl Flow {
    fn new(stream: TcpStream, receiver: Receiver) -> io::Result<Self> {
        let acknowledgement = Acknowledgement::new(
            tcp_repair::addresses(&stream)?,
            (network_device::ethernet_address(DEVICE)?, network_device::ethernet_address(BACK)?),
            (receiver.window >> receiver.window_scale()) as u16,
        );
        let flow = Self { stream, acknowledgement, last: Instant::now() };
        // This shows before anything is sent whether the kernel supports the query.
        tcp_repair::sent(&flow.stream)?;
        Ok(flow)
    }

    /// Acknowledges what was sent since the last time. Returns whether there was anything.
    #[inline]
    fn acknowledge(&mut self, back: &FrameSender) -> bool {
        match tcp_repair::sent(&self.stream) {
            // The two numbers behind it are read one after the other, so it may also be lower than what is
            // already acknowledged.
            Ok(sent) if self.acknowledgement.is_before(sent) => {
                self.send(sent, back);
                true
            }
            _ => false,
        }
    }

    fn send(&mut self, number: u32, back: &FrameSender) {
        let before = self.acknowledgement.number();
        self.acknowledgement.set_number(number);
        if back.send(&self.acknowledgement.frame).is_err() {
            // The next poll tries again.
            self.acknowledgement.set_number(before);
        }
        self.last = Instant::now();
    }

    /// Repeats an acknowledgement that the sender still waits for: the packet was lost. The sender would take
    /// a duplicate for a sign of loss, so this is not done at once.
    fn repeat_what_was_lost(&mut self, back: &FrameSender) {
        let number = self.acknowledgement.number();
        if self.last.elapsed() > LOST
            && in_flight(&self.stream).is_ok_and(|bytes| bytes > 0)
            && tcp_repair::sent(&self.stream).is_ok_and(|sent| sent == number)
        {
            self.send(number, back);
        }
    }
}

/// Of Ethernet, IPv4 and TCP, without options.
const HEADERS: [usize; 3] = [14, 20, 20];
const IP: usize = HEADERS[0];
const TCP: usize = IP + HEADERS[1];
const FRAME: usize = TCP + HEADERS[2];
const CHECKSUM: usize = TCP + 16;
const NUMBER: usize = TCP + 8;

/// The frame of an acknowledgement; only the number and the checksum change.
#[derive(Clone, Debug)]
struct Acknowledgement {
    frame: [u8; FRAME],
    /// The sum of everything that does not change, not yet folded.
    sum: u32,
}

impl Acknowledgement {
    /// From the receiver to the sender, both given as (sender, receiver); the window is the value in the
    /// packet.
    fn new(
        (sender, receiver): (SocketAddrV4, SocketAddrV4),
        (sender_device, receiver_device): ([u8; 6], [u8; 6]),
        window: u16,
    ) -> Self {
        let mut frame = [0; FRAME];
        let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &sender_device);
        put(6, &receiver_device);
        put(12, &[0x08, 0x00]);
        // Version 4, five words, no service; the length; no identification, not to be cut into
        // fragments; 64 hops, TCP.
        put(IP, &[0x45, 0]);
        put(IP + 2, &((HEADERS[1] + HEADERS[2]) as u16).to_be_bytes());
        put(IP + 6, &[0x40, 0, 64, 6]);
        put(IP + 12, &receiver.ip().octets());
        put(IP + 16, &sender.ip().octets());
        put(TCP, &receiver.port().to_be_bytes());
        put(TCP + 2, &sender.port().to_be_bytes());
        put(TCP + 4, &SEQUENCE.receiver.to_be_bytes());
        // Five words; ACK.
        put(TCP + 12, &[0x50, 0x10]);
        put(TCP + 14, &window.to_be_bytes());
        let header = checksum(sum(&frame[IP..TCP]));
        frame[IP + 10..IP + 12].copy_from_slice(&header.to_be_bytes());
        // Addresses, protocol and length of TCP's pseudo-header.
        let sum = sum(&frame[IP + 12..FRAME]) + 6 + HEADERS[2] as u32;
        let mut acknowledgement = Self { frame, sum };
        acknowledgement.set_number(SEQUENCE.sender);
        acknowledgement
    }

    /// The sequence number that the receiver expects next.
    #[inline]
    fn number(&self) -> u32 {
        let bytes = &self.frame[NUMBER..NUMBER + 4];
        u32::from_be_bytes(bytes.try_into().expect("there are four"))
    }

    /// Whether this sequence number comes after its own, modulo 2³².
    #[inline]
    fn is_before(&self, number: u32) -> bool {
        number.wrapping_sub(self.number()).cast_signed() > 0
    }

    #[inline]
    fn set_number(&mut self, number: u32) {
        let number = number.to_be_bytes();
        self.frame[NUMBER..NUMBER + 4].copy_from_slice(&number);
        let checksum = checksum(self.sum + sum(&number));
        self.frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledgement() -> Acknowledgement {
        let sender = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 40_000);
        let receiver = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 9);
        Acknowledgement::new((sender, receiver), ([2; 6], [4; 6]), 0xffff)
    }

    #[test]
    fn checksums_hold_for_every_number() {
        let mut acknowledgement = acknowledgement();
        for number in [0, 1, 0xffff, 0x1_0000, 0xffff_0000, u32::MAX] {
            acknowledgement.set_number(number);
            assert_eq!(acknowledgement.number(), number);
            let frame = &acknowledgement.frame;
            assert_eq!(checksum(sum(&frame[IP..TCP])), 0);
            // With the pseudo-header: addresses, protocol, length.
            assert_eq!(checksum(sum(&frame[IP + 12..]) + 6 + 20), 0);
        }
    }

    #[test]
    fn numbers_come_after_one_another_in_a_circle() {
        let mut acknowledgement = acknowledgement();
        for (number, after, is_before) in [
            (0, 1, true),
            (1, 0, false),
            (7, 7, false),
            (u32::MAX, 0, true),
            (0, u32::MAX, false),
            (u32::MAX - 5, 1 << 30, true),
        ] {
            acknowledgement.set_number(number);
            assert_eq!(acknowledgement.is_before(after), is_before, "{number} {after}");
        }
    }

    #[test]
    fn an_acknowledgement_goes_from_the_receiver_to_the_sender() {
        let frame = acknowledgement().frame;
        assert_eq!(frame[..14], [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 0]);
        assert_eq!(frame[IP + 12..IP + 20], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(frame[TCP..TCP + 4], [0, 9, 0x9c, 0x40]);
        assert_eq!(frame[TCP + 13], 0x10);
    }
}
