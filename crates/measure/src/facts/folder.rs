//! The folders from which facts are read: this machine's `/proc`, `/sys` and the like, or a copy of
//! another machine's.
//!
//! A missing file is not an error. A file that exists but cannot be read is recorded with the
//! reason.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use costof_model::CpuSet;
use costof_model::facts::Unread;

/// At most this much of a file is read; no file of facts is longer.
const FILE_LIMIT_BYTES: u64 = 4 << 20;

/// A folder of the machine whose facts are read: this machine, or one whose files were copied.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    tree: Rc<Tree>,
    /// The path below the tree's root; empty for the root itself.
    path: String,
}

#[derive(Debug)]
struct Tree {
    root: PathBuf,
    unread: RefCell<Vec<Unread>>,
}

impl Folder {
    /// The root of this machine.
    pub(super) fn live() -> Self {
        Self::copied("/")
    }

    /// The root of a tree of files that were copied from a machine, or made up for a test.
    pub(super) fn copied(root: impl Into<PathBuf>) -> Self {
        let (root, unread) = (root.into(), RefCell::default());
        Self { tree: Rc::new(Tree { root, unread }), path: String::new() }
    }

    /// A folder below this one. If it does not exist, everything in it is absent.
    pub(super) fn folder(&self, path: &str) -> Self {
        Self { tree: Rc::clone(&self.tree), path: self.path(path) }
    }

    /// Whether this machine itself is read, so that its tools and CPUID can be used too.
    pub(super) fn is_live(&self) -> bool {
        self.tree.root == Path::new("/")
    }

    /// What existed but could not be read so far, anywhere in the tree.
    pub(super) fn unread(&self) -> Vec<Unread> {
        self.tree.unread.borrow().clone()
    }

    /// Records that something could not be read.
    pub(super) fn refuse(&self, what: &str, reason: impl ToString) {
        let refused = Unread { what: what.to_owned(), reason: reason.to_string() };
        let mut unread = self.tree.unread.borrow_mut();
        if !unread.contains(&refused) {
            unread.push(refused);
        }
    }

    /// A file's text without surrounding blanks. `None` if it is missing, unreadable, or empty.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        let bytes = self.bytes(file)?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The first bytes of a file that is long, or slow to generate as a whole.
    pub(super) fn start(&self, file: &str, limit_bytes: u64) -> Option<String> {
        let bytes = self.first_bytes(file, limit_bytes)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file's bytes.
    pub(super) fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        self.first_bytes(file, FILE_LIMIT_BYTES)
    }

    /// A file that holds one value of a plain type. A value that does not parse counts as absent.
    pub(super) fn value<T: FromStr>(&self, file: &str) -> Option<T> {
        self.text(file)?.parse().ok()
    }

    /// A file that holds a number in a unit of `unit` base units: 1000 for kilohertz.
    pub(super) fn scaled(&self, file: &str, unit: u64) -> Option<u64> {
        self.value::<u64>(file)?.checked_mul(unit)
    }

    /// A file that holds 0 or 1, or N or Y.
    pub(super) fn flag(&self, file: &str) -> Option<bool> {
        flag(&self.text(file)?)
    }

    /// A file that holds a set of CPUs or nodes; an empty set if it is absent.
    pub(super) fn set(&self, file: &str) -> CpuSet {
        let text = self.text(file);
        text.and_then(|text| CpuSet::parse(&text)).unwrap_or_default()
    }

    /// A file that holds words.
    pub(super) fn words(&self, file: &str) -> Vec<String> {
        let text = self.text(file).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// A file that holds numbers; words that do not parse are left out.
    pub(super) fn numbers<T: FromStr, C: FromIterator<T>>(&self, file: &str) -> C {
        let words = self.words(file).into_iter();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    /// A file that holds all choices, the selected one in brackets: `always [madvise] never`. A
    /// file with a single word reads as that word.
    pub(super) fn chosen(&self, file: &str, open: char, close: char) -> Option<String> {
        chosen(&self.text(file)?, open, close)
    }

    /// The names in this folder, sorted, numbers by value; none if the folder is absent.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = match fs::read_dir(self.place("")) {
            Ok(entries) => entries,
            Err(error) => {
                self.judge("", &error);
                return Vec::new();
            }
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        names
    }

    /// The folders in this one, with their names.
    pub(super) fn folders(self) -> impl Iterator<Item = (String, Self)> {
        let names = self.names().into_iter();
        names.map(move |name| (name.clone(), self.folder(&name)))
    }

    /// The folders `prefixN` in this one, with their numbers N, ascending.
    pub(super) fn numbered(self, prefix: &str) -> impl Iterator<Item = (u32, Self)> {
        let names = self.names();
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        let numbers: BTreeSet<u32> = names.iter().filter_map(number).collect();
        let folder = move |number| (number, self.folder(&format!("{prefix}{number}")));
        numbers.into_iter().map(folder)
    }

    /// The last part of a symbolic link's target.
    pub(super) fn link_name(&self, file: &str) -> Option<String> {
        let target = fs::read_link(self.place(file)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether this file or folder exists.
    pub(super) fn has(&self, file: &str) -> bool {
        self.place(file).exists()
    }

    /// The path of a file on its machine.
    pub(super) fn path(&self, file: &str) -> String {
        let separator = if file.is_empty() || file.starts_with('/') { "" } else { "/" };
        format!("{}{separator}{file}", self.path)
    }

    fn place(&self, file: &str) -> PathBuf {
        let path = self.path(file);
        self.tree.root.join(path.trim_start_matches('/'))
    }

    fn first_bytes(&self, file: &str, limit_bytes: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = File::open(self.place(file))
            .and_then(|file| file.take(limit_bytes).read_to_end(&mut bytes));
        read.map_err(|error| self.judge(file, &error)).ok()?;
        Some(bytes)
    }

    /// Only a denied access is worth reporting. Drivers answer "invalid argument" or "not
    /// supported" if they have no value, and files vanish together with what they describe.
    fn judge(&self, file: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.refuse(&self.path(file), "permission denied");
        }
    }
}

/// 0 or 1, N or Y.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "0" | "N" => Some(false),
        "1" | "Y" => Some(true),
        _ => None,
    }
}

/// The choice in brackets among several, or the only choice.
pub(super) fn chosen(text: &str, open: char, close: char) -> Option<String> {
    let mut words = text.split_whitespace();
    let bracketed = words.clone().find_map(|word| word.strip_prefix(open)?.strip_suffix(close));
    match (bracketed, words.next(), words.next()) {
        (Some(word), _, _) | (None, Some(word), None) => Some(word.to_owned()),
        _ => None,
    }
}

/// Whether this is one of the words of a list.
pub(super) fn is_word_of(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// The value of a `name: value` or `name=value` line, read as a plain type.
pub(super) fn parsed<T: FromStr>(text: &str, name: &str, separator: char) -> Option<T> {
    field(text, name, separator)?.parse().ok()
}

/// The value of a `name: value` or `name=value` line.
pub(super) fn field<'a>(text: &'a str, name: &str, separator: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// `5192 kB`, `48K`, `1024`: a number with the kernel's unit, in bytes.
pub(super) fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "kB" | "KB" => 1 << 10,
        "M" | "MB" => 1 << 20,
        "G" | "GB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_units_and_choices_read_as_they_are_meant() {
        assert_eq!(bytes_of("48K"), Some(48 << 10));
        assert_eq!(bytes_of("  24684092 kB"), Some(24_684_092 << 10));
        assert_eq!(bytes_of("7"), Some(7));
        let too_many = ["99999999999999999999", "18446744073709551615 kB"];
        for wrong in ["", "K", "1 furlong"].iter().chain(&too_many) {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
        for (text, expected) in
            [("always [madvise] never", Some("madvise")), ("none", Some("none")), ("a b", None)]
        {
            assert_eq!(chosen(text, '[', ']').as_deref(), expected);
        }
        let full = chosen("none voluntary (full)", '(', ')');
        assert_eq!(full.as_deref(), Some("full"));
        assert_eq!(field("a : 1\nb: 2", "b", ':'), Some("2"));
    }
}
