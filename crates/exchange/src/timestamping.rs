//! Measured: where a message is on its way, by the kernel's software timestamps.
//!
//! The kernel stamps a packet with `CLOCK_REALTIME` when it enters the queue discipline (SCHED),
//! when the driver is given it (SND), and when the receiving stack gets one (RX). The first two
//! come back through the socket's error queue, each with two control messages: the stamp, and which
//! one it is of which message. Messages are numbered by count on UDP and by bytes on TCP. Stamps
//! are switched on for the machine by a kernel thread, a while after the first socket asks for them:
//! the first packets have none. Where threads of SCHED_IDLE keep the processors busy, that thread
//! was seen to take many seconds, so [`SwitchedOn`](costof_os::net::timestamps::SwitchedOn) comes before those.
//!
//! All stamps of [`Stages`] are of this host's clock: nothing is told of the other end.
//!
//! Source: Linux Documentation/networking/timestamping.rst. `SOF_TIMESTAMPING_TX_SCHED` since Linux
//! 3.17, `OPT_TSONLY` since 4.0.

use std::io;
use std::time::Instant;

use crate::conversation::{AGAIN_FIRST, ANSWERS, Conversation, Wait, does_not_answer};
use crate::rendezvous::{self, Over};
use costof_os::net::control_message::receive;
use costof_os::net::socket::is_passing;
use costof_os::net::timestamps::{
    CONTROL_WORDS, SCM_TSTAMP_SCHED, SCM_TSTAMP_SND, event_in, now_ns, stamp, stamp_in,
};

pub mod datagrams;

/// How often a spinning receive tries before it looks whether an answer is still to come.
const TRIES: u32 = 100_000;
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
            rendezvous::connect_only_to(conversation.socket(), &peer)?;
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
    /// where. None where not all stamps came, or a datagram had no answer within the time after which
    /// [`Conversation::ask`] would send its first one again.
    ///
    /// # Errors
    ///
    /// What send(2) and recvmsg(2) say; `UnexpectedEof` where the other end has closed, `TimedOut`
    /// where it does not answer, though a connection loses nothing,
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
        let flags = match self.wait {
            Wait::Block => 0,
            Wait::Spin => libc::MSG_DONTWAIT,
        };
        let (mut filled, mut stamp, mut tries) = (0, None, 0);
        let lost_after = self.conversation.again_after().max(AGAIN_FIRST);
        let mut quiet: Option<Instant> = None;
        while filled < answer.len() {
            let socket = self.conversation.socket();
            match receive(socket, &mut answer[filled..], &mut *self.control, flags) {
                Ok((0, _)) if self.over != Over::Udp => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok((length, control)) if self.over != Over::Udp || length == answer.len() => {
                    filled += length;
                    stamp = stamp_in(control);
                }
                Err(error) if !is_passing(&error) => return Err(error),
                // Nothing, or a datagram that is none of these answers.
                _ => {
                    tries += 1;
                    if self.wait == Wait::Spin && tries < TRIES {
                        continue;
                    }
                    tries = 0;
                    let quiet = quiet.get_or_insert_with(Instant::now).elapsed();
                    match self.over {
                        Over::Udp if quiet >= lost_after => return Ok(None),
                        Over::Tcp if quiet >= ANSWERS => return Err(does_not_answer()),
                        _ => {}
                    }
                }
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
                &mut *self.control,
                flags,
            ) {
                Ok((_, control)) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::is_end;
    use crate::rendezvous::Listener;
    use costof_os::net::timestamps::SwitchedOn;
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

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
    fn an_answer_by_a_connection_may_take_more_than_a_second() {
        let listener =
            Listener::open(Over::Tcp, Ipv4Addr::LOCALHOST.into(), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let server = std::thread::spawn(move || {
            let stop = AtomicBool::new(false);
            let mut conversation = Conversation::accept(&listener, Wait::Block, &stop).unwrap();
            let mut message = [0; 56];
            for _ in 0..2 {
                while !conversation.receive(&mut message).unwrap() {}
                std::thread::sleep(Duration::from_millis(1200));
                conversation.send(&message).unwrap();
            }
        });
        let conversation = Conversation::call(Over::Tcp, &address, Wait::Block, TOKEN).unwrap();
        let mut stamper = Stamper::new(conversation, Over::Tcp, Wait::Block).unwrap();
        let (mut message, mut answer) = ([7; 56], [0; 56]);
        for _ in 0..2 {
            stamper.ask(&mut message, &mut answer).unwrap();
            assert_eq!(answer, message);
        }
        server.join().unwrap();
    }
}
