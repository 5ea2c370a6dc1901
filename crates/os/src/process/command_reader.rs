//! A process that reads this process's standard input in its place. So this one needs no second
//! thread to be stopped by a message, or to end when its input closes.
//!
//! A second thread would change what this process measures: calls on file descriptors take a
//! reference while the descriptor table is shared, and the C library's calls become cancellation
//! points.
//!
//! Source: fork(2), pipe(2), prctl(2) on `PR_SET_PDEATHSIG`, close_range(2).

use std::ffi::CStr;
use std::io::{self, PipeWriter};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};

use crate::memory::shared::SharedMemory;
use crate::process::child::{self, Child};
use crate::sched::affinity;

/// The name of the process, of at most 15 bytes, in ps(1) and top(1).
const NAME: &CStr = c"costof commands";

/// A process that passes on standard input, line by line. It is killed when this is dropped, and
/// ends with this process.
#[derive(Debug)]
pub struct CommandReader {
    child: Child,
    stop: &'static AtomicBool,
}

impl CommandReader {
    /// Forks the reader. From then on, this process's standard input is a pipe to which the reader
    /// writes every line unchanged, except lines that equal `stop_line`, ignoring white space. Each
    /// of these sets [`CommandReader::stop`] before any later line is passed on.
    ///
    /// When the original standard input ends or cannot be read, the reader kills this process: with
    /// its whole process group if it leads one, otherwise alone. Nothing may have been read through
    /// Rust's `stdin` before.
    ///
    /// # Errors
    ///
    /// The errors of pipe(2), mmap(2), fork(2) and dup2(2).
    pub fn start(stop_line: &[u8]) -> io::Result<Self> {
        let memory = SharedMemory::map(size_of::<AtomicBool>())?;
        // SAFETY: the mapping is large enough, aligned to a page and made of zeroes, which is
        // `false`; it is never unmapped, since it is forgotten below.
        let stop: &'static AtomicBool = unsafe { &*memory.as_ptr().cast() };
        std::mem::forget(memory);
        let (passed_on, writer) = io::pipe()?;
        let worker = rustix::process::getpid();
        // SAFETY: this process may have other threads, so the child may only do what is safe in a
        // signal handler: it makes system calls on what was set up before, and ends.
        let Some(child) = Child::started(unsafe { libc::fork() })? else {
            run_reader(worker, &writer, stop_line, stop)
        };
        let reader = Self { child, stop };
        // As a shell's `<` does.
        dup2_stdin(&passed_on)?;
        Ok(reader)
    }

    /// The flag that the stop line sets to true; the caller resets it. Reading it costs as much as
    /// any memory access.
    pub fn stop(&self) -> &'static AtomicBool {
        self.stop
    }

    /// Moves the reader off `cpus`, if it may run on others.
    ///
    /// # Errors
    ///
    /// The errors of sched_getaffinity(2) and sched_setaffinity(2).
    pub fn leave(&self, cpus: &[usize]) -> io::Result<()> {
        let pid = self.child.pid().as_raw_nonzero().get();
        let mut others = affinity::allowed_to(pid)?;
        others.retain(|cpu| !cpus.contains(cpu));
        if others.is_empty() {
            return Ok(());
        }
        affinity::pin_process(pid, &affinity::set(&others)?)
    }
}

/// The child's work. It allocates nothing and takes no lock, since another thread may have held one
/// when the process was copied.
fn run_reader(worker: Pid, pipe: &PipeWriter, stop_line: &[u8], stop: &AtomicBool) -> ! {
    let _ = rustix::thread::set_name(NAME);
    if child::ends_with(worker) {
        let [input, output] = keep_only(pipe);
        pass_on_lines(input, output, stop_line, stop);
        end(worker);
    }
    child::exit_at_once(0)
}

/// Makes the pipe standard output, and closes every other descriptor but standard input: a process that waits
/// for the end of this process's output must not wait for the reader. Returns both.
fn keep_only(pipe: &PipeWriter) -> [BorrowedFd<'static>; 2] {
    let _ = dup2_stdout(pipe);
    // SAFETY: nothing in the child uses the descriptors that are closed.
    unsafe { child::close_from(libc::STDERR_FILENO) };
    [stdin(), stdout()]
}

/// Passes on lines until the input ends, or nobody reads them.
fn pass_on_lines(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    stop_line: &[u8],
    stop: &AtomicBool,
) {
    let mut buffer = [0; 64 << 10];
    let mut lines = Lines::new(stop_line, stop);
    loop {
        let read = retry_on_intr(|| rustix::io::read(input, &mut buffer));
        let Ok(bytes @ 1..) = read else {
            return;
        };
        let passed = lines.pass(&buffer[..bytes], |bytes| write_all(output, bytes));
        if passed.is_err() {
            return;
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(to, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Kills the worker, with its process group if it leads one, and so this process too.
fn end(worker: Pid) {
    let _ = if rustix::process::getpgrp() == worker {
        rustix::process::kill_process_group(worker, Signal::KILL)
    } else {
        rustix::process::kill_process(worker, Signal::KILL)
    };
}

/// Lines as they arrive in pieces. A line that may be the stop line is held until it is complete.
struct Lines<'a> {
    stop_line: &'a [u8],
    stop: &'a AtomicBool,
    held: [u8; LONGEST_HELD],
    held_bytes: usize,
    /// Whether it is inside a longer line, part of which was passed on.
    is_within: bool,
}

/// The longest line that may be the stop line, in bytes.
const LONGEST_HELD: usize = 64;

impl<'a> Lines<'a> {
    fn new(stop_line: &'a [u8], stop: &'a AtomicBool) -> Self {
        Self { stop_line, stop, held: [0; LONGEST_HELD], held_bytes: 0, is_within: false }
    }

    /// Passes on what is known not to be the stop line. The stop line sets the flag before anything after it
    /// is passed on: a process that has read a later line must find the flag set.
    fn pass(
        &mut self,
        bytes: &[u8],
        mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            let all = self.held_bytes + piece.len();
            if self.is_within || all > LONGEST_HELD {
                pass_on(&self.held[..self.held_bytes])?;
                pass_on(piece)?;
                self.held_bytes = 0;
                self.is_within = !is_end;
                continue;
            }
            self.held[self.held_bytes..all].copy_from_slice(piece);
            self.held_bytes = all;
            if is_end {
                self.held_bytes = 0;
                if self.is_stop(&self.held[..all]) {
                    self.stop.store(true, Ordering::Release);
                } else {
                    pass_on(&self.held[..all])?;
                }
            }
        }
        Ok(())
    }

    fn is_stop(&self, line: &[u8]) -> bool {
        let is_text = |byte: &&u8| !byte.is_ascii_whitespace();
        let text = line.iter().filter(is_text);
        text.eq(self.stop_line.iter().filter(is_text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::child;
    use std::fs;
    use std::io::{BufRead, Read, Write};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{ExitStatus, Stdio};
    use std::time::Duration;

    const STOP: &[u8] = br#"{"do":"stop"}"#;

    /// What is passed on of text that comes in pieces of this size, before and after the flag is
    /// set.
    fn passed(text: &str, size: usize) -> [String; 2] {
        let stop = AtomicBool::new(false);
        let (mut lines, mut out) = (Lines::new(STOP, &stop), [Vec::new(), Vec::new()]);
        for piece in text.as_bytes().chunks(size) {
            let pass_on = |bytes: &[u8]| {
                let after = usize::from(stop.load(Ordering::Acquire));
                out[after].write_all(bytes)
            };
            lines.pass(piece, pass_on).unwrap();
        }
        out.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn every_line_but_the_one_to_stop_is_passed_on() {
        let long = "x".repeat(1000);
        let around = format!("one\n\n{long}\n{{\"do\":\"stopped\"}}\n");
        for size in [1, 2, 7, 64, 65, 10_000] {
            assert_eq!(passed(&around, size), [&*around, ""]);
            for stop in ["{\"do\":\"stop\"}\n", " { \"do\" :\t\"stop\" }\r\n"] {
                let text = format!("{around}{stop}{around}");
                assert_eq!(passed(&text, size), [&*around, &around]);
            }
        }
        // In the middle of a line, it is not a stop line.
        let within = format!("{long}{{\"do\":\"stop\"}}\n");
        assert_eq!(passed(&within, 64), [&*within, ""]);
    }

    /// What one of the `child_` tests writes and how it ends, as a process that leads a group and whose
    /// input is this text.
    fn output_of(name: &str, text: &str) -> (String, ExitStatus) {
        let mut child = child(&format!("command_reader::tests::{name}"))
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        let mut output = io::BufReader::new(child.stdout.take().unwrap());
        let mut all = String::new();
        while !all.ends_with("done\n") && output.read_line(&mut all).unwrap() > 0 {}
        drop(input);
        // To the end: nothing else may hold it open.
        output.read_to_string(&mut all).unwrap();
        (all, child.wait().unwrap())
    }

    #[test]
    fn lines_arrive_and_the_flag_is_set_without_a_thread() {
        let (output, status) = output_of("child_is_stopped", "{\"do\":\"stop\"}\nnext\n");
        assert!(output.contains("got next, stopped"), "{output}");
        assert_eq!(status.code(), Some(0), "{output}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_is_stopped() {
        let reader = CommandReader::start(STOP).unwrap();
        reader.leave(&[0]).unwrap();
        let comm = format!("/proc/{}/comm", reader.child.pid().as_raw_nonzero());
        let mut line = String::new();
        io::stdin().read_line(&mut line).unwrap();
        let stopped = if reader.stop().load(Ordering::Acquire) { "stopped" } else { "going" };
        assert_eq!(fs::read_to_string(&comm).unwrap().trim_end(), NAME.to_str().unwrap());
        drop(reader);
        assert!(!fs::exists(&comm).unwrap());
        println!("got {}, {stopped}\ndone", line.trim_end());
    }

    #[test]
    fn the_end_of_the_input_ends_a_process_that_does_not_read() {
        let (output, status) = output_of("child_does_not_read", "");
        assert!(output.contains("done"), "{output}");
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{output}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_does_not_read() {
        let _reader = CommandReader::start(STOP).unwrap();
        println!("done");
        std::thread::sleep(Duration::from_secs(600));
    }

    #[test]
    fn without_its_reader_a_process_sees_the_end_of_its_input() {
        let (output, status) = output_of("child_loses_its_reader", "");
        assert!(output.contains("no input"), "{output}");
        assert_eq!(status.code(), Some(0), "{output}");
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_loses_its_reader() {
        let reader = CommandReader::start(STOP).unwrap();
        rustix::process::kill_process(reader.child.pid(), Signal::KILL).unwrap();
        assert_eq!(io::stdin().read(&mut [0]).unwrap(), 0);
        println!("no input\ndone");
    }
}
