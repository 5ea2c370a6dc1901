//! Which package installs a program.

use crate::checks::VERIFY;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

/// A sentence that says that a program is not installed, and which package installs it if that is known.
pub fn missing(program: &str) -> String {
    match VERIFY.packages.get(program) {
        Some(package) => format!("there is no {program} here (install {package})"),
        None => format!("there is no {program} here"),
    }
}

/// The path of a program, given its name or path. Debian puts lmbench and PostgreSQL's programs into folders that are
/// not on the path.
pub fn find(program: impl AsRef<Path>) -> Option<PathBuf> {
    let lmbench = format!("/usr/lib/lmbench/bin/{}-linux-gnu", std::env::consts::ARCH);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from(lmbench)])
        .chain(postgresql().map(|version| version.path().join("bin")))
        // Joining a path that begins with a slash yields that path alone.
        .map(|folder| folder.join(program.as_ref()))
        .find(|file| file.is_file())
}

/// The folder of each version of PostgreSQL.
fn postgresql() -> impl Iterator<Item = DirEntry> {
    fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        for (program, package) in [
            ("perf", "install linux-perf on Debian, linux-tools-$(uname -r) on Ubuntu"),
            ("lat_pipe", "install lmbench on Debian in its section non-free"),
        ] {
            assert_eq!(missing(program), format!("there is no {program} here ({package})"));
        }
        assert_eq!(missing("no-such"), "there is no no-such here");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(find("sh").is_some_and(|file| file.is_absolute()));
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/bin/no-such-program"), None);
    }
}
