//! Measured: where a message is on its way, by the kernel's software timestamps.
//!
//! The kernel stamps a packet with `CLOCK_REALTIME` when it enters the queue discipline (SCHED),
//! when the driver is given it (SND), and when the receiving stack gets one (RX). The first two
//! come back through the socket's error queue, each with two control messages: the stamp, and which
//! one it is of which message. Messages are numbered by count on UDP and by bytes on TCP. Stamps
//! are switched on for the machine by a kernel thread, a while after the first socket asks for them:
//! the first packets have none. Where threads of SCHED_IDLE keep the processors busy, that thread
//! was seen to take many seconds, so [`SwitchedOn`] comes before those.
//!
//! All stamps of [`Stages`] are of this host's clock: nothing is told of the other end.
//!
//! Source: Linux Documentation/networking/timestamping.rst. `SOF_TIMESTAMPING_TX_SCHED` since Linux
//! 3.17, `OPT_TSONLY` since 4.0.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::conversation::{Conversation, Wait};
use crate::meeting::{self, Over, is_passing};
use crate::socket_option;

/// Control messages of a datagram or an error: a stamp of three times, an error with an address.
const CONTROL_WORDS: usize = 64;
/// How often a receive that waits looks for an answer, a twentieth of a second each.
const LOOKS: u32 = 20;
/// How often a spinning one tries, which takes about as long.
const TRIES: u32 = 2_000_000;
/// The kernel's origin of errors that are none but stamps (linux/errqueue.h).
const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
const SCM_TSTAMP_SND: u32 = 0;
const SCM_TSTAMP_SCHED: u32 = 1;

/// When a message was where, in nanoseconds of `CLOCK_REALTIME`, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Before it was sent.
    pub asked: u64,
    /// When its last packet entered the queue discipline.
    pub scheduled: u64,
    /// When its last packet was given to the driver.
    pub handed_over: u64,
    /// When the answer's last packet was received.
    pub received: u64,
    /// When all of the answer was here.
    pub answered: u64,
}

/// Has the kernel stamp packets as long as it exists, whatever other sockets ask for.
#[derive(Debug)]
pub struct SwitchedOn {
    _socket: UdpSocket,
}

impl SwitchedOn {
    /// Waits until packets are stamped, which it sees by some that it sends to itself.
    ///
    /// # Errors
    ///
    /// `TimedOut` where they are not within this time; what the calls on a socket of the loopback
    /// device say, such as ENETUNREACH where that is down.
    pub fn within(time: Duration) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        stamp(
            socket.as_fd(),
            libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE,
        )?;
        let until = Instant::now() + time;
        let mut control = [0; CONTROL_WORDS];
        while Instant::now() < until {
            socket.send(&[0])?;
            match receive(socket.as_fd(), &mut [0], &mut control, 0) {
                Ok((_, length)) if stamp_in(control_bytes(&control, length)).is_some() => {
                    return Ok(Self { _socket: socket });
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Asks the other end of a conversation, with stamps.
#[derive(Debug)]
pub struct Stamper {
    conversation: Conversation,
    over: Over,
    wait: Wait,
    number: u64,
    /// How the kernel numbers the next message: its last byte, or the datagram.
    key: u32,
    control: Box<[u64; CONTROL_WORDS]>,
}

impl Stamper {
    /// Has the socket of a conversation, all of whose messages are answered, stamp what follows.
    ///
    /// # Errors
    ///
    /// EINVAL where the kernel has no such stamps, or the socket is no UDP or TCP one.
    pub fn new(conversation: Conversation, over: Over, wait: Wait) -> io::Result<Self> {
        if let (Over::Udp, Some(peer)) = (over, conversation.peer()?) {
            meeting::connect_only_to(conversation.socket(), &peer)?;
        }
        let flags: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_SCHED
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        stamp(conversation.socket(), flags)?;
        Ok(Self {
            conversation,
            over,
            wait,
            number: 0,
            key: 0,
            control: Box::new([0; CONTROL_WORDS]),
        })
    }

    /// A message there and its answer back, as [`Conversation::ask`] has them, and when each was
    /// where. None where no answer came within a second, or not all stamps did.
    ///
    /// # Errors
    ///
    /// What send(2) and recvmsg(2) say; `UnexpectedEof` where the other end has closed,
    /// `InvalidData` where the answer is not to the message.
    pub fn ask(&mut self, message: &mut [u8], answer: &mut [u8]) -> io::Result<Option<Stages>> {
        self.number += 1;
        let length = message.len().min(size_of::<u64>());
        message[..length].copy_from_slice(&self.number.to_le_bytes()[..length]);
        let asked = now_ns();
        self.conversation.send(message)?;
        let received = loop {
            let received = self.receive(answer)?;
            if received.is_none() || answer[..length] == message[..length] {
                break received;
            }
            if self.over != Over::Udp {
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        let answered = now_ns();
        let key = match self.over {
            Over::Udp => self.key,
            _ => self.key.wrapping_add(message.len() as u32 - 1),
        };
        let (scheduled, handed_over) = self.sent_stamps(key)?;
        self.key = key.wrapping_add(1);
        let (Some(Some(received)), Some(scheduled), Some(handed_over)) =
            (received, scheduled, handed_over)
        else {
            return Ok(None);
        };
        let stages = Stages {
            asked,
            scheduled,
            handed_over,
            received,
            answered,
        };
        // Whoever sets the clock in between spoils it.
        Ok(stages.are_ascending().then_some(stages))
    }

    /// A whole answer, and the stamp of the last part of it. None where none came.
    fn receive(&mut self, answer: &mut [u8]) -> io::Result<Option<Option<u64>>> {
        let (flags, most) = match self.wait {
            Wait::Block => (0, LOOKS),
            Wait::Spin => (libc::MSG_DONTWAIT, TRIES),
        };
        let (mut filled, mut stamp, mut tries) = (0, None, 0);
        while filled < answer.len() {
            let socket = self.conversation.socket();
            match receive(socket, &mut answer[filled..], &mut self.control, flags) {
                Ok((0, _)) if self.over != Over::Udp => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                // A datagram that is none of these answers.
                Ok((length, _)) if self.over == Over::Udp && length != answer.len() => {}
                Ok((length, control)) => {
                    filled += length;
                    stamp = stamp_in(control_bytes(&self.control, control));
                }
                Err(error) if is_passing(&error) => {
                    tries += 1;
                    if tries == most {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(stamp))
    }

    /// When the message of this key was scheduled and handed over, emptying the error queue.
    fn sent_stamps(&mut self, key: u32) -> io::Result<(Option<u64>, Option<u64>)> {
        let (mut scheduled, mut handed_over) = (None, None);
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        loop {
            match receive(
                self.conversation.socket(),
                &mut [],
                &mut self.control,
                flags,
            ) {
                Ok((_, control)) => {
                    let control = control_bytes(&self.control, control);
                    match (event_in(control), stamp_in(control)) {
                        (Some((SCM_TSTAMP_SCHED, of)), Some(ns)) if of == key => {
                            scheduled.get_or_insert(ns);
                        }
                        // The first, where it was sent again.
                        (Some((SCM_TSTAMP_SND, of)), Some(ns)) if of == key => {
                            handed_over.get_or_insert(ns);
                        }
                        _ => {}
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((scheduled, handed_over));
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Stages {
    fn are_ascending(&self) -> bool {
        [
            self.asked,
            self.scheduled,
            self.handed_over,
            self.received,
            self.answered,
        ]
        .is_sorted()
    }
}

/// Has a socket's packets stamped.
fn stamp(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let option = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    socket_option::set(socket, option, &[flags])
}

/// `CLOCK_REALTIME` in nanoseconds, without a system call where the vDSO has it.
fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// recvmsg(2): how many bytes came, and how many of control messages.
fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    control: &mut [u64; CONTROL_WORDS],
    flags: i32,
) -> io::Result<(usize, usize)> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all of msghdr may be zero: no address, no buffers.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control) as _;
    // SAFETY: the header names one buffer and the control words, with their true lengths, and all
    // of them outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    Ok((received, header.msg_controllen as usize))
}

/// The first bytes of the control words.
fn control_bytes(words: &[u64; CONTROL_WORDS], length: usize) -> &[u8] {
    // SAFETY: the words are as many bytes, and any byte may be read.
    let bytes =
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) };
    &bytes[..length.min(bytes.len())]
}

/// The control messages: level, type and data of each (cmsg(3)).
fn messages(mut control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    const HEADER: usize = 16;
    std::iter::from_fn(move || {
        let length = u64::from_ne_bytes(*control.first_chunk()?) as usize;
        let level = i32::from_ne_bytes(control.get(8..12)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(control.get(12..16)?.try_into().ok()?);
        let data = control.get(HEADER..length)?;
        control = control.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        Some((level, kind, data))
    })
}

/// The software stamp among the control messages, which is the first of three.
fn stamp_in(control: &[u8]) -> Option<u64> {
    let (_, _, data) = messages(control)
        .find(|(level, kind, _)| (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING))?;
    let seconds = i64::from_ne_bytes(*data.first_chunk()?);
    let nanoseconds = i64::from_ne_bytes(*data.get(8..)?.first_chunk()?);
    let ns = u64::try_from(
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(nanoseconds)?,
    )
    .ok()?;
    (ns > 0).then_some(ns)
}

/// Which stamp of which message the control messages tell of (struct `sock_extended_err`).
fn event_in(control: &[u8]) -> Option<(u32, u32)> {
    let (_, _, data) = messages(control).find(|(level, kind, _)| {
        matches!(
            (*level, *kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        )
    })?;
    let word = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    (*data.get(4)? == SO_EE_ORIGIN_TIMESTAMPING).then_some((word(8)?, word(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::is_end;
    use crate::meeting::Listener;
    use std::sync::atomic::AtomicBool;

    const TOKEN: &[u8] = b"0123456789abcdef";

    #[test]
    fn every_stage_of_a_message_is_stamped_on_loopback() {
        // Other tests keep processors awake, for a moment each.
        let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
        for over in [Over::Tcp, Over::Udp] {
            for (wait, size) in [(Wait::Block, 56), (Wait::Spin, 1), (Wait::Block, 60_000)] {
                let listener =
                    Listener::open(over, Ipv4Addr::LOCALHOST.into(), (0, 0), 1, TOKEN).unwrap();
                let address = listener.address().unwrap();
                let server = std::thread::spawn(move || {
                    let stop = AtomicBool::new(false);
                    let mut conversation = Conversation::accept(&listener, wait, &stop).unwrap();
                    let mut message = vec![0; size];
                    loop {
                        match conversation.receive(&mut message) {
                            Ok(true) => conversation.send(&message).unwrap(),
                            Ok(false) => {}
                            Err(error) => return assert!(is_end(&error), "{error}"),
                        }
                    }
                });
                let conversation = Conversation::call(over, &address, wait, TOKEN).unwrap();
                let mut stamper = Stamper::new(conversation, over, wait).unwrap();
                let (mut message, mut answer) = (vec![7; size], vec![0; size]);
                let mut complete = 0;
                for _ in 0..100 {
                    let stages = stamper.ask(&mut message, &mut answer).unwrap();
                    assert_eq!(answer, message);
                    complete += u32::from(stages.is_some());
                }
                assert!(complete > 50, "{over:?} {wait:?} {size}: {complete} of 100");
                drop(stamper);
                server.join().unwrap();
            }
        }
    }

    #[test]
    fn control_messages_that_are_cut_or_strange_are_none() {
        let message = |level: i32, kind: i32, data: &[u8]| {
            let mut bytes = (16 + data.len() as u64).to_ne_bytes().to_vec();
            bytes.extend(level.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let mut stamp = 3_i64.to_ne_bytes().to_vec();
        stamp.extend(7_i64.to_ne_bytes());
        let mut event = vec![0, 0, 0, 0, SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 0];
        event.extend(SCM_TSTAMP_SCHED.to_ne_bytes());
        event.extend(42_u32.to_ne_bytes());
        let mut control = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamp);
        control.extend(message(libc::SOL_IP, libc::IP_RECVERR, &event));
        assert_eq!(stamp_in(&control), Some(3_000_000_007));
        assert_eq!(event_in(&control), Some((SCM_TSTAMP_SCHED, 42)));
        for length in 0..control.len() {
            let cut = &control[..length];
            assert!(event_in(cut).is_none(), "{length}");
            assert!(length >= 32 || stamp_in(cut).is_none(), "{length}");
        }
        let endless = message(0, 0, &[]).repeat(3);
        assert_eq!(messages(&endless).count(), 3);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
    }
}
