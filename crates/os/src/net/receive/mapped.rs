//! `TCP_ZEROCOPY_RECEIVE`: the kernel maps the pages in which bytes arrived where the program reads
//! them.
//!
//! The kernel maps only data that fills a whole page by itself: pages of a device that puts headers
//! elsewhere, or of a sender on this machine that used `MSG_ZEROCOPY`, whose data the kernel copies
//! page by page. Plain sends copy data into larger pieces of memory, none of which can be mapped.
//! The copy of a packet begins at a page boundary. So if a packet's payload, which is the MSS or a
//! multiple of it, is not a multiple of a page, the rest fills only a part of the last page and is
//! copied: of 65,483 B, 15 pages of 4 KiB are mapped and 4,043 B copied. It is worse if the
//! receiver's position is inside a page, for example after a message that ended there: the kernel
//! then maps nothing more of that packet (`recv_skip_hint` is everything that is left of it).
//! Messages and segments of whole pages avoid both.
//!
//! At the end of the stream the error is EIO. If there is nothing to map yet, there is no error and
//! no wait.
//!
//! Source: Linux 4.18; `tcp_zerocopy_receive` in net/ipv4/tcp.c; include/uapi/linux/tcp.h;
//! tools/testing/selftests/net/tcp_mmap.c.

use super::stream::Stream;
use super::{Counts, Shape, Way};
use crate::memory::arena::base_page_bytes;
use crate::net::socket_option::{Plain, fetch};
use crate::net::unsupported;
use std::io::{self, ErrorKind};
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// libc has neither.
const TCP_ZEROCOPY_RECEIVE: libc::c_int = 35;

/// `struct tcp_zerocopy_receive` of include/uapi/linux/tcp.h, in its first form: it grows at its end, and a
/// kernel accepts any length.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    /// Where to map to.
    address: u64,
    /// How many bytes may be mapped, then how many were.
    length: u32,
    /// How many bytes come next that cannot be mapped.
    recv_skip_hint: u32,
}

// SAFETY: it is numbers without bytes between them.
unsafe impl Plain for Request {}

pub(super) struct Mapped {
    stream: Stream,
    size: usize,
    page: usize,
    area: Area,
    /// The bytes of the last message that were not mapped.
    copied: Vec<u8>,
    /// The pieces of the last message in order: how many bytes, and whether they are mapped.
    pieces: Vec<(usize, bool)>,
}

/// Where pages of a socket are mapped to.
struct Area {
    start: *mut u8,
    len: usize,
}

impl Area {
    fn map(stream: &Stream, len: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses disturbs nothing.
        let start = unsafe {
            mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &stream.socket, 0)
        };
        let start = start.map_err(|error| {
            unsupported(format!(
                "only a TCP socket's pages can be mapped, and by Linux 4.18 or later with \
                 CONFIG_MMU: {error}"
            ))
        })?;
        Ok(Self { start: start.cast(), len })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this area's own, and no borrow of it is left.
        let unmapped = unsafe { munmap(self.start.cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "an area's own mapping can be unmapped");
    }
}

impl Mapped {
    /// # Errors
    ///
    /// `Unsupported` if the stream is not TCP, the kernel does not support this, or a message is smaller than
    /// a page.
    pub(super) fn new(stream: Stream, shape: Shape) -> io::Result<Self> {
        let (size, page) = (shape.size, base_page_bytes());
        if size < page {
            return Err(unsupported(format!(
                "only whole pages are mapped, and a message of {size} B is smaller than a page of {page} B"
            )));
        }
        let area = Area::map(&stream, size.next_multiple_of(page))?;
        Ok(Self {
            stream,
            size,
            page,
            area,
            copied: Vec::with_capacity(size),
            // Mapped pieces have a page each, with copied ones between them.
            pieces: Vec::with_capacity(2 * (size / page) + 1),
        })
    }

    /// Maps up to this many bytes, in whole pages, after those that are mapped. Returns how many it mapped,
    /// and how many come next that cannot be mapped. Both are 0 if nothing has arrived yet.
    #[inline]
    fn map_more(&self, mapped: usize, most: usize) -> io::Result<(usize, usize)> {
        let mut request = [Request {
            address: self.area.start.addr() as u64 + mapped as u64,
            length: most as u32,
            recv_skip_hint: 0,
        }];
        // No borrow of the mapping is held now, in which pages change.
        let option = (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE);
        fetch(&self.stream.socket, option, &mut request).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EIO) => ErrorKind::UnexpectedEof.into(),
                Some(libc::ENOPROTOOPT) => {
                    unsupported("this kernel cannot map what TCP receives (Linux 4.18, CONFIG_MMU)")
                }
                _ => error,
            }
        })?;
        let [request] = request;
        let (length, skip) = (request.length as usize, request.recv_skip_hint as usize);
        if length > most {
            return Err(io::Error::other("more was mapped than requested"));
        }
        Ok((length, skip))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size);
        let (mut mapped, mut copied) = (0, 0);
        for &(length, is_mapped) in &self.pieces {
            if is_mapped {
                // SAFETY: the kernel has mapped pages there that can be read, no call that changes
                // that can be made while this borrows, and what has arrived is not written again.
                let piece =
                    unsafe { std::slice::from_raw_parts(self.area.start.add(mapped), length) };
                bytes.extend_from_slice(piece);
                mapped += length;
            } else {
                bytes.extend_from_slice(&self.copied[copied..][..length]);
                copied += length;
            }
        }
        bytes
    }
}

impl Way for Mapped {
    #[inline]
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()> {
        self.pieces.clear();
        self.copied.resize(self.size, 1);
        let (mut mapped, mut copied) = (0, 0);
        while mapped + copied < self.size {
            let rest = self.size - mapped - copied;
            let most = rest - rest % self.page;
            let (length, mut skip) = match most {
                0 => (0, rest),
                most => {
                    counts.calls += 1;
                    self.map_more(mapped, most)?
                }
            };
            if length > 0 {
                self.pieces.push((length, true));
                mapped += length;
                counts.mapped_bytes += length as u64;
            }
            skip = skip.min(self.size - mapped - copied);
            if skip > 0 {
                counts.calls += 1;
                let came = self.stream.receive(&mut self.copied[copied..][..skip])?;
                match self.pieces.last_mut() {
                    Some((length, false)) => *length += came,
                    _ => self.pieces.push((came, false)),
                }
                copied += came;
            } else if length == 0 {
                self.stream.wait(&mut counts.calls)?;
            }
        }
        Ok(())
    }

    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>> {
        self.receive(counts)?;
        Ok(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_request_is_laid_out_as_the_kernel_has_it() {
        assert_eq!(offset_of!(Request, length), 8);
        assert_eq!(offset_of!(Request, recv_skip_hint), 12);
        assert_eq!(size_of::<Request>(), 16);
    }
}
