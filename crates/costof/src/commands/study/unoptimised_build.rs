//! Builds an unoptimised costof, if there is a checkout to build it from.

use crate::error::{Context, Error, bail, wrong};
use crate::terminal::log;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a user gets the figures of an unoptimised build.
pub(super) fn how() -> &'static str {
    match checkout() {
        Some(_) => "`--unoptimised` builds one from this checkout and measures them",
        None => {
            "`cargo build` in a checkout of costof makes one, and `--unoptimised target/debug/costof` \
             measures them"
        }
    }
}

/// Builds it, and returns where it is.
pub(super) fn build() -> Result<PathBuf, Error> {
    let Some(checkout) = checkout() else {
        bail!(
            "--unoptimised without a path builds costof from the checkout that it runs from, and there is none: {}",
            how()
        );
    };
    log(format!(
        "building an unoptimised costof in {}",
        checkout.display()
    ));
    let output = Command::new("cargo")
        .current_dir(&checkout)
        .args([
            "build",
            "--locked",
            "--package=costof",
            "--message-format=json-render-diagnostics",
        ])
        // Tests want this package optimised.
        .arg("--config=profile.dev.package.rudp.opt-level=0")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo, which builds the unoptimised costof")?;
    if !output.status.success() {
        bail!("cargo could not build an unoptimised costof: it has said why");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).ok_or_else(|| wrong("cargo has built no executable costof"))
}

/// The executable that cargo's messages name.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut executables = messages.filter_map(|message: Value| {
        let is_costof = message["target"]["name"] == "costof";
        message["executable"]
            .as_str()
            .filter(|_| is_costof)
            .map(PathBuf::from)
    });
    executables.next_back()
}

/// The checkout that contains this executable or the current folder.
fn checkout() -> Option<PathBuf> {
    let places = [std::env::current_exe(), std::env::current_dir()];
    places
        .iter()
        .flatten()
        .find_map(|place| checkout_around(place))
}

fn checkout_around(place: &Path) -> Option<PathBuf> {
    let is_checkout = |folder: &&Path| folder.join("crates/costof/Cargo.toml").is_file();
    place.ancestors().find(is_checkout).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkout_and_what_cargo_built_in_it_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize();
        let root = root.unwrap();
        let executable_there = root.join("target/release/costof");
        assert_eq!(checkout_around(&executable_there), Some(root));
        assert_eq!(checkout_around(Path::new("/usr/bin/costof")), None);
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"bench"},"executable":"/t/bench"}
            {"reason":"compiler-artifact","target":{"name":"costof"},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"costof"},"executable":"/t/debug/costof"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/costof")));
        assert_eq!(executable("no json"), None);
    }
}
