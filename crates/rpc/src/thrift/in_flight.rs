//! Many calls in flight on each connection: Thrift answers them in order.

use super::client::fitting;
use super::errors::failed;
use super::marshal::{LENGTH_BYTES, write};
use super::protocols::read;
use super::wire::calls::{Call, Message};
use super::{MAX_OVERHEAD, limits};
use crate::{Kind, Options, Payload, Protocol, RpcError, Socket, Stack};
use ::thrift::protocol::TInputProtocol;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// The most bytes to read at once.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct InFlight {
    pipelines: Vec<Pipeline>,
    protocol: Protocol,
    options: Options,
    /// The method called, and the expected answer.
    calls: Option<(Kind, Call, Message)>,
}

/// The outcome of a call.
type Answer = Result<(), RpcError>;

#[derive(Debug)]
struct Pipeline {
    socket: Socket,
    /// The bytes to send, and how many of them were sent.
    outgoing: Vec<u8>,
    taken: usize,
    /// The received part of the next frame.
    incoming: Vec<u8>,
    pending: VecDeque<Pending>,
    is_broken: bool,
}

/// An unanswered call.
#[derive(Debug)]
struct Pending {
    number: u64,
    until: Option<Instant>,
    /// Its deadline has passed, which was reported. Its answer will still arrive.
    is_over: bool,
}

impl InFlight {
    pub(crate) fn over(
        protocol: Protocol,
        sockets: Vec<Socket>,
        options: &Options,
    ) -> Result<Self, RpcError> {
        let pipelines = sockets.into_iter().map(|socket| {
            socket.set_nodelay()?;
            socket.0.set_nonblocking(true)?;
            Ok(Pipeline {
                socket,
                outgoing: Vec::new(),
                taken: 0,
                incoming: Vec::new(),
                pending: VecDeque::new(),
                is_broken: false,
            })
        });
        let pipelines: std::io::Result<Vec<Pipeline>> = pipelines.collect();
        Ok(Self {
            pipelines: pipelines.map_err(RpcError::failed)?,
            protocol,
            options: options.clone(),
            calls: None,
        })
    }

    pub(crate) fn begin(&mut self, number: u64, payload: &Payload) -> Result<(), RpcError> {
        if !matches!(self.calls, Some((kind, ..)) if kind == payload.kind()) {
            let message = fitting(payload, &self.options)?;
            self.calls = Some((payload.kind(), message.clone().into(), message));
        }
        let Some((_, call, _)) = &self.calls else {
            return Err(RpcError::NotConnected);
        };
        // Skips broken connections.
        let count = self.pipelines.len();
        let next = (number % count as u64) as usize;
        let mut turn =
            (next..count).chain(0..next).filter(|&pipeline| !self.pipelines[pipeline].is_broken);
        let pipeline = turn.next().ok_or(RpcError::NotConnected)?;
        let pipeline = &mut self.pipelines[pipeline];
        write(call, sequence_number(number), self.protocol, &mut pipeline.outgoing)
            .map_err(RpcError::failed)?;
        let until = self.options.deadline.map(|after| Instant::now() + after);
        pipeline.pending.push_back(Pending { number, until, is_over: false });
        // If this fails, `poll` fails too, and reports it for every call.
        let _ = pipeline.send();
        Ok(())
    }

    pub(crate) fn poll(
        &mut self,
        wait: Duration,
        answered: &mut dyn FnMut(u64, Answer),
    ) -> Result<(), RpcError> {
        if self.exchange(answered) || wait.is_zero() {
            return Ok(());
        }
        if self.pipelines.iter().all(|pipeline| pipeline.is_broken) {
            return Err(RpcError::NotConnected);
        }
        self.wait(wait);
        self.exchange(answered);
        Ok(())
    }

    pub(crate) fn count(&self) -> usize {
        let pending =
            |pipeline: &Pipeline| pipeline.pending.iter().filter(|call| !call.is_over).count();
        self.pipelines.iter().map(pending).sum()
    }

    /// Sends and receives without blocking. Returns whether a call has finished.
    fn exchange(&mut self, answered: &mut dyn FnMut(u64, Answer)) -> bool {
        let Some((_, call, expected)) = &self.calls else {
            return false;
        };
        let answers = Answers { call, expected, protocol: self.protocol, options: &self.options };
        let mut any = false;
        let mut over = |number, answer| {
            any = true;
            answered(number, answer);
        };
        let is_waiting = |one: &&mut Pipeline| !one.is_broken && !one.pending.is_empty();
        for pipeline in self.pipelines.iter_mut().filter(is_waiting) {
            let done = pipeline.send().and_then(|()| pipeline.receive(&answers, &mut over));
            if let Err(error) = done {
                pipeline.fail_all(error, &mut over);
            }
            if let Some(deadline) = self.options.deadline {
                pipeline.expire(deadline, &mut over);
            }
        }
        any
    }

    /// Waits until data arrives or can be sent.
    fn wait(&self, wait: Duration) {
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(self.pipelines.len());
        for pipeline in self.pipelines.iter().filter(|pipeline| !pipeline.is_broken) {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, pipeline.taken < pipeline.outgoing.len());
            polled.push(PollFd::new(&pipeline.socket.0, flags));
        }
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        // A signal ends it early; nothing else can fail for valid descriptors.
        let _ = poll(&mut polled, Some(&wait));
    }
}

struct Answers<'a> {
    call: &'a Call,
    expected: &'a Message,
    protocol: Protocol,
    options: &'a Options,
}

impl Answers<'_> {
    fn stack(&self) -> Stack {
        Stack::Thrift(self.protocol)
    }

    /// The next frame, if it is complete.
    fn next_frame<'b>(&self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, RpcError> {
        let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        let most = self.options.max_message_bytes + MAX_OVERHEAD;
        if length > most {
            let reason = format!("a frame of {length} B; {most} B are allowed");
            return Err(self.other_protocol(reason));
        }
        Ok(rest.get(..length))
    }

    /// The answer to the call with this number; an error if the connection is unusable.
    fn read(&self, frame: &[u8], number: u64) -> Result<Answer, RpcError> {
        let read_answer =
            |i: &mut dyn TInputProtocol| self.call.read_answer(sequence_number(number), i);
        match read(self.protocol, frame, limits(self.options), read_answer) {
            Ok(answer) if answer == *self.expected => Ok(Ok(())),
            Ok(_) => Ok(Err(RpcError::WrongAnswer("another value".into()))),
            Err(error) => match failed(error, self.stack(), self.options) {
                (error, true) => Ok(Err(error)),
                (error, false) => Err(error),
            },
        }
    }

    fn other_protocol(&self, reason: String) -> RpcError {
        let stack = self.stack();
        RpcError::OtherProtocol { stack, reason }
    }
}

/// Thrift's message numbers have 31 bits.
fn sequence_number(number: u64) -> i32 {
    (number & i32::MAX as u64) as i32
}

impl Pipeline {
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

    /// Receives, and reads the complete answers.
    fn receive(
        &mut self,
        answers: &Answers<'_>,
        over: &mut dyn FnMut(u64, Answer),
    ) -> Result<(), RpcError> {
        let filled = self.incoming.len();
        self.incoming.resize(filled + READ_BYTES, 0);
        let received = self.socket.0.read(&mut self.incoming[filled..]);
        self.incoming.truncate(filled + received.as_ref().map_or(0, |bytes| *bytes));
        match received {
            Ok(0) => return Err(RpcError::Closed("an answer was expected".into())),
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(()),
                _ => return Err(RpcError::Closed(error.to_string())),
            },
        }
        let mut from = 0;
        while let Some(frame) = answers.next_frame(&self.incoming[from..])? {
            let call = self.pending.front();
            let call = call.ok_or_else(|| answers.other_protocol("an unexpected answer".into()))?;
            let answer = answers.read(frame, call.number);
            if !call.is_over {
                over(call.number, answer?);
            }
            self.pending.pop_front();
            from += LENGTH_BYTES + frame.len();
        }
        self.incoming.drain(..from);
        Ok(())
    }

    /// Fails every call: the first with the error, the others with its text.
    fn fail_all(&mut self, error: RpcError, over: &mut dyn FnMut(u64, Answer)) {
        self.is_broken = true;
        let reason = error.to_string();
        let mut error = Some(error);
        for call in self.pending.drain(..).filter(|call| !call.is_over) {
            let why = error.take().unwrap_or_else(|| RpcError::Closed(reason.clone()));
            over(call.number, Err(why));
        }
    }

    /// Fails the calls whose deadline has passed.
    fn expire(&mut self, deadline: Duration, over: &mut dyn FnMut(u64, Answer)) {
        let now = Instant::now();
        for call in &mut self.pending {
            if call.until.is_none_or(|until| until > now) {
                return;
            }
            if !std::mem::replace(&mut call.is_over, true) {
                over(call.number, Err(RpcError::DeadlineExceeded(deadline)));
            }
        }
    }
}
