//! C programs of a few lines, which make the same system calls as a probe. Their sources are in `programs/`; the
//! C compiler of this machine compiles them.

use crate::child::{self, until_death};
use crate::error::{OrCannot, Result, failed};
use crate::tool::Conditions;
use serde::Deserialize;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// The compiler, by whose name these programs are chosen.
pub const NAME: &str = "cc";

/// What the programs have in common.
pub const HEADER: &str = include_str!("../programs/peer.h");

macro_rules! programs {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../programs/", $name, ".c")))),*]
    };
}

/// The name of each program, and its text, which may include `peer.h`.
const PROGRAMS: &[(&str, &str)] = programs!(
    "connect" "epoll" "first_touch" "fork" "forward" "handshake" "malloc" "nop" "page_fault" "stream"
);

/// A C program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name, without `.c`.
    name: &'static str,
    /// What it needs beside the C library.
    library: Option<Library>,
}

/// A library that not every C compiler comes with.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    /// A header of it.
    header: &'static str,
    /// The Debian package that has the header.
    package: &'static str,
    /// The linker's options.
    options: &'static str,
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
        let text = PROGRAMS.iter().find(|(name, _)| *name == self.name).map(|(_, text)| *text);
        let text = text.expect("a test looks for each");
        for (file, text) in [(on.folder.join("peer.h"), HEADER), (source.clone(), text)] {
            fs::write(&file, text).or_cannot(format_args!("write {}", file.display()))?;
        }
        // With a PLT, each child of a fork would look up the C library's functions that it calls.
        let mut command = until_death(NAME);
        command.args(["-O2", "-fno-plt", "-pthread", "-o"]).arg(&program).arg(&source);
        command.args(self.library.iter().flat_map(|library| library.options.split(' ')));
        child::finish(&mut command, on.limit, on.interrupt)?;
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Effort, checks};
    use crate::packages;

    #[test]
    fn a_library_that_is_not_here_is_named_with_its_package() {
        if packages::find(NAME).is_none() {
            return eprintln!("checked less: {}", packages::missing(NAME));
        }
        let source = |header| {
            let library = Library { header, package: "some-dev", options: "" };
            Source { name: "some", library: Some(library) }
        };
        assert_eq!(source("stdio.h").missing(), None);
        let why = "there is no no/such.h here (install some-dev on Debian)";
        assert_eq!(source("no/such.h").missing().as_deref(), Some(why));
        assert_eq!(Source { name: "some", library: None }.missing(), None);
    }

    #[test]
    fn each_source_has_its_text() {
        let peers = checks(Effort::QUICK).into_iter().flat_map(|check| check.peers);
        for source in peers.filter_map(|peer| peer.source) {
            assert!(PROGRAMS.iter().any(|(name, _)| *name == source.name), "{}", source.name);
        }
    }
}
