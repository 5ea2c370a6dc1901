//! Machines other than this one, for tests and for fuzzing: trees of files as those machines have them.

use super::cpuid::Cpuid;
use super::folder::Folder;
use super::gather_from;
use costof_model::{CpuSet, Facts};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A machine's files in a folder of their own, which vanishes with it.
pub(super) struct Machine {
    root: PathBuf,
    /// Its files by their paths, with what they have.
    files: BTreeMap<String, Vec<u8>>,
}

impl Machine {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("costof-{}-{count}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let files = BTreeMap::new();
        Self { root, files }
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("folders can be made");
        path
    }

    pub(super) fn write(&self, path: &str, bytes: &[u8]) {
        fs::write(self.path(path), bytes).expect("files can be written");
    }

    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.write(path, bytes);
        self.files.insert(path.to_owned(), bytes.to_vec());
    }

    #[cfg(feature = "fuzzing")]
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.files.clone().into_iter().collect()
    }

    pub(super) fn facts(&self) -> Facts {
        gather_from(&Folder::copied(&self.root), &Cpuid::default())
    }

    /// Adds the files that a description of a machine lists, by lines of these forms:
    ///
    /// ```text
    /// # a comment
    /// /a/file its only line
    /// /a/file
    /// | one of its lines
    /// /a/link -> its target
    /// /folders{0,4-7}/of/files/
    ///   file in each of them, and its only line
    /// = /a/pointer/into/the/facts "what is expected there", which is not a file
    /// ```
    pub(super) fn describe(&mut self, description: &str) {
        let (mut lines_of, mut folders) = (String::new(), Vec::new());
        for line in description.lines() {
            if let Some(more) = line.strip_prefix('|') {
                let before = self.files[&lines_of].clone();
                self.file(&lines_of, &[&before, more.trim().as_bytes(), b"\n"].concat());
            } else if let Some(file) = line.strip_prefix("  ") {
                for folder in &folders {
                    self.one_line(&format!("{folder}{file}"));
                }
            } else if let Some((link, target)) = line.split_once(" -> ") {
                symlink(target, self.path(link)).expect("links can be made");
            } else if line.starts_with('/') && line.ends_with('/') {
                folders = alternatives(line);
            } else if line.starts_with('/') && !line.contains(' ') {
                line.clone_into(&mut lines_of);
                self.file(line, b"");
            } else if line.starts_with('/') {
                self.one_line(line);
            }
        }
    }

    /// Adds a file of one line: its path, a blank, and the text, where `\0` stands for that byte.
    fn one_line(&mut self, line: &str) {
        let (path, text) = line.split_once(' ').expect("a text follows the path");
        let text = text.replace("\\0", "\0");
        self.file(path, format!("{text}\n").as_bytes());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// `a{0,4-5}b` is `a0b`, `a4b` and `a5b`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (each, after) = rest.split_once('}').expect("it is closed");
    let each = CpuSet::parse(each).expect("it is a list of numbers");
    let paths = each.iter().map(|one| format!("{before}{one}{after}"));
    paths.collect()
}

/// Machines that are described, by name.
pub(super) const MACHINES: [(&str, &str); 9] = [
    ("aarch64_board", include_str!("machines/aarch64_board.txt")),
    ("ampere_server", include_str!("machines/ampere_server.txt")),
    ("container", include_str!("machines/container.txt")),
    ("container_of_one_cpu", include_str!("machines/container_of_one_cpu.txt")),
    ("container_under_both", include_str!("machines/container_under_both.txt")),
    ("container_under_v1", include_str!("machines/container_under_v1.txt")),
    ("hybrid_laptop", include_str!("machines/hybrid_laptop.txt")),
    ("server_of_128_cores", include_str!("machines/server_of_128_cores.txt")),
    ("server_of_two_sockets", include_str!("machines/server_of_two_sockets.txt")),
];
