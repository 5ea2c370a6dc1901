//! Measured: messages of one size to another process and back, by sockets.
//!
//! Each message begins with its number, as far as it is long enough for one, so that an answer is
//! known to be that of its message. A datagram may be lost: the one who asks sends it again after a
//! while, and does not take a late answer for that of the next one. Datagrams go by sockets that are
//! not connected, as those of servers are: the kernel looks up the route of each.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO` and `SO_SNDTIMEO`, recv(2) on
//! `MSG_DONTWAIT` and `MSG_TRUNC`.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recv, recvfrom, send, sendto, sockopt};

use crate::rendezvous::{self, Address, Listener, Met, Over};
use costof_os::net::socket::{is_passing, receive_within};

/// How long a blocking receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How often a spinning receive tries before it does.
const TRIES: u32 = 100_000;
/// How often it is looked for the rest of a message that has begun to come.
const LOOKS: u32 = 200;
/// How long the other end of a connection has to answer, and to take what is sent.
pub(crate) const ANSWERS: Duration = Duration::from_secs(10);
/// After how long without an answer a datagram is sent again, at least: the first one, which may
/// take longer than the token took (RFC 6298, section 2), and the others, as Linux has it for TCP.
pub(crate) const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_LEAST: Duration = Duration::from_millis(200);
/// And how many round trips that is.
const AGAIN_ROUND_TRIPS: u32 = 3;
/// How often it is sent again.
const AGAIN_MOST: u32 = 10;
/// Bytes of a message's number, where it has as many.
const NUMBER: usize = 8;

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By asking again and again.
    Spin,
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Conversation {
    socket: OwnedFd,
    over: Over,
    /// Where datagrams go to, and come from.
    peer: Option<SocketAddrAny>,
    wait: Wait,
    token: Vec<u8>,
    /// Whether this end has called, and asks.
    calls: bool,
    /// Messages asked so far, and how many of them had to be sent again.
    asked: u64,
    again: u64,
    again_after: Duration,
    /// How much of a message has gone and come, of those that do not wait.
    sent: usize,
    received: usize,
}

impl Conversation {
    /// Waits for the one that calls a listener of one flow and says its token, and says it back.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::accept`].
    pub fn accept(listener: &Listener, wait: Wait, stop: &AtomicBool) -> io::Result<Self> {
        let met = the_only(listener.accept(stop)?)?;
        let mut conversation = Self::of(met, wait, listener.token(), false)?;
        conversation.send(listener.token())?;
        Ok(conversation)
    }

    /// Calls a listener, and says the token, which it answers.
    ///
    /// # Errors
    ///
    /// Those of [`rendezvous::call`].
    pub fn call(over: Over, address: &Address, wait: Wait, token: &[u8]) -> io::Result<Self> {
        let met = the_only(rendezvous::call(over, address, 1, token)?)?;
        Self::of(met, wait, token, true)
    }

    fn of(met: Met, wait: Wait, token: &[u8], calls: bool) -> io::Result<Self> {
        receive_within(&met.socket, LOOK)?;
        sockopt::set_socket_timeout(&met.socket, sockopt::Timeout::Send, Some(ANSWERS))?;
        Ok(Self {
            socket: met.socket,
            over: met.over,
            peer: met.peer.map(SocketAddrAny::from),
            wait,
            token: token.to_vec(),
            calls,
            asked: 0,
            again: 0,
            again_after: AGAIN_LEAST.max(AGAIN_ROUND_TRIPS * met.round_trip),
            sent: 0,
            received: 0,
        })
    }

    /// The socket, to set options of it.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Who is at the other end; none of a Unix socket.
    ///
    /// # Errors
    ///
    /// What getpeername(2) says.
    pub fn peer(&self) -> io::Result<Option<SocketAddr>> {
        let address = match &self.peer {
            Some(address) => Some(address.clone()),
            None => rustix::net::getpeername(&self.socket)?,
        };
        Ok(address.and_then(|address| SocketAddr::try_from(address).ok()))
    }

    /// Of how many messages the datagram had to be sent again because no answer came in time.
    pub fn sent_again(&self) -> u64 {
        self.again
    }

    /// A round trip of its messages may take as long as this: longer than the token's, where they
    /// are long and the link is slow. An answer is not taken for lost before.
    pub fn may_take(&mut self, round_trip: Duration) {
        let round_trips = (AGAIN_ROUND_TRIPS * round_trip).min(ANSWERS);
        self.again_after = self.again_after.max(round_trips);
    }

    /// After how long without an answer a datagram is taken for lost.
    pub(crate) fn again_after(&self) -> Duration {
        self.again_after
    }

    /// A message there, with the next number in its first eight bytes or in as many as it has,
    /// and the answer to it back, which is as long. A datagram that is not answered is sent again.
    ///
    /// # Errors
    ///
    /// What send(2) and recv(2) say; `UnexpectedEof` where the other end has closed, `TimedOut`
    /// where it does not answer, `InvalidData` where the answer has another number.
    #[inline]
    pub fn ask(&mut self, message: &mut [u8], answer: &mut [u8]) -> io::Result<()> {
        let first = (self.asked == 0).then(Instant::now);
        let length = message.len().min(NUMBER);
        self.asked += 1;
        message[..length].copy_from_slice(&self.asked.to_le_bytes()[..length]);
        let again_after = match first {
            Some(_) => self.again_after.max(AGAIN_FIRST),
            None => self.again_after,
        };
        self.send(message)?;
        let mut quiet: Option<Instant> = None;
        let mut again = 0;
        loop {
            if self.receive(answer)? {
                if answer[..length] == message[..length] {
                    break;
                }
                if self.over != Over::Udp {
                    return Err(ErrorKind::InvalidData.into());
                }
                // Else a late answer to what was sent again.
            }
            if quiet.get_or_insert_with(Instant::now).elapsed() < again_after {
                continue;
            }
            if self.over == Over::Udp && again < AGAIN_MOST {
                self.send(message)?;
                again += 1;
                quiet = None;
            } else if quiet.is_some_and(|since| since.elapsed() > ANSWERS) || again > 0 {
                return Err(does_not_answer());
            }
        }
        self.again += u64::from(again > 0);
        if let (Some(first), 0) = (first, again) {
            let round_trips = AGAIN_ROUND_TRIPS * first.elapsed();
            self.again_after = self.again_after.max(round_trips);
        }
        Ok(())
    }

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// What send(2) says; `TimedOut` where the other end takes nothing for ten seconds.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        loop {
            match self.send_part(&message[sent..], SendFlags::empty()) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return Err(does_not_answer()),
                Err(error) => return Err(error),
            }
            if sent >= message.len() {
                return Ok(());
            }
        }
    }

    /// Receives a message of the buffer's size. False where none has come for a while, or something
    /// that is none.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `UnexpectedEof` where the other end has closed, `TimedOut` where the rest
    /// of a message does not come.
    #[inline]
    pub fn receive(&mut self, message: &mut [u8]) -> io::Result<bool> {
        let flags = match self.wait {
            Wait::Block => RecvFlags::empty(),
            Wait::Spin => RecvFlags::DONTWAIT,
        };
        let mut received = 0;
        let mut tries = 0;
        let mut looks = 0;
        loop {
            match self.receive_part(message, received, flags) {
                Ok(more @ 1..) => received += more,
                Err(error) if !is_passing(&error) => return Err(error),
                // Nothing, or a datagram that is no message, of which there may be many.
                _ => {
                    tries += 1;
                    if self.wait == Wait::Spin && tries < TRIES {
                        continue;
                    }
                    if received == 0 {
                        return Ok(false);
                    }
                    // The rest of what has begun to come is waited for.
                    tries = 0;
                    looks += 1;
                    if looks == LOOKS {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
            }
            if received == message.len() {
                return Ok(true);
            }
        }
    }

    /// Sends as much of a message as goes without waiting; true when all of it has gone.
    ///
    /// # Errors
    ///
    /// What send(2) says.
    #[inline]
    pub fn send_now(&mut self, message: &[u8]) -> io::Result<bool> {
        match self.send_part(&message[self.sent..], SendFlags::DONTWAIT) {
            Ok(more) => self.sent += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.sent >= message.len();
        if all {
            self.sent = 0;
        }
        Ok(all)
    }

    /// Receives what has come of a message of the buffer's size; true when all of it is there.
    ///
    /// # Errors
    ///
    /// Those of [`Self::receive`].
    #[inline]
    pub fn receive_now(&mut self, message: &mut [u8]) -> io::Result<bool> {
        match self.receive_part(message, self.received, RecvFlags::DONTWAIT) {
            Ok(more) => self.received += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.received == message.len();
        if all {
            self.received = 0;
        }
        Ok(all)
    }

    /// What a datagram has to do with how the ends met, if it has: goodbye, which is an error, or a
    /// token whose answer was lost, and that is to be sent again.
    pub(crate) fn is_about_meeting(&self, datagram: &[u8]) -> Option<io::Result<Vec<u8>>> {
        match (self.calls, datagram.len()) {
            (true, _) => None,
            (false, 0) => Some(Err(ErrorKind::UnexpectedEof.into())),
            (false, _) => (datagram == self.token).then(|| Ok(self.token.clone())),
        }
    }

    /// More of a message, by one system call: how much went.
    #[inline]
    fn send_part(&self, part: &[u8], flags: SendFlags) -> io::Result<usize> {
        // Without a signal where nobody receives.
        let flags = flags | SendFlags::NOSIGNAL;
        Ok(match &self.peer {
            Some(peer) => sendto(&self.socket, part, flags, peer)?,
            None => send(&self.socket, part, flags)?,
        })
    }

    /// More of a message, from `received` on, by one system call: how much came; 0 of a datagram
    /// that is none.
    #[inline]
    fn receive_part(
        &mut self,
        message: &mut [u8],
        received: usize,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let Some(peer) = &self.peer else {
            return match recv(&self.socket, &mut message[received..], flags)?.1 {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                more => Ok(more),
            };
        };
        // Of a datagram that is too long, its true length.
        let flags = flags | RecvFlags::TRUNC;
        let (_, length, from) = recvfrom(&self.socket, &mut *message, flags)?;
        if from.as_ref() != Some(peer) {
            return Ok(0);
        }
        if length == message.len() {
            // A token as long as a message is answered as one, with the same bytes.
            return Ok(length);
        }
        if length == 0 && !self.calls {
            // How the one who called says goodbye.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let shown = length.min(message.len());
        if !self.calls && length == self.token.len() && message[..shown] == self.token[..shown] {
            // The caller has not got the answer to its token.
            self.send_part(&self.token, SendFlags::DONTWAIT)?;
        }
        Ok(0)
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if self.calls && self.over == Over::Udp {
            // Where it is lost, the other end is stopped all the same.
            let _ = self.send_part(&[], SendFlags::DONTWAIT);
        }
    }
}

/// The flow of a listener of one.
fn the_only(flows: Vec<Met>) -> io::Result<Met> {
    flows
        .into_iter()
        .next()
        .ok_or_else(|| ErrorKind::InvalidInput.into())
}

pub(crate) fn does_not_answer() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the other end does not answer")
}

/// The other end has gone, which it may do when it has what it wants.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};
    use std::sync::atomic::Ordering;

    const TOKEN: &[u8] = b"0123456789abcdef";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn answers(mut conversation: Conversation, size: usize) {
        let mut message = vec![0; size];
        loop {
            match conversation.receive(&mut message) {
                Ok(true) => conversation.send(&message).unwrap(),
                Ok(false) => {}
                Err(error) => return assert!(is_end(&error), "{error}"),
            }
        }
    }

    fn listen(over: Over) -> (Listener, Address) {
        let listener = Listener::open(over, HERE, (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        (listener, address)
    }

    /// Meets the one that calls.
    fn meet(listener: &Listener, wait: Wait) -> Conversation {
        Conversation::accept(listener, wait, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn messages_go_there_and_back() {
        for over in [Over::Tcp, Over::Udp, Over::Unix] {
            for wait in [Wait::Block, Wait::Spin] {
                let (listener, address) = listen(over);
                let server = std::thread::spawn(move || answers(meet(&listener, wait), 100));
                let mut conversation = Conversation::call(over, &address, wait, TOKEN).unwrap();
                let (mut message, mut answer) = ([7; 100], [0; 100]);
                for number in 1..=3 {
                    conversation.ask(&mut message, &mut answer).unwrap();
                    assert_eq!(answer, message);
                    assert_eq!(answer[..8], u64::to_le_bytes(number));
                }
                drop(conversation);
                server.join().unwrap();
            }
        }
    }

    /// Datagrams that are lost, late, doubled, cut or said again, by a server that does it.
    #[test]
    fn a_lost_datagram_is_sent_again_and_a_late_answer_is_not_the_next_ones() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(vec![socket.local_addr().unwrap()]);
        let server = std::thread::spawn(move || {
            let mut bytes = [0; 200];
            let mut next = || {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                (bytes[..length].to_vec(), from)
            };
            let (token, from) = next();
            // Whoever is kept waiting says it again.
            let mut next_after = |last: &[u8]| {
                loop {
                    let (said, _) = next();
                    if said != last {
                        return said;
                    }
                }
            };
            socket.send_to(&token, from).unwrap();
            socket.send_to(&token, from).unwrap();
            let one = next_after(&token);
            socket.send_to(&[1; 200], from).unwrap();
            socket.send_to(&one, from).unwrap();
            let lost = next_after(&one);
            let two = next_after(&[]);
            assert_eq!(two, lost);
            socket.send_to(&one, from).unwrap();
            socket.send_to(&two, from).unwrap();
            let three = next_after(&two);
            socket.send_to(&two, from).unwrap();
            socket.send_to(&three, from).unwrap();
            assert!(next_after(&three).is_empty());
        });
        let mut conversation = Conversation::call(Over::Udp, &address, Wait::Block, TOKEN).unwrap();
        // As long as the token, so that its length alone tells nothing.
        let (mut message, mut answer) = ([7; TOKEN.len()], [0; TOKEN.len()]);
        for _ in 0..3 {
            conversation.ask(&mut message, &mut answer).unwrap();
            assert_eq!(answer, message);
        }
        assert!(conversation.sent_again() >= 1);
        drop(conversation);
        server.join().unwrap();
    }

    #[test]
    fn a_round_trip_of_more_than_a_second_is_no_loss() {
        const ROUND_TRIP: Duration = Duration::from_millis(1100);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(vec![socket.local_addr().unwrap()]);
        let server = std::thread::spawn(move || {
            let (mut bytes, mut last) = ([0; 200], Vec::new());
            loop {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                if length == 0 {
                    break;
                }
                // The token is said again and again.
                if bytes[..length] != last {
                    last = bytes[..length].to_vec();
                    std::thread::sleep(ROUND_TRIP);
                    socket.send_to(&last, from).unwrap();
                }
            }
        });
        let mut conversation = Conversation::call(Over::Udp, &address, Wait::Block, TOKEN).unwrap();
        let (mut message, mut answer) = ([7; 100], [0; 100]);
        for _ in 0..2 {
            conversation.ask(&mut message, &mut answer).unwrap();
        }
        assert_eq!(conversation.sent_again(), 0);
        conversation.may_take(Duration::from_secs(3));
        assert!(conversation.again_after() > Duration::from_secs(3));
        drop(conversation);
        server.join().unwrap();
    }

    #[test]
    fn the_loss_of_the_first_message_does_not_make_the_others_wait_longer() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(vec![socket.local_addr().unwrap()]);
        let server = std::thread::spawn(move || {
            let mut bytes = [0; 100];
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            socket.send_to(&bytes[..length], from).unwrap();
            let mut messages = 0;
            while messages < 2 {
                let (length, from) = socket.recv_from(&mut bytes).unwrap();
                messages += u32::from(length == bytes.len());
                if messages == 2 {
                    socket.send_to(&bytes, from).unwrap();
                }
            }
        });
        let mut conversation = Conversation::call(Over::Udp, &address, Wait::Block, TOKEN).unwrap();
        let before = conversation.again_after();
        conversation.ask(&mut [7; 100], &mut [0; 100]).unwrap();
        assert_eq!(
            (conversation.again_after(), conversation.sent_again()),
            (before, 1)
        );
        server.join().unwrap();
    }

    #[test]
    fn datagrams_that_are_no_messages_do_not_keep_one_who_receives() {
        for wait in [Wait::Block, Wait::Spin] {
            let (listener, address) = listen(Over::Udp);
            let server = std::thread::spawn(move || meet(&listener, wait));
            let caller = Conversation::call(Over::Udp, &address, wait, TOKEN).unwrap();
            let mut conversation = server.join().unwrap();
            let Address::Ip(to) = address else {
                panic!("UDP has addresses");
            };
            let enough = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                    while !enough.load(Ordering::Relaxed) {
                        stranger.send_to(&[1; 100], to[0]).unwrap();
                        caller.send_part(&[1; 99], SendFlags::empty()).unwrap();
                    }
                });
                let received = conversation.receive(&mut [0; 100]);
                enough.store(true, Ordering::Relaxed);
                assert!(!received.unwrap());
            });
        }
    }

    #[test]
    fn one_who_takes_nothing_is_not_waited_for_without_end() {
        let (listener, address) = listen(Over::Tcp);
        let server = std::thread::spawn(move || meet(&listener, Wait::Block));
        let mut conversation = Conversation::call(Over::Tcp, &address, Wait::Block, TOKEN).unwrap();
        let silent = server.join().unwrap();
        let limit = sockopt::socket_timeout(conversation.socket(), sockopt::Timeout::Send);
        assert_eq!(limit.unwrap(), Some(ANSWERS));
        sockopt::set_socket_timeout(conversation.socket(), sockopt::Timeout::Send, Some(LOOK))
            .unwrap();
        let error = conversation.send(&vec![7; 64 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(silent);
    }

    /// The one who answers meets a caller whose token was not answered in time.
    #[test]
    fn a_token_that_is_said_again_is_answered_again_and_is_no_message() {
        for size in [1, TOKEN.len(), 100] {
            let (listener, address) = listen(Over::Udp);
            let Address::Ip(address) = address else {
                panic!("a UDP socket has an address");
            };
            let server = std::thread::spawn(move || answers(meet(&listener, Wait::Block), size));
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(&address[..]).unwrap();
            let mut bytes = [0; 200];
            for _ in 0..3 {
                socket.send(TOKEN).unwrap();
                let length = socket.recv(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], TOKEN);
            }
            socket.send(&vec![9; size]).unwrap();
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..length], vec![9; size]);
            socket.send(&[]).unwrap();
            server.join().unwrap();
        }
    }

    #[test]
    fn what_does_not_wait_sends_and_receives_in_parts() {
        let (listener, address) = listen(Over::Tcp);
        const SIZE: usize = 8 << 20;
        let server = std::thread::spawn(move || answers(meet(&listener, Wait::Block), SIZE));
        let mut conversation = Conversation::call(Over::Tcp, &address, Wait::Spin, TOKEN).unwrap();
        let message: Vec<u8> = (0..SIZE).map(|byte| (byte % 251) as u8).collect();
        let mut answer = vec![0; SIZE];
        let mut parts = 1;
        while !conversation.send_now(&message).unwrap() {
            parts += 1;
        }
        while !conversation.receive_now(&mut answer).unwrap() {}
        assert!(parts > 1 && answer == message);
        drop(conversation);
        server.join().unwrap();
    }
}
