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
}

/// First touches of pages.
pub static PAGE_FAULT: Source =
    Source { name: "page_fault", text: include_str!("../../programs/page_fault.c") };
/// Children by fork or vfork.
pub static FORK: Source = Source { name: "fork", text: include_str!("../../programs/fork.c") };
/// TCP connections on loopback.
pub static CONNECT: Source =
    Source { name: "connect", text: include_str!("../../programs/connect.c") };
/// Messages of several fields over a TCP connection on loopback.
pub static STREAM: Source =
    Source { name: "stream", text: include_str!("../../programs/stream.c") };

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
        child::finish(&mut command, on.limit, on.interrupt)?;
        Ok(program)
    }
}
