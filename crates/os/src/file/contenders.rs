//! Other processes that read the same device: each reads its own file again and again, bypassing
//! the page cache, until it ends. They end when this process does, however it ends: the kernel
//! kills them (`PR_SET_PDEATHSIG`), and each checks whether its parent had already ended.
//!
//! A child runs one function that only makes system calls, on memory allocated before the fork, and
//! ends with _exit(2). So a lock that another thread held cannot block it.
//!
//! Source: fork(2), prctl(2), pread(2), sched_setaffinity(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::process::Pid;

use super::data::{Access, DataFile};
use crate::memory::arena::{Arena, PageSize};
use crate::memory::shared::SharedMemory;
use crate::process::child::{self, Child};
use crate::sched::affinity;

/// The reading processes.
#[derive(Debug)]
pub struct Contenders {
    /// Dropped first, which ends the children before what they use.
    children: Vec<Child>,
    shared: SharedMemory,
    /// Their files, and the memory that they read into: each child has both as they were when it was started.
    _files: Vec<(DataFile, File)>,
    _buffer: Arena,
}

/// What each of them reports, in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
struct Status {
    reads: AtomicU64,
    /// The error that ended it; 0 for none.
    error: AtomicI32,
}

impl Contenders {
    /// Starts one process for each of these files, which reads it from the beginning to the end again and
    /// again, `block_bytes` at a time. They run on these CPUs, in turn; on any CPU if there are none.
    ///
    /// # Errors
    ///
    /// Those of opening a file with `O_DIRECT`, mmap(2) and fork(2).
    pub fn start(files: Vec<DataFile>, block_bytes: usize, cpus: &[usize]) -> io::Result<Self> {
        let mut buffer = Arena::map(block_bytes, PageSize::Base)?;
        buffer.populate()?;
        let shared = SharedMemory::map(files.len().max(1) * size_of::<Status>())?;
        let opened = files.into_iter().map(|data| {
            let file = data.open(Access::Direct)?;
            Ok((data, file))
        });
        let mut all = Self {
            children: Vec::new(),
            shared,
            _files: opened.collect::<io::Result<_>>()?,
            _buffer: buffer,
        };
        let parent = rustix::process::getpid();
        for number in 0..all._files.len() {
            let (data, file) = &all._files[number];
            let cpu = (!cpus.is_empty()).then(|| cpus[number % cpus.len()]);
            let work = Work {
                parent,
                file: file.as_raw_fd(),
                file_bytes: data.len(),
                buffer: all._buffer.as_mut_slice().as_mut_ptr(),
                block_bytes,
                status: all.status(number),
                cpu: cpu.map(|cpu| affinity::set(&[cpu])).transpose()?,
            };
            // SAFETY: the child runs `read` alone.
            match Child::started(unsafe { libc::fork() })? {
                Some(child) => all.children.push(child),
                None => work.read(),
            }
        }
        Ok(all)
    }

    fn status(&self, number: usize) -> *const Status {
        self.shared.as_ptr().cast::<Status>().wrapping_add(number)
    }

    /// How many blocks each has read so far.
    ///
    /// # Errors
    ///
    /// The error that ended one of them.
    pub fn reads(&self) -> io::Result<Vec<u64>> {
        (0..self.children.len())
            .map(|number| {
                // SAFETY: the mapping has room for as many, is aligned to a page, and holds numbers
                // that are changed atomically alone; zeroes are valid.
                let status = unsafe { &*self.status(number) };
                match status.error.load(Ordering::Relaxed) {
                    0 => Ok(status.reads.load(Ordering::Relaxed)),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            })
            .collect()
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        let pids = self.children.iter();
        pids.map(|child| child.pid().as_raw_nonzero().get().cast_unsigned()).collect()
    }
}

struct Work {
    parent: Pid,
    file: libc::c_int,
    file_bytes: u64,
    buffer: *mut u8,
    block_bytes: usize,
    status: *const Status,
    cpu: Option<Vec<u64>>,
}

impl Work {
    /// Only system calls.
    fn read(&self) -> ! {
        // SAFETY: numbers, and memory that is this process's own or shared, and there.
        unsafe {
            if !child::ends_with(self.parent) {
                libc::_exit(1);
            }
            if let Some(cpu) = &self.cpu {
                // If this fails, it runs elsewhere.
                let _ = affinity::pin_to(cpu);
            }
            let status = &*self.status;
            let mut offset = 0;
            loop {
                let read = libc::pread64(
                    self.file,
                    self.buffer.cast(),
                    self.block_bytes,
                    offset as libc::off64_t,
                );
                if read != self.block_bytes as isize {
                    let error = match read {
                        -1 => *libc::__errno_location(),
                        _ => libc::EIO,
                    };
                    status.error.store(error, Ordering::Relaxed);
                    libc::_exit(1);
                }
                status.reads.fetch_add(1, Ordering::Relaxed);
                offset += self.block_bytes as u64;
                if offset + self.block_bytes as u64 > self.file_bytes {
                    offset = 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    fn files(count: usize) -> Option<Vec<DataFile>> {
        let made: io::Result<Vec<DataFile>> = (0..count)
            .map(|_| {
                let mut data = DataFile::create(None)?;
                data.extend(64 << 10)?;
                data.open(Access::Direct)?;
                Ok(data)
            })
            .collect();
        match made {
            Ok(files) => Some(files),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    #[test]
    fn they_read_as_long_as_they_are_there() {
        let Some(files) = files(3) else { return };
        let contenders = Contenders::start(files, 4096, &[]).unwrap();
        let pids = contenders.pids();
        let began = Instant::now();
        while contenders.reads().unwrap().iter().any(|reads| *reads < 20) {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(contenders);
        for pid in pids {
            assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
        }
    }

    #[test]
    fn an_error_that_ends_one_is_reported() {
        let Some(files) = files(1) else { return };
        files[0].file().set_len(4096).unwrap();
        let contenders = Contenders::start(files, 4096, &[]).unwrap();
        let began = Instant::now();
        while contenders.reads().is_ok() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn none_needs_no_file() {
        let contenders = Contenders::start(Vec::new(), 4096, &[0]).unwrap();
        assert_eq!(contenders.reads().unwrap(), Vec::<u64>::new());
    }
}
