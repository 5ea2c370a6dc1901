//! Many calls at once, one behind the other on each connection: Thrift answers them in order.

use super::client::fitting;
use super::errors::failed;
use super::marshal::{LENGTH_BYTES, write};
use super::protocols::read;
use super::wire::calls::{Call, Message};
use super::{BESIDES, limits};
use crate::{Kind, Options, Payload, Protocol, RpcError, Socket, Stack, Transport};
use ::thrift::protocol::TInputProtocol;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How much is read at once, at most.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct InFlight {
    pipes: Vec<Pipe>,
    protocol: Protocol,
    options: Options,
    begun: u64,
    /// What is called, and what is to be answered.
    calls: Option<(Kind, Call, Message)>,
}

/// What comes of a call.
type Answer = Result<(), RpcError>;

/// Reads the answer to the call of this number; fails where the connection is of no use any more.
type ReadAnswer<'a> = dyn Fn(&[u8], u64) -> Result<Answer, RpcError> + 'a;

/// A connection.
#[derive(Debug)]
struct Pipe {
    socket: Socket,
    /// What the kernel has not taken yet, from the place on that it has taken.
    outgoing: Vec<u8>,
    taken: usize,
    /// What is no whole frame yet.
    incoming: Vec<u8>,
    waiting: VecDeque<Waiting>,
    is_broken: bool,
}

/// A call that is not answered.
#[derive(Debug)]
struct Waiting {
    number: u64,
    until: Option<Instant>,
    /// It took too long, and has been said to. Its answer comes nevertheless.
    is_over: bool,
}

impl InFlight {
    pub(crate) fn over(
        protocol: Protocol,
        sockets: Vec<Socket>,
        options: &Options,
    ) -> Result<Self, RpcError> {
        let pipes = sockets.into_iter().map(|socket| {
            socket.set_nodelay()?;
            socket.0.set_nonblocking(true)?;
            Ok(Pipe {
                socket,
                outgoing: Vec::new(),
                taken: 0,
                incoming: Vec::new(),
                waiting: VecDeque::new(),
                is_broken: false,
            })
        });
        let pipes: std::io::Result<Vec<Pipe>> = pipes.collect();
        Ok(Self {
            pipes: pipes.map_err(RpcError::failed)?,
            protocol,
            options: options.clone(),
            begun: 0,
            calls: None,
        })
    }

    pub(crate) fn begin(&mut self, payload: &Payload) -> Result<u64, RpcError> {
        if !matches!(self.calls, Some((kind, ..)) if kind == payload.kind()) {
            let message = fitting(payload, Transport::Framed, &self.options)?;
            self.calls = Some((payload.kind(), message.clone().into(), message));
        }
        let Some((_, call, _)) = &self.calls else {
            return Err(RpcError::NotConnected);
        };
        let number = self.begun;
        // Those that are broken are left out.
        let count = self.pipes.len();
        let next = (number % count as u64) as usize;
        let turn = (next..count).chain(0..next);
        let mut turn = turn.filter(|&pipe| !self.pipes[pipe].is_broken);
        let pipe = turn.next().ok_or(RpcError::NotConnected)?;
        let pipe = &mut self.pipes[pipe];
        let way = (Transport::Framed, self.protocol);
        write(call, short(number), way, &mut pipe.outgoing).map_err(RpcError::failed)?;
        let until = self.options.deadline.map(|after| Instant::now() + after);
        pipe.waiting.push_back(Waiting {
            number,
            until,
            is_over: false,
        });
        self.begun += 1;
        // What breaks here is found broken by `poll`, which says so of every call.
        let _ = pipe.send();
        Ok(number)
    }

    pub(crate) fn poll(
        &mut self,
        wait: Duration,
        answered: &mut dyn FnMut(u64, Answer),
    ) -> Result<(), RpcError> {
        if self.look(answered) || wait.is_zero() {
            return Ok(());
        }
        if self.pipes.iter().all(|pipe| pipe.is_broken) {
            return Err(RpcError::NotConnected);
        }
        self.sleep(wait);
        self.look(answered);
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        let waiting = |pipe: &Pipe| pipe.waiting.iter().filter(|call| !call.is_over).count();
        self.pipes.iter().map(waiting).sum()
    }

    /// Sends and receives what there is. Whether a call is over by that.
    fn look(&mut self, answered: &mut dyn FnMut(u64, Answer)) -> bool {
        let mut any = false;
        let mut over = |number, answer| {
            any = true;
            answered(number, answer);
        };
        let stack = Stack::Thrift(Transport::Framed, self.protocol);
        for pipe in self.pipes.iter_mut().filter(|pipe| !pipe.is_broken) {
            if pipe.waiting.is_empty() {
                continue;
            }
            let Some((_, call, expected)) = &self.calls else {
                continue;
            };
            let read_frame = |bytes: &[u8], number: u64| {
                let read_answer = |i: &mut dyn TInputProtocol| call.read_answer(short(number), i);
                let answer = read(self.protocol, bytes, limits(&self.options), read_answer);
                match answer {
                    Ok(answer) if answer == *expected => Ok(Ok(())),
                    Ok(_) => Ok(Err(RpcError::WrongAnswer("another value".into()))),
                    Err(error) => match failed(error, stack, &self.options) {
                        (error, true) => Ok(Err(error)),
                        (error, false) => Err(error),
                    },
                }
            };
            let most = self.options.message_most + BESIDES;
            let done = pipe
                .send()
                .and_then(|()| pipe.receive(stack, most, &read_frame, &mut over));
            if let Err(error) = done {
                pipe.breaks(error, &mut over);
            }
            if let Some(deadline) = self.options.deadline {
                pipe.expire(deadline, &mut over);
            }
        }
        any
    }

    /// Until something comes, or can be sent.
    fn sleep(&self, wait: Duration) {
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(self.pipes.len());
        for pipe in self.pipes.iter().filter(|pipe| !pipe.is_broken) {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pipe.taken < pipe.outgoing.len());
            polled.push(PollFd::new(&pipe.socket.0, flags));
        }
        let wait = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        // A signal ends it sooner, and nothing else can fail: they are descriptors.
        let _ = poll(&mut polled, Some(&wait));
    }
}

/// The number that a message has: Thrift's are of 31 bits.
fn short(number: u64) -> i32 {
    (number & i32::MAX as u64) as i32
}

impl Pipe {
    /// Sends what the kernel takes.
    fn send(&mut self) -> Result<(), RpcError> {
        while self.taken < self.outgoing.len() {
            match self.socket.0.write(&self.outgoing[self.taken..]) {
                Ok(sent) => self.taken += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(RpcError::Closed(error.to_string())),
            }
        }
        if self.taken == self.outgoing.len() {
            self.outgoing.clear();
            self.taken = 0;
        }
        Ok(())
    }

    /// Receives what has come, and reads the answers that are whole.
    fn receive(
        &mut self,
        stack: Stack,
        most: usize,
        read: &ReadAnswer<'_>,
        over: &mut dyn FnMut(u64, Answer),
    ) -> Result<(), RpcError> {
        let filled = self.incoming.len();
        self.incoming.resize(filled + READ_BYTES, 0);
        let received = self.socket.0.read(&mut self.incoming[filled..]);
        self.incoming
            .truncate(filled + received.as_ref().map_or(0, |bytes| *bytes));
        match received {
            Ok(0) => return Err(RpcError::Closed("an answer was expected".into())),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(()),
                _ => return Err(RpcError::Closed(error.to_string())),
            },
        }
        let mut from = 0;
        while let Some((length, rest)) = self.incoming[from..].split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_be_bytes(*length) as usize;
            if length > most {
                let reason = format!("a frame of {length} B, where {most} B are allowed");
                return Err(RpcError::OtherProtocol { stack, reason });
            }
            let Some(frame) = rest.get(..length) else {
                break;
            };
            let Some(call) = self.waiting.pop_front() else {
                let reason = "an answer that nobody asked for".into();
                return Err(RpcError::OtherProtocol { stack, reason });
            };
            match read(frame, call.number) {
                _ if call.is_over => {}
                Ok(answer) => over(call.number, answer),
                Err(error) => {
                    self.waiting.push_front(call);
                    return Err(error);
                }
            }
            from += LENGTH_BYTES + length;
        }
        self.incoming.drain(..from);
        Ok(())
    }

    /// Says of each call why it is not answered. The reason is the first one's alone.
    fn breaks(&mut self, error: RpcError, over: &mut dyn FnMut(u64, Answer)) {
        self.is_broken = true;
        let said = error.to_string();
        let mut error = Some(error);
        for call in self.waiting.drain(..).filter(|call| !call.is_over) {
            let why = error
                .take()
                .unwrap_or_else(|| RpcError::Closed(said.clone()));
            over(call.number, Err(why));
        }
    }

    /// Says of those whose time is over that it is.
    fn expire(&mut self, deadline: Duration, over: &mut dyn FnMut(u64, Answer)) {
        let now = Instant::now();
        for call in &mut self.waiting {
            if call.until.is_none_or(|until| until > now) {
                return;
            }
            if !std::mem::replace(&mut call.is_over, true) {
                over(call.number, Err(RpcError::DeadlineExceeded(deadline)));
            }
        }
    }
}
