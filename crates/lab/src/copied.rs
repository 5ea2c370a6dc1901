//! The static builds of costof that machines without one get a copy of. The machine itself decides whether it needs one
//! (`copied.sh`): each worker is started by the same words, and nothing about a machine is kept here.

use hmac_sha256::Hash;
use std::io;
use std::path::{Path, PathBuf};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// As `uname -m` names them.
const MACHINES: [&str; 2] = ["x86_64", "aarch64"];
/// The variable with the folder that is searched first.
const FOLDER: &str = "COSTOF_STATIC_FOLDER";
/// The length of a build, in bytes, at most.
const LONGEST: u64 = 256 << 20;

/// The static builds that are here.
#[derive(Debug)]
pub(crate) struct StaticBuilds(Vec<StaticBuild>);

/// It is read once, so that a machine gets the file whose checksum it knows.
#[derive(Debug)]
struct StaticBuild {
    machine: &'static str,
    bytes: Vec<u8>,
    sha256: String,
}

/// The name of a machine's static build.
fn file_name(machine: &str) -> String {
    format!("costof-{machine}-unknown-linux-musl")
}

/// What to do if there is none.
pub(crate) fn way_out() -> String {
    format!(
        "costof must be installed there, in the PATH of a login by ssh, or be named with --remote-costof PATH; or a \
         static build for that machine, {} (`uname -m` says which), must lie beside this costof or in the folder that \
         {FOLDER} names",
        file_name("MACHINE")
    )
}

impl StaticBuilds {
    /// Those of the folder that the variable names; else this executable, if it is one; else those beside it, and in
    /// `../lib/costof`.
    ///
    /// # Errors
    /// If one is there and cannot be read.
    pub(crate) fn find() -> io::Result<StaticBuilds> {
        let chosen = std::env::var_os(FOLDER).map(PathBuf::from);
        let own = std::env::current_exe()?;
        let beside = own.parent().unwrap_or(Path::new("/"));
        let installed = beside.join("../lib/costof");
        let paths = |machine: &str| {
            let is_own = cfg!(target_feature = "crt-static") && machine == std::env::consts::ARCH;
            let in_folder = |folder: &Path| folder.join(file_name(machine));
            let mut paths: Vec<PathBuf> = chosen.iter().map(|folder| in_folder(folder)).collect();
            paths.extend(is_own.then(|| PathBuf::from("/proc/self/exe")));
            paths.extend([in_folder(beside), in_folder(&installed)]);
            paths
        };
        let builds =
            MACHINES.into_iter().filter_map(|machine| first(machine, &paths(machine)).transpose());
        builds.collect::<io::Result<_>>().map(StaticBuilds)
    }

    /// The command for a login's shell that starts a worker there, and asks for a build if it needs one.
    pub(crate) fn worker(&self) -> String {
        let mut arms = String::new();
        for StaticBuild { machine, bytes, sha256 } in &self.0 {
            let (size, start) = (bytes.len(), &sha256[..16]);
            arms += &format!(
                "{machine}) machine={machine} size={size} sum={sha256} name=costof-{VERSION}-{start};; "
            );
        }
        let script = one_line(include_str!("copied.sh"));
        format!("sh -c 'version={VERSION} name=; case $(uname -m) in {arms}esac; {script}'")
    }

    /// The build for a machine, if there is one.
    pub(crate) fn of(&self, machine: &str) -> Option<&[u8]> {
        let build = self.0.iter().find(|build| build.machine == machine)?;
        Some(&build.bytes)
    }
}

/// The build in the first of these files that exists.
fn first(machine: &'static str, paths: &[PathBuf]) -> io::Result<Option<StaticBuild>> {
    for path in paths {
        match read(path) {
            Ok(bytes) => {
                let sha256 = Hash::hash(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                return Ok(Some(StaticBuild { machine, bytes, sha256 }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let text = format!("cannot read {}: {error}", path.display());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok(None)
}

/// A regular file that is no longer than a build.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let data = std::fs::metadata(path)?;
    if !data.is_file() || data.len() > LONGEST {
        return Err(io::Error::other("no file of at most 256 MiB"));
    }
    std::fs::read(path)
}

/// The command for a login's shell that removes every copy there.
pub(crate) fn removal() -> String {
    let script = "f=${HOME:?}/.cache/costof; [ -L \"$f\" ] || rm -f \"$f\"/costof-* \"$f\"/.new-* || exit 1; \
                  rmdir \"$f\" \"$HOME/.cache\" 2>/dev/null; true";
    format!("sh -c '{script}'")
}

fn one_line(script: &str) -> String {
    let lines: Vec<&str> =
        script.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_one_word_for_any_login_shell() {
        let build = StaticBuild { machine: "x86_64", bytes: Vec::new(), sha256: "0".repeat(64) };
        for line in [StaticBuilds(vec![build]).worker(), removal()] {
            let script = line.strip_prefix("sh -c '").unwrap().strip_suffix('\'').unwrap();
            assert!(!script.contains(['\'', '!', '\n']), "{script}");
        }
    }
}
