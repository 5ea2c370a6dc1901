//! Measured: finding the one of many descriptors that can be read, by epoll, poll or io_uring.
//!
//! The descriptors are eventfds of this process. To write to one, to wait for any, and to read it are three system calls of
//! one thread, which never sleeps.
//!
//! Source: epoll(7), poll(2), eventfd(2), io_uring_enter(2) on `IORING_POLL_ADD_MULTI` (Linux 5.13).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::{IoUring, opcode, types::Fd};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::net::ring;
use crate::system_call::{check, unsupported};

/// Descriptors that are open anyway, and some to spare.
const OTHERS: u64 = 64;

/// How to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// epoll_wait, level-triggered.
    Epoll,
    /// poll, which gets all descriptors each time.
    Poll,
    /// io_uring_enter; each descriptor has one request, which stays.
    IoUring,
}

/// Descriptors, and what waits for them.
pub struct Ready {
    events: Vec<OwnedFd>,
    waits: Waits,
    next: usize,
}

enum Waits {
    Epoll(OwnedFd, Vec<epoll::Event>),
    Poll(Vec<libc::pollfd>),
    IoUring(Box<IoUring>),
}

impl Ready {
    /// This many descriptors, all of them registered. Raises this process's limit on open files if it may.
    ///
    /// # Errors
    ///
    /// `Unsupported` if so many files may not be open, or io_uring cannot be used; those of the calls.
    pub fn new(by: By, count: usize) -> io::Result<Ready> {
        let needed = count as u64 + OTHERS;
        let limit = getrlimit(Resource::Nofile);
        if limit.current.is_some_and(|current| current < needed) {
            let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
            setrlimit(Resource::Nofile, raised).map_err(|_| {
                unsupported(format!("{needed} files may not be open (ulimit -Hn limits them)"))
            })?;
        }
        let make = |_| Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let events = (0..count).map(make).collect::<io::Result<Vec<OwnedFd>>>()?;
        let waits = match by {
            By::Epoll => {
                Waits::Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?, Vec::with_capacity(16))
            }
            By::Poll => {
                let polled = |event: &OwnedFd| libc::pollfd {
                    fd: event.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                Waits::Poll(events.iter().map(polled).collect())
            }
            By::IoUring => Waits::IoUring(Box::new(IoUring::new(64).map_err(ring::refused)?)),
        };
        let mut ready = Ready { events, waits, next: 0 };
        (0..count).try_for_each(|number| ready.register(number))?;
        Ok(ready)
    }

    fn register(&mut self, number: usize) -> io::Result<()> {
        let event = &self.events[number];
        match &mut self.waits {
            Waits::Epoll(epoll, _) => {
                epoll::add(epoll, event, EventData::new_u64(number as u64), EventFlags::IN)?;
            }
            Waits::Poll(_) => {}
            Waits::IoUring(ring) => {
                let poll = opcode::PollAdd::new(Fd(event.as_raw_fd()), libc::POLLIN as u32);
                let request = poll.multi(true).build().user_data(number as u64);
                // SAFETY: the request has no memory, and its descriptor is open as long as the ring.
                unsafe { ring.submission().push(&request) }.map_err(io::Error::other)?;
                ring.submit()?;
            }
        }
        Ok(())
    }

    /// Removes a descriptor from an epoll and adds it again, `n` times. Without an epoll it does nothing.
    ///
    /// # Errors
    ///
    /// Those of epoll_ctl(2).
    pub fn register_again(&mut self, n: u64) -> io::Result<()> {
        for _ in 0..n {
            let number = self.advance();
            if let Waits::Epoll(epoll, _) = &self.waits {
                epoll::delete(epoll, &self.events[number])?;
                self.register(number)?;
            }
        }
        Ok(())
    }

    /// Writes to a descriptor, waits for any, and reads the one that is ready, `n` times; another one each time.
    ///
    /// # Errors
    ///
    /// Those of the calls; `InvalidData` if another one was ready.
    pub fn wake(&mut self, n: u64) -> io::Result<()> {
        for _ in 0..n {
            let number = self.advance();
            let event = self.events[number].as_fd();
            rustix::io::write(event, &1_u64.to_ne_bytes())?;
            if self.wait()? != number as u64 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "another one was ready"));
            }
            rustix::io::read(&self.events[number], &mut [0_u8; 8])?;
        }
        Ok(())
    }

    /// The next descriptor, far from the last.
    fn advance(&mut self) -> usize {
        self.next = (self.next + 7919) % self.events.len();
        self.next
    }

    /// The number of a descriptor that can be read.
    #[inline]
    fn wait(&mut self) -> io::Result<u64> {
        match &mut self.waits {
            Waits::Epoll(epoll, ready) => {
                ready.clear();
                epoll::wait(epoll, spare_capacity(ready), None)?;
                ready.first().map(|event| event.data.u64())
            }
            Waits::Poll(polled) => {
                let count = polled.len() as libc::nfds_t;
                // SAFETY: an array of so many, borrowed mutably.
                check(unsafe { libc::poll(polled.as_mut_ptr(), count, -1) })?;
                let ready = polled.iter().position(|event| event.revents != 0);
                ready.map(|number| number as u64)
            }
            Waits::IoUring(ring) => {
                ring.submit_and_wait(1)?;
                let ready = ring.completion().next().ok_or(io::ErrorKind::WouldBlock)?;
                if !io_uring::cqueue::more(ready.flags()) {
                    self.register(ready.user_data() as usize)?;
                }
                Some(ready.user_data())
            }
        }
        .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_written_to_is_found() {
        for by in [By::Epoll, By::Poll, By::IoUring] {
            for count in [1, 100] {
                let mut ready = match Ready::new(by, count) {
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                        eprintln!("skipped: {error}");
                        continue;
                    }
                    ready => ready.unwrap(),
                };
                ready.wake(300).unwrap();
                ready.register_again(10).unwrap();
                ready.wake(1).unwrap();
            }
        }
    }
}
