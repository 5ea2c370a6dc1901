//! No copy: the kernel sends the fields' own pages, and reports when it no longer uses them. A message may begin with a
//! header that is copied, as one that is too small to be worth its pages.
//!
//! Source: Documentation/networking/msg_zerocopy.rst of the kernel; poll(2), as errors are ready
//! without being asked for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use super::parts::{Rest, send_parts, split};
use super::{Call, Counts, HEADER_BYTES, REAP_EVERY, STALLED, stalled};
use crate::memory::fields::Messages;
use crate::net::poll::able;
use crate::net::unsupported;
use crate::net::zerocopy::{self, Completions};

/// How many times the thread polls for completions before it sleeps until one arrives.
const MAX_POLLS: u32 = 1000;

/// Gives the kernel the fields' pages.
#[derive(Debug)]
pub(super) struct MsgZerocopy {
    rest: Rest,
    completions: Completions,
    /// Sends since completions were asked for.
    not_reaped: u64,
    /// Room for the parts of a header that is copied, and for those after it.
    header: Option<[Rest; 2]>,
}

impl MsgZerocopy {
    pub(super) fn new(
        socket: &impl AsFd,
        messages: &Messages,
        has_header: bool,
    ) -> io::Result<Self> {
        zerocopy::enable(socket).map_err(|error| {
            unsupported(format!("this kind of socket has no SO_ZEROCOPY: {error}"))
        })?;
        Ok(Self {
            rest: Rest::new(messages.fields()),
            completions: Completions::default(),
            not_reaped: 0,
            header: has_header.then(|| [(); 2].map(|()| Rest::new(messages.fields()))),
        })
    }

    #[inline]
    pub(super) fn send(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        let Some(mut header) = self.header.take() else {
            return self.send_uncopied(parts, call);
        };
        split(parts, HEADER_BYTES, &mut header);
        let [copied, uncopied] = &header;
        let sent = self.rest.whole(&copied.0, |parts| {
            call.system_calls += 1;
            let sent = send_parts(call.socket, parts, libc::MSG_MORE);
            sent.or_else(|error| call.again(error))
        });
        let sent = sent.and_then(|()| self.send_uncopied(&uncopied.0, call));
        self.header = Some(header);
        sent
    }

    #[inline]
    fn send_uncopied(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        let socket = call.socket;
        let mut copies = false;
        let completions = &mut self.completions;
        let mut asked = 0;
        self.rest.whole(parts, |parts| {
            call.system_calls += 1;
            let flags = if copies { 0 } else { libc::MSG_ZEROCOPY };
            match send_parts(socket, parts, flags) {
                Ok(sent) => {
                    asked += u64::from(!copies);
                    Ok(sent)
                }
                // Too much is in flight. Completions make room; if there are none, it copies instead of
                // waiting, as a program would.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && !copies => {
                    let before = completions.done;
                    completions.collect(&socket)?;
                    copies = completions.done == before;
                    Ok(0)
                }
                Err(error) => {
                    // While there are unread completions, poll(2) returns at once.
                    if error.kind() == io::ErrorKind::WouldBlock {
                        completions.collect(&socket)?;
                    }
                    call.again(error)
                }
            }
        })?;
        call.asked += asked;
        call.fallbacks += u64::from(copies);
        self.not_reaped += asked;
        if self.not_reaped >= REAP_EVERY {
            self.reap(socket, call)?;
        } else {
            self.count(call);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn reap(&mut self, socket: BorrowedFd<'_>, counts: &mut Counts) -> io::Result<()> {
        self.not_reaped = 0;
        self.completions.collect(&socket)?;
        self.count(counts);
        Ok(())
    }

    #[inline]
    fn count(&mut self, counts: &mut Counts) {
        counts.system_calls += std::mem::take(&mut self.completions.system_calls);
        counts.completed = self.completions.done;
        counts.copied = self.completions.copied;
    }

    pub(super) fn complete(
        &mut self,
        socket: BorrowedFd<'_>,
        counts: &mut Counts,
    ) -> io::Result<()> {
        let mut polls = 0;
        loop {
            self.reap(socket, counts)?;
            if counts.completed >= counts.asked {
                return Ok(());
            }
            polls += 1;
            if polls > MAX_POLLS {
                counts.system_calls += 1;
                able(&socket, PollFlags::empty(), STALLED)?.ok_or_else(stalled)?;
            }
        }
    }
}
