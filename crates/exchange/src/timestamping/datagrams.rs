//! Measured: datagrams of any kind between two ends, each stamped as it leaves and as it comes.
//!
//! What is in them is for others to say: a protocol over UDP is driven by these, and its stamps are
//! held against the caller's own clock, which is the same.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::PollFlags;

use super::TRIES;
use crate::conversation::{Conversation, Wait};
use crate::rendezvous;
use costof_os::net::control_message::receive;
use costof_os::net::poll::able;
use costof_os::net::socket::is_passing;
use costof_os::net::timestamps::{CONTROL_WORDS, SCM_TSTAMP_SND, event_in, stamp, stamp_in};

/// How many stamps of what left are kept until somebody asks for them.
const KEPT: usize = 64;

/// One end of datagrams that the kernel stamps.
#[derive(Debug)]
pub struct Datagrams {
    conversation: Conversation,
    peer: SocketAddr,
    wait: Wait,
    /// How the kernel numbers the next one.
    key: u32,
    /// Which have left, and when.
    left: VecDeque<(u32, u64)>,
    control: Box<[u64; CONTROL_WORDS]>,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its bytes.
    pub length: usize,
    /// When this host's stack received it, in nanoseconds of `CLOCK_REALTIME`; none where the kernel
    /// has not said.
    pub at: Option<u64>,
}

impl Datagrams {
    /// By the socket of a conversation over UDP, to and from its other end alone.
    ///
    /// # Errors
    ///
    /// EINVAL where the kernel has no such stamps; `InvalidInput` where the socket is none of UDP's.
    pub fn new(conversation: Conversation, wait: Wait) -> io::Result<Self> {
        let peer = conversation.peer()?.ok_or(ErrorKind::InvalidInput)?;
        rendezvous::connect_only_to(conversation.socket(), &peer)?;
        let flags: u32 = libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_RX_SOFTWARE
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        stamp(conversation.socket(), flags)?;
        Ok(Self {
            conversation,
            peer,
            wait,
            key: 0,
            left: VecDeque::with_capacity(KEPT),
            control: Box::new([0; CONTROL_WORDS]),
        })
    }

    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Has [`Datagrams::receive`] wait in the kernel no longer than this at a time, which it rounds up
    /// to its ticks.
    ///
    /// # Errors
    ///
    /// EDOM for no time at all.
    pub fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        costof_os::net::socket::receive_within(self.conversation.socket(), time)
    }

    /// Sends a datagram; by which number [`Datagrams::left_at`] knows it.
    ///
    /// # Errors
    ///
    /// Those of [`Conversation::send`].
    #[inline]
    pub fn send(&mut self, datagram: &[u8]) -> io::Result<u32> {
        let key = self.key;
        self.key = key.wrapping_add(1);
        self.conversation.send(datagram)?;
        Ok(key)
    }

    /// Receives a datagram, as long as the buffer at most. None where none has come for a while.
    ///
    /// # Errors
    ///
    /// What recvmsg(2) says; `UnexpectedEof` where the one who called has said goodbye.
    #[inline]
    pub fn receive(&mut self, datagram: &mut [u8]) -> io::Result<Option<Came>> {
        match self.wait {
            Wait::Block => self.receive_by(datagram, 0),
            Wait::Spin => {
                for _ in 0..TRIES {
                    if let Some(came) = self.receive_now(datagram)? {
                        return Ok(Some(came));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Receives a datagram that is there already.
    ///
    /// # Errors
    ///
    /// Those of [`Datagrams::receive`].
    #[inline]
    pub fn receive_now(&mut self, datagram: &mut [u8]) -> io::Result<Option<Came>> {
        self.receive_by(datagram, libc::MSG_DONTWAIT)
    }

    #[inline]
    fn receive_by(&mut self, datagram: &mut [u8], flags: i32) -> io::Result<Option<Came>> {
        let socket = self.conversation.socket();
        let came = match receive(socket, datagram, &mut *self.control, flags) {
            Ok((length, control)) => Came {
                length,
                at: stamp_in(control),
            },
            Err(error) if is_passing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.conversation.is_about_meeting(&datagram[..came.length]) {
            None => Ok(Some(came)),
            Some(Err(error)) => Err(error),
            Some(Ok(answer)) => {
                // The kernel numbers that too.
                self.send(&answer)?;
                Ok(None)
            }
        }
    }

    /// Waits in the kernel until something can be received, no longer than this.
    ///
    /// # Errors
    ///
    /// What poll(2) says.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        match able(&self.conversation.socket(), PollFlags::IN, time)? {
            // Who leaves them there does not wait.
            Some(able) if able.contains(PollFlags::ERR) => self.fetch_stamps(),
            _ => Ok(()),
        }
    }

    /// When the driver was given the datagram of this number, in nanoseconds of `CLOCK_REALTIME`; none
    /// where the kernel has not said, or it was long ago.
    ///
    /// # Errors
    ///
    /// What recvmsg(2) says of the error queue.
    pub fn left_at(&mut self, key: u32) -> io::Result<Option<u64>> {
        let find = |left: &VecDeque<(u32, u64)>| {
            let found = left.iter().find(|(of, _)| *of == key);
            found.map(|(_, at)| *at)
        };
        if let Some(at) = find(&self.left) {
            return Ok(Some(at));
        }
        self.fetch_stamps()?;
        Ok(find(&self.left))
    }

    /// Empties the error queue.
    fn fetch_stamps(&mut self) -> io::Result<()> {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        loop {
            let socket = self.conversation.socket();
            match receive(socket, &mut [], &mut *self.control, flags) {
                Ok((_, control)) => {
                    if let (Some((SCM_TSTAMP_SND, key)), Some(at)) =
                        (event_in(control), stamp_in(control))
                    {
                        if self.left.len() == KEPT {
                            self.left.pop_front();
                        }
                        self.left.push_back((key, at));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::{Listener, Over};
    use costof_os::net::timestamps::{SwitchedOn, now_ns};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::atomic::AtomicBool;

    const TOKEN: &[u8] = b"0123456789abcdef";

    fn pair(wait: Wait) -> (Datagrams, Datagrams) {
        let listener =
            Listener::open(Over::Udp, Ipv4Addr::LOCALHOST.into(), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let server = std::thread::spawn(move || {
            let stop = AtomicBool::new(false);
            let accepted = Conversation::accept(&listener, wait, &stop).unwrap();
            Datagrams::new(accepted, wait).unwrap()
        });
        let called = Conversation::call(Over::Udp, &address, wait, TOKEN).unwrap();
        let client = Datagrams::new(called, wait).unwrap();
        (server.join().unwrap(), client)
    }

    fn next(end: &mut Datagrams, buffer: &mut [u8]) -> Came {
        loop {
            if let Some(came) = end.receive(buffer).unwrap() {
                return came;
            }
        }
    }

    #[test]
    fn datagrams_are_stamped_as_they_leave_and_as_they_come() {
        let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
        for wait in [Wait::Block, Wait::Spin] {
            let (mut server, mut client) = pair(wait);
            let mut buffer = vec![0; 1 << 16];
            let mut complete = 0;
            for number in 0..100_u32 {
                let sent = now_ns();
                let key = client.send(&[7; 1400]).unwrap();
                assert_eq!(key, number);
                server.wait(Duration::from_secs(10)).unwrap();
                let came = next(&mut server, &mut buffer);
                assert_eq!((came.length, buffer[1399]), (1400, 7));
                let (left, got) = (client.left_at(key).unwrap(), now_ns());
                let stamps = left.zip(came.at);
                complete +=
                    u32::from(stamps.is_some_and(|(left, at)| [sent, left, at, got].is_sorted()));
                assert_eq!(client.left_at(key).unwrap(), left);
            }
            assert!(complete > 50, "{wait:?}: {complete} of 100");
        }
    }

    #[test]
    fn a_token_said_again_is_answered_and_is_no_datagram_and_neither_is_a_strangers() {
        let (mut server, mut client) = pair(Wait::Block);
        let mut buffer = vec![0; 1 << 16];
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = client.conversation.socket();
        let own = SocketAddr::try_from(rustix::net::getsockname(own).unwrap()).unwrap();
        stranger.send_to(b"stranger", own).unwrap();
        client.send(TOKEN).unwrap();
        server.wait(Duration::from_secs(10)).unwrap();
        assert_eq!(server.receive_now(&mut buffer).unwrap(), None);
        let came = next(&mut client, &mut buffer);
        assert_eq!(&buffer[..came.length], TOKEN);
        // What was answered has a number of its own.
        assert!(server.send(b"next").unwrap() > 0);
        drop(client);
        let ended = loop {
            match server.receive(&mut buffer) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
    }
}
