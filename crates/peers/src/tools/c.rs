//! C programs of a few lines, which make the same system calls as a probe. Their sources are in `programs/`; the
//! C compiler of this machine compiles them.

use crate::child::{self, until_death};
use crate::error::{OrCannot, Result};
use crate::tool::{Conditions, Reading, Statistic, Tool};
use std::fs;
use std::path::PathBuf;

/// The compiler, by whose name these programs are chosen.
pub const NAME: &str = "cc";

/// What the programs have in common.
pub const HEADER: &str = include_str!("../../programs/peer.h");

/// A C program.
#[derive(Debug)]
pub struct Source {
    /// Its name, without `.c`.
    pub name: &'static str,
    /// Its text, which may include `peer.h`.
    pub text: &'static str,
    /// The linker's options for the libraries that it needs beside the C library.
    pub libraries: &'static [&'static str],
}

impl Source {
    /// A program that needs the C library alone.
    const fn new(name: &'static str, text: &'static str) -> Source {
        Source { name, text, libraries: &[] }
    }
}

/// First touches of pages.
pub static PAGE_FAULT: Source =
    Source::new("page_fault", include_str!("../../programs/page_fault.c"));
/// Children by fork or vfork.
pub static FORK: Source = Source::new("fork", include_str!("../../programs/fork.c"));
/// TCP connections on loopback.
pub static CONNECT: Source = Source::new("connect", include_str!("../../programs/connect.c"));
/// Messages of several fields over a TCP connection on loopback.
pub static STREAM: Source = Source::new("stream", include_str!("../../programs/stream.c"));

/// Blocks from malloc.
pub static MALLOC: Source = Source::new("malloc", include_str!("../../programs/malloc.c"));
/// An eventfd among many, found by epoll_wait.
pub static EPOLL: Source = Source::new("epoll", include_str!("../../programs/epoll.c"));
/// Fresh memory.
pub static FIRST_TOUCH: Source =
    Source::new("first_touch", include_str!("../../programs/first_touch.c"));
/// What a proxy passes on.
pub static FORWARD: Source = Source::new("forward", include_str!("../../programs/forward.c"));
/// NOPs by liburing.
pub static NOP: Source =
    Source { libraries: &["-luring"], ..Source::new("nop", include_str!("../../programs/nop.c")) };
/// TLS handshakes by OpenSSL.
pub static HANDSHAKE: Source = Source {
    libraries: &["-lssl", "-lcrypto"],
    ..Source::new("handshake", include_str!("../../programs/handshake.c"))
};

/// This program with these arguments. Its number, in nanoseconds, stands before `words`.
pub fn program(
    source: &'static Source,
    statistic: Statistic,
    arguments: &str,
    words: &'static str,
) -> Tool<'static> {
    let read = Reading::Before(words, 1.0);
    Tool { source: Some(source), ..Tool::simple(NAME, statistic, arguments, read) }
}

impl Source {
    /// The program, compiled in the folder of these conditions unless it is there.
    pub(crate) fn compiled(&self, on: Conditions<'_>) -> Result<PathBuf> {
        let program = on.folder.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        let source = program.with_extension("c");
        for (file, text) in [(on.folder.join("peer.h"), HEADER), (source.clone(), self.text)] {
            fs::write(&file, text).or_cannot(format_args!("write {}", file.display()))?;
        }
        // With a PLT, each child of a fork would look up the C library's functions that it calls.
        let mut command = until_death(NAME);
        command.args(["-O2", "-fno-plt", "-pthread", "-o"]).arg(&program).arg(&source);
        command.args(self.libraries);
        child::finish(&mut command, on.limit, on.interrupt)?;
        Ok(program)
    }
}
