//! Measured: reading blocks of a file, with pread(2), with io_uring and several reads in flight, or
//! by copying them from a mapping. The data goes into the reader's own memory, as in a program that
//! uses it.
//!
//! A ring belongs to the thread that creates it, if the kernel supports that
//! (`IORING_SETUP_SINGLE_ISSUER`, `IORING_SETUP_DEFER_TASKRUN`, Linux 6.1). One io_uring_enter(2)
//! submits the next reads and waits for finished ones.
//!
//! Source: pread(2), io_uring_enter(2), `IORING_OP_READ` (Linux 5.6), mmap(2), madvise(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::map::{Mapping, Sharing};
use super::order::Order;
use super::shrunk::Guard;
use crate::memory::arena::{Arena, PageSize};
use crate::net::ring::require;
use crate::system_call::{invalid, retry};
use io_uring::{IoUring, opcode, types::Fd};

/// How blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// pread(2), one block a call.
    Pread,
    /// io_uring, with this many reads in flight.
    Uring(u32),
    /// A copy from a shared mapping of the file. If the order is random, the kernel reads nothing ahead
    /// (`MADV_RANDOM`).
    Map,
}

/// The most reads in flight at once.
pub const MAX_DEPTH: u32 = 1024;

/// After this many failed waits for a ring, its reads are given up.
const MAX_FAILED_WAITS: u32 = 1000;

/// Buffers are at least this far apart in bytes, which aligns them for all known direct reads.
const BUFFER_ALIGNMENT: usize = 4096;

/// Reads the blocks of a file.
pub struct Reader {
    inner: Inner,
    order: Order,
    slots: Slots,
    /// Reads that were completed.
    count: u64,
}

enum Inner {
    Pread(File),
    Uring(IoUring, File),
    Map(Mapped),
}

/// The destination of the reads: a buffer for each read that may be in flight.
#[derive(Debug)]
struct Slots {
    memory: Arena,
    apart: usize,
    block_bytes: usize,
    /// Where each slot's block begins in the file, and when its read was requested.
    offsets: Box<[u64]>,
    requested_at: Box<[u64]>,
    /// The slot that was read last.
    last: usize,
    /// Whether a ring has been left with reads in flight, whose completions may still come.
    gave_up: bool,
}

/// A shared mapping of a file that may become shorter.
#[derive(Debug)]
struct Mapped {
    /// Dropped first: it must not answer for what is mapped at the same addresses later.
    guard: Guard,
    mapping: Mapping,
}

impl Reader {
    /// Reads the blocks of this order from the file.
    ///
    /// # Errors
    ///
    /// For [`Engine::Uring`] those of io_uring_setup(2): `ENOSYS` without it, `EPERM` if
    /// `kernel.io_uring_disabled` (Linux 6.6) or a seccomp filter forbids it. For [`Engine::Map`] those of
    /// mmap(2). `InvalidInput` for a depth of 0 or more than [`MAX_DEPTH`].
    pub fn new(engine: Engine, file: File, order: Order, is_random: bool) -> io::Result<Self> {
        let depth = match engine {
            Engine::Uring(depth) => depth,
            Engine::Pread | Engine::Map => 1,
        };
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(invalid(format!("{depth} reads cannot be in flight at once")));
        }
        let block_bytes = order.block_bytes() as usize;
        let apart = block_bytes.next_multiple_of(BUFFER_ALIGNMENT);
        let mut memory = Arena::map(apart.saturating_mul(depth as usize), PageSize::Base)?;
        memory.populate()?;
        let inner = match engine {
            Engine::Pread => Inner::Pread(file),
            Engine::Uring(depth) => Inner::Uring(ring(depth)?, file),
            Engine::Map => Inner::Map(Mapped::new(&file, order.end() as usize, is_random)?),
        };
        Ok(Self {
            inner,
            order,
            slots: Slots {
                memory,
                apart,
                block_bytes,
                offsets: vec![0; depth as usize].into(),
                requested_at: vec![0; depth as usize].into(),
                last: 0,
                gave_up: false,
            },
            count: 0,
        })
    }

    /// Reads into this memory instead. A request names every contiguous part of it, so the pages
    /// below it are part of the cost of a large direct read.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is smaller than [`Reader::memory_bytes`].
    pub fn into_memory(mut self, memory: Arena) -> io::Result<Self> {
        if memory.len() < self.memory_bytes() {
            return Err(invalid(format!("{} bytes do not hold what is read", memory.len())));
        }
        self.slots.memory = memory;
        Ok(self)
    }

    /// The size of the memory that is read into: a buffer for each read in flight.
    pub fn memory_bytes(&self) -> usize {
        self.slots.offsets.len() * self.slots.apart
    }

    /// Reads the next `n` blocks: all have been read when it returns.
    ///
    /// # Errors
    ///
    /// The first error of reading; `UnexpectedEof` if the file has become shorter.
    pub fn read(&mut self, n: u64) -> io::Result<()> {
        self.read_each(n, || 0, |_, _| {})
    }

    /// Reads the next `n` blocks; `stamp` is called when each read is requested and when its completion is
    /// seen, and `each` with both stamps.
    #[inline]
    pub fn read_each(
        &mut self,
        n: u64,
        mut stamp: impl FnMut() -> u64,
        mut each: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        self.count += n;
        match &mut self.inner {
            Inner::Pread(file) => {
                for _ in 0..n {
                    let start = stamp();
                    self.slots.pread(file, self.order.advance())?;
                    each(start, stamp());
                }
                Ok(())
            }
            Inner::Map(mapped) => {
                for _ in 0..n {
                    let start = stamp();
                    self.slots.copy(&mapped.mapping, self.order.advance());
                    each(start, stamp());
                }
                if mapped.guard.shrank() {
                    return Err(shorter());
                }
                Ok(())
            }
            Inner::Uring(ring, file) => {
                let file = Fd(file.as_raw_fd());
                self.slots.uring(ring, file, &mut self.order, n, stamp, each)
            }
        }
    }

    /// Begins again with the first block of the order.
    pub fn rewind(&mut self) {
        self.order.rewind();
    }

    /// Unmaps the pages of the mapping, if there is one, so that they can be evicted: the next copy of each
    /// faults.
    ///
    /// # Errors
    ///
    /// The errors of madvise(2).
    pub fn unmap_pages(&self) -> io::Result<()> {
        match &self.inner {
            Inner::Map(mapped) => mapped.mapping.unmap_pages(),
            Inner::Pread(_) | Inner::Uring(..) => Ok(()),
        }
    }

    /// How many blocks there are before the order repeats.
    pub fn blocks(&self) -> u64 {
        self.order.count()
    }

    /// Bytes read, or requested, since it was created.
    pub fn read_bytes(&self) -> u64 {
        self.count * self.order.block_bytes()
    }

    /// The block read last: where it begins in the file, and its bytes.
    pub fn last(&self) -> (u64, &[u8]) {
        let slots = &self.slots;
        let bytes = &slots.memory.as_slice()[slots.last * slots.apart..][..slots.block_bytes];
        (slots.offsets[slots.last], bytes)
    }
}

impl Slots {
    #[inline]
    fn buffer(&mut self, slot: usize) -> *mut u8 {
        self.memory.as_mut_slice()[slot * self.apart..].as_mut_ptr()
    }

    #[inline]
    fn pread(&mut self, file: &File, offset: u64) -> io::Result<()> {
        self.offsets[0] = offset;
        let buffer = self.buffer(0);
        let (file, bytes) = (file.as_raw_fd(), self.block_bytes);
        let offset = offset.cast_signed();
        // SAFETY: the slot holds a block, and nobody else has it.
        let read = retry(|| unsafe { libc::pread64(file, buffer.cast(), bytes, offset) })?;
        // Reads of a file stop short only at its end.
        if read.cast_unsigned() == bytes {
            return Ok(());
        }
        Err(shorter())
    }

    #[inline]
    fn copy(&mut self, mapping: &Mapping, offset: u64) {
        self.offsets[0] = offset;
        let (buffer, bytes) = (self.buffer(0), self.block_bytes);
        // SAFETY: the order's blocks lie inside the mapping, whose pages are there or are put there
        // by the guard; the slot holds a block.
        unsafe {
            ptr::copy_nonoverlapping(mapping.start().add(offset as usize), buffer, bytes);
        }
        std::hint::black_box(buffer);
    }

    /// Keeps as many reads in flight as there are slots, until `n` are complete. A panic of `stamp` or `each`
    /// ends the process.
    #[inline]
    fn uring(
        &mut self,
        ring: &mut IoUring,
        file: Fd,
        order: &mut Order,
        n: u64,
        stamp: impl FnMut() -> u64,
        each: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        let in_flight = AbortOnUnwind;
        let done = self.keep_in_flight(ring, file, order, n, stamp, each);
        std::mem::forget(in_flight);
        done
    }

    #[inline]
    fn keep_in_flight(
        &mut self,
        ring: &mut IoUring,
        file: Fd,
        order: &mut Order,
        n: u64,
        mut stamp: impl FnMut() -> u64,
        mut each: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        if self.gave_up {
            return Err(io::Error::other("this ring's reads were given up"));
        }
        let mut failed = None;
        let (mut requested, mut in_flight, mut failed_waits) = (0, 0, 0);
        while in_flight < self.offsets.len() && requested < n {
            self.request(ring, file, in_flight, order.advance(), &mut stamp);
            in_flight += 1;
            requested += 1;
        }
        while in_flight > 0 {
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Reads in flight write to this memory, so this waits for them. If waiting keeps failing, the
                // memory is never freed, and the ring never used again: a late completion would be taken for
                // that of another read.
                Err(error) => {
                    failed = failed.or(Some(error));
                    failed_waits += 1;
                    if failed_waits > MAX_FAILED_WAITS {
                        let other = Arena::map(self.memory.len(), PageSize::Base)
                            .expect("without other memory, this one cannot be left to the kernel");
                        std::mem::forget(std::mem::replace(&mut self.memory, other));
                        self.gave_up = true;
                        break;
                    }
                }
            }
            loop {
                let Some(completion) = ring.completion().next() else {
                    break;
                };
                in_flight -= 1;
                let slot = completion.user_data() as usize;
                self.last = slot;
                match usize::try_from(completion.result()) {
                    Ok(bytes) if bytes == self.block_bytes => {}
                    Ok(_) => failed = failed.or_else(|| Some(shorter())),
                    Err(_) => {
                        let error = io::Error::from_raw_os_error(-completion.result());
                        failed = failed.or(Some(error));
                    }
                }
                each(self.requested_at[slot], stamp());
                if requested < n && failed.is_none() {
                    self.request(ring, file, slot, order.advance(), &mut stamp);
                    in_flight += 1;
                    requested += 1;
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    #[inline]
    fn request(
        &mut self,
        ring: &mut IoUring,
        file: Fd,
        slot: usize,
        offset: u64,
        stamp: &mut impl FnMut() -> u64,
    ) {
        self.offsets[slot] = offset;
        let buffer = self.buffer(slot);
        let request = opcode::Read::new(file, buffer, self.block_bytes as u32)
            .offset(offset)
            .build()
            .user_data(slot as u64);
        self.requested_at[slot] = stamp();
        // SAFETY: the slot's memory stays until the read is complete, for which the caller waits, and nobody
        // uses it meanwhile.
        let pushed = unsafe { ring.submission().push(&request) };
        // Otherwise, this would wait for a completion that never comes.
        pushed.expect("the ring has room for every slot");
    }
}

/// Ends the process if it is dropped: unwinding would free memory to which the kernel still writes.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

fn ring(depth: u32) -> io::Result<IoUring> {
    let mut deferring = IoUring::builder();
    deferring.setup_single_issuer().setup_defer_taskrun();
    // Before Linux 6.1, or if a filter allows only older flags.
    let ring = deferring.build(depth).or_else(|_| IoUring::new(depth))?;
    require(&ring, (opcode::Read::CODE, "IORING_OP_READ (Linux 5.6)"))?;
    Ok(ring)
}

fn shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter while it was read")
}

impl Mapped {
    fn new(file: &File, len: usize, is_random: bool) -> io::Result<Self> {
        let mapping = Mapping::new(file, 0, len, Sharing::ReadShared)?;
        let guard = Guard::install(mapping.start(), len)?;
        if is_random {
            mapping.disable_read_ahead()?;
        }
        Ok(Self { mapping, guard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::data::{Access, DataFile, is_content};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const FILE_BYTES: u64 = 1 << 20;
    const ENGINES: [Engine; 4] = [Engine::Pread, Engine::Uring(1), Engine::Uring(7), Engine::Map];

    /// Runs `check` with a reader of each supported engine, on a file of its own.
    fn with_each(order: &Order, mut check: impl FnMut(Engine, Reader, &DataFile)) {
        for engine in ENGINES {
            let Some(data) = DataFile::for_test(FILE_BYTES) else {
                return;
            };
            let file = data.open(Access::CachedRandom).unwrap();
            match Reader::new(engine, file, order.clone(), true) {
                Ok(reader) => check(engine, reader, &data),
                Err(error) => eprintln!("checked less: {engine:?}: {error}"),
            }
        }
    }

    #[test]
    fn every_engine_reads_the_blocks_of_its_order() {
        for block in [256, 4096, 65536] {
            let order = Order::sequential(FILE_BYTES, block);
            with_each(&order, |engine, mut reader, _| {
                let blocks = reader.blocks();
                let mut seen = 0;
                for n in [1, 2, 30, blocks] {
                    reader.read(n).unwrap();
                    seen += n;
                    let (offset, bytes) = reader.last();
                    assert!(is_content(bytes, offset), "{engine:?} {block}");
                    if engine != Engine::Uring(7) {
                        assert_eq!(offset, (seen - 1) % blocks * block, "{engine:?}");
                    }
                }
                assert_eq!(reader.read_bytes(), seen * block);
                reader.rewind();
                reader.read(1).unwrap();
                assert_eq!(reader.last().0, 0);
            });
        }
    }

    #[test]
    fn each_read_is_stamped_as_it_is_asked_for_and_when_it_is_there() {
        let order = Order::from_offsets(vec![8192, 0, 4096], 4096);
        with_each(&order, |engine, mut reader, _| {
            let (mut time, mut stamps) = (0, Vec::new());
            let stamp = || {
                time += 1;
                time
            };
            let each = |start, end| stamps.push((start, end));
            reader.read_each(20, stamp, each).unwrap();
            assert_eq!(stamps.len(), 20);
            assert!(stamps.iter().all(|(start, end)| start < end), "{stamps:?}");
            let depth = match engine {
                Engine::Uring(depth) => u64::from(depth),
                _ => 1,
            };
            let longest = stamps.iter().map(|(start, end)| end - start).max();
            assert!(longest < Some(4 * depth), "{engine:?} {stamps:?}");
        });
    }

    #[test]
    fn a_file_that_gets_shorter_is_an_error_for_every_engine() {
        let order = Order::sequential(FILE_BYTES, 4096);
        with_each(&order, |engine, mut reader, data| {
            reader.read(16).unwrap();
            data.file().set_len(100_000).unwrap();
            let error = reader.read(200).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{engine:?}");
        });
    }

    #[test]
    fn blocks_are_read_into_the_memory_that_is_given() {
        let order = Order::sequential(FILE_BYTES, 65536);
        with_each(&order, |engine, reader, _| {
            let Ok(memory) = Arena::map(reader.memory_bytes(), PageSize::Huge) else {
                eprintln!("skipped: no huge pages");
                return;
            };
            let range = memory.as_slice().as_ptr_range();
            let mut reader = reader.into_memory(memory).unwrap();
            reader.read(16).unwrap();
            let (offset, bytes) = reader.last();
            assert!(is_content(bytes, offset), "{engine:?}");
            assert!(range.contains(&bytes.as_ptr()), "{engine:?}");
            let small = Arena::map(4096, PageSize::Base).unwrap();
            assert!(reader.into_memory(small).is_err(), "{engine:?}");
        });
    }

    #[test]
    fn a_panic_while_the_kernel_reads_ends_the_process() {
        let order = Order::sequential(FILE_BYTES, 4096);
        let mut is_here = false;
        with_each(&order, |engine, _, _| is_here |= engine == Engine::Uring(7));
        let test = "file::reads::tests::child_panics_with_reads_in_flight";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let ended = child.args(["--ignored", "--exact", test]).output().unwrap();
        let signal = is_here.then_some(libc::SIGABRT);
        assert_eq!(ended.status.signal(), signal, "{ended:?}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_panics_with_reads_in_flight() {
        let order = Order::sequential(FILE_BYTES, 4096);
        with_each(&order, |engine, mut reader, _| {
            if engine == Engine::Uring(7) {
                let each = |_, _| panic!("while others are in flight");
                reader.read_each(20, || 0, each).unwrap();
            }
        });
    }

    #[test]
    fn a_ring_whose_reads_were_given_up_is_not_used_again() {
        let order = Order::sequential(FILE_BYTES, 4096);
        with_each(&order, |_, mut reader, data| {
            let Inner::Uring(ring, _) = &reader.inner else {
                return;
            };
            // Another file in the ring's place, so that no wait succeeds.
            // SAFETY: takes open descriptors.
            unsafe { libc::dup2(data.file().as_raw_fd(), ring.as_raw_fd()) };
            let first = reader.read(1).unwrap_err().to_string();
            let second = reader.read(1).unwrap_err().to_string();
            assert!(!first.contains("given up"), "{first}");
            assert!(second.contains("given up"), "{second}");
        });
    }

    #[test]
    fn a_second_mapped_reader_of_a_thread_is_refused() {
        let Some(data) = DataFile::for_test(FILE_BYTES) else {
            return;
        };
        let mapped = || {
            let file = data.open(Access::Cached).unwrap();
            let order = Order::sequential(FILE_BYTES, 4096);
            Reader::new(Engine::Map, file, order, true)
        };
        let first = mapped().unwrap();
        let refused = mapped().err().unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::EDEADLK));
        drop(first);
        mapped().unwrap();
    }

    #[test]
    fn no_read_or_too_many_cannot_be_in_flight() {
        let Some(data) = DataFile::for_test(FILE_BYTES) else {
            return;
        };
        for depth in [0, MAX_DEPTH + 1] {
            let file = data.open(Access::Cached).unwrap();
            let order = Order::sequential(FILE_BYTES, 4096);
            assert!(Reader::new(Engine::Uring(depth), file, order, true).is_err());
        }
    }
}
