//! C programs of a few lines, which make the same system calls as a probe. Their sources are in `programs/`; the
//! C compiler of this machine compiles them.

use crate::child::{self, until_death};
use crate::error::{OrCannot, Result, failed};
use crate::tool::{Conditions, Reading, Statistic, Tool};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

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
    /// What it needs beside the C library.
    library: Option<Library>,
}

/// A library that not every C compiler comes with.
#[derive(Debug)]
struct Library {
    /// A header of it.
    header: &'static str,
    /// The Debian package that has the header.
    package: &'static str,
    /// The linker's options.
    options: &'static [&'static str],
}

impl Source {
    /// A program that needs the C library alone.
    const fn new(name: &'static str, text: &'static str) -> Source {
        Source { name, text, library: None }
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
pub static NOP: Source = Source {
    library: Some(Library { header: "liburing.h", package: "liburing-dev", options: &["-luring"] }),
    ..Source::new("nop", include_str!("../../programs/nop.c"))
};
/// TLS handshakes by OpenSSL.
pub static HANDSHAKE: Source = Source {
    library: Some(Library {
        header: "openssl/ssl.h",
        package: "libssl-dev",
        options: &["-lssl", "-lcrypto"],
    }),
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
    /// Why the compiler of this machine cannot compile it: a sentence that says which package is missing.
    pub(crate) fn missing(&self) -> Option<String> {
        let Library { header, package, .. } = self.library.as_ref()?;
        let mut command = until_death(NAME);
        command.args(["-fsyntax-only", "-include", header, "-x", "c", "/dev/null"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A compiler that cannot be started says so when it is to compile.
        let is_missing = command.status().is_ok_and(|status| !status.success());
        is_missing.then(|| format!("there is no {header} here (install {package} on Debian)"))
    }

    /// The program, compiled in the folder of these conditions unless it is there.
    pub(crate) fn compiled(&self, on: Conditions<'_>) -> Result<PathBuf> {
        let program = on.folder.join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        if let Some(why) = self.missing() {
            return Err(failed(why));
        }
        let source = program.with_extension("c");
        for (file, text) in [(on.folder.join("peer.h"), HEADER), (source.clone(), self.text)] {
            fs::write(&file, text).or_cannot(format_args!("write {}", file.display()))?;
        }
        // With a PLT, each child of a fork would look up the C library's functions that it calls.
        let mut command = until_death(NAME);
        command.args(["-O2", "-fno-plt", "-pthread", "-o"]).arg(&program).arg(&source);
        command.args(self.library.iter().flat_map(|library| library.options));
        child::finish(&mut command, on.limit, on.interrupt)?;
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages;

    #[test]
    fn a_library_that_is_not_here_is_named_with_its_package() {
        if packages::find(NAME).is_none() {
            return eprintln!("checked less: {}", packages::missing(NAME));
        }
        let source = |header| Source {
            library: Some(Library { header, package: "some-dev", options: &[] }),
            ..Source::new("some", "")
        };
        assert_eq!(source("stdio.h").missing(), None);
        let why = "there is no no/such.h here (install some-dev on Debian)";
        assert_eq!(source("no/such.h").missing().as_deref(), Some(why));
        assert_eq!(Source::new("some", "").missing(), None);
    }
}
