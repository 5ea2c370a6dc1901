//! A project's own probes: finds the file that defines them, and adds them to the table.

mod definitions;

use crate::error::{Context, Result, bail, wrong};
use crate::files;
use crate::machine::Machine;
use crate::record::Table;
use crate::terminal::log;
use costof_measure::own::OwnProbe;
use costof_measure::probe::{Probe, find};
use costof_model::ProbeInfo;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the file.
const NAME: &str = "costof.toml";
/// The most that is read of it.
const MAX_BYTES: u64 = 1 << 20;

/// The table, with the probes that this file defines.
pub(crate) fn with_file(table: Table, file: &Path) -> Result<Table> {
    let shown = file.display();
    let cannot = || format!("cannot read the definitions of your probes, {shown}");
    let file = file.canonicalize().context(cannot())?;
    let text = files::read_text(&file, MAX_BYTES).context(cannot())?;
    let layers: BTreeSet<&str> = table.iter().map(|probe| probe.info.layer()).collect();
    let own = definitions::read(&file, &shown.to_string(), &text, &layers).map_err(wrong)?;
    if own.is_empty() {
        return Ok(table);
    }
    let own = own.into_iter().map(Probe::own);
    Ok(table.iter().copied().chain(own).collect::<Vec<_>>().leak())
}

/// The table, with the probes of the project in whose folders costof was started, if it has any. A file that is wrong is
/// reported, and keeps nothing else from being measured or read.
pub(crate) fn with_found(table: Table) -> Table {
    let folder = std::env::current_dir().ok();
    let found = folder.as_deref().and_then(search).map(|file| with_file(table, &file));
    found.unwrap_or(Ok(table)).unwrap_or_else(|why| {
        log(format_args!("without your own probes: {why}"));
        table
    })
}

/// The file in this folder, or in the nearest of those above it within the same repository. What lies outside a
/// repository belongs to others, and so does what another user has put above.
fn search(folder: &Path) -> Option<PathBuf> {
    let owner = |path: &Path| Some(fs::metadata(path).ok()?.uid());
    let own = owner(Path::new("/proc/self"));
    let is_trusted = |path: &Path| owner(path).is_some_and(|uid| uid == 0 || Some(uid) == own);
    let is_root = |folder: &Path| is_trusted(&folder.join(".git"));
    let up_to_root = 1 + folder.ancestors().position(is_root).unwrap_or(0);
    let files = folder.ancestors().take(up_to_root).map(|folder| folder.join(NAME));
    let is_here = |file: &Path| file.parent() == Some(folder);
    files.into_iter().find(|file| file.is_file() && (is_here(file) || is_trusted(file)))
}

/// What a worker on this machine is started with, so that it has the own probes of this table.
pub(crate) fn argument(table: Table) -> Result<Vec<&'static str>> {
    let Some(file) = file(table) else {
        return Ok(Vec::new());
    };
    match file.to_str() {
        Some(file) => Ok(vec!["--project", file]),
        None => bail!(
            "{}: the path is not UTF-8, which workers need (move the project)",
            file.display()
        ),
    }
}

/// The file that defines probes of this table.
fn file(table: Table) -> Option<&'static Path> {
    table.iter().find_map(|probe| probe.own).map(|own| &*own.file)
}

fn own(table: Table, info: &ProbeInfo) -> Option<&'static OwnProbe> {
    find(table, &info.id)?.own
}

/// Whether a probe is of the user's own.
pub(crate) fn is_own(table: Table, info: &ProbeInfo) -> bool {
    own(table, info).is_some()
}

/// Which of these own probes a host lacks, and what to do, as a sentence; none if it has all.
pub(crate) fn missing(machine: &Machine, own: &[&ProbeInfo]) -> Option<String> {
    let there = &machine.description.probes;
    let lacks = own.iter().filter(|info| !there.iter().any(|(id, _)| *id == info.id));
    let lacks: Vec<&str> = lacks.map(|info| &*info.id).collect();
    (!lacks.is_empty()).then(|| {
        format!(
            "the costof on {} lacks {}: own probes need their file there too, by --remote-costof 'costof --project \
             /PATH/{NAME}' or `exec:… costof worker --project /PATH/{NAME}`; their points get no number",
            machine.host,
            lacks.join(", ")
        )
    })
}

/// Says where probes of the user's own among these are defined.
pub(crate) fn log_file<'i>(table: Table, infos: impl IntoIterator<Item = &'i ProbeInfo>) {
    let mut ids: Vec<&str> =
        infos.into_iter().filter(|info| is_own(table, info)).map(|info| &*info.id).collect();
    ids.dedup();
    if let (Some(file), false) = (file(table), ids.is_empty()) {
        let are = if ids.len() == 1 { "is" } else { "are" };
        log(format_args!("{} {are} defined by {}", ids.join(", "), file.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn the_nearest_file_within_the_repository_is_found() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let deep = root.join("repository/a/b");
        fs::create_dir_all(&deep).unwrap();
        let file = |folder: &str| root.join(folder).join(NAME);
        fs::write(file(""), "").unwrap();
        assert_eq!(search(&deep), None, "it is another's");
        assert_eq!(search(root), Some(file("")));
        fs::write(root.join("repository/.git"), "gitdir: elsewhere").unwrap();
        assert_eq!(search(&deep), None);
        fs::write(file("repository"), "").unwrap();
        assert_eq!(search(&deep), Some(file("repository")));
        fs::write(file("repository/a"), "").unwrap();
        assert_eq!(search(&deep), Some(file("repository/a")));
        // Only root can give a file away.
        if chown(file("repository/a"), Some(12345), None).is_ok() {
            assert_eq!(search(&deep), Some(file("repository")));
            chown(root.join("repository/.git"), Some(12345), None).unwrap();
            assert_eq!(search(&deep), None, "anybody can make a repository in a shared folder");
            assert_eq!(search(&root.join("repository/a")), Some(file("repository/a")));
        }
    }
}
