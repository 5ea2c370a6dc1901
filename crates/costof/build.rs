//! Sets what `costof --version` prints: the release, its commit, and how it is built.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let [version, profile, target] = ["CARGO_PKG_VERSION", "PROFILE", "TARGET"]
        .map(|name| env::var(name).expect("cargo sets it"));
    // Developers build for debugging, and would build costof and its tests again after each commit.
    let commit = (profile != "debug").then(|| {
        let commit = of_package().or_else(of_checkout);
        commit.unwrap_or_else(|| "unknown commit".to_owned()) + ", "
    });
    let commit = commit.unwrap_or_default();
    println!("cargo::rustc-env=COSTOF_VERSION={version} ({commit}{profile}, {target})");
}

/// The commit that `cargo package` notes in a crate. Source: The Cargo Book, `cargo package`.
fn of_package() -> Option<String> {
    let notes = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, sha1) = notes.split_once("\"sha1\": \"")?;
    sha1.get(..12).map(str::to_owned)
}

/// The commit that is checked out, unless this is not its repository; it ends in `-dirty` if files differ from it.
fn of_checkout() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    // All crates, whose change builds costof again anyway.
    println!("cargo::rerun-if-changed=..");
    git(&["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"])
}

/// What git prints; `None` if it fails, or is not installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
