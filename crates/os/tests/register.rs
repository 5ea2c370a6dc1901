//! docs/unsafe.md has a row for each file with `unsafe` code, and its number of blocks.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn every_unsafe_block_is_in_the_register() {
    let mut counted = BTreeMap::new();
    for folder in ["src", "../gauge/src"] {
        count_in(&Path::new(CRATE).join(folder), &mut counted);
    }
    let document = fs::read_to_string(Path::new(CRATE).join("../../docs/unsafe.md")).unwrap();
    let registered: BTreeMap<String, usize> = document.lines().filter_map(row).collect();
    assert!(counted.len() > 50, "{counted:?}");
    let files: BTreeSet<&String> = counted.keys().chain(registered.keys()).collect();
    let wrong: Vec<String> = files
        .into_iter()
        .filter(|file| counted.get(*file) != registered.get(*file))
        .map(|file| format!("{file}: {:?}, not {:?}", counted.get(file), registered.get(file)))
        .collect();
    let advice =
        "a new unsafe block has to be reviewed: then update its file's row in docs/unsafe.md";
    assert!(wrong.is_empty(), "{advice}\n{}", wrong.join("\n"));
}

/// Counts the word in the code of a folder's files, without comments.
fn count_in(folder: &Path, counted: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count_in(&path, counted);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter_map(|line| line.split("//").next());
        let words = code
            .flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
        let count = words.filter(|word| *word == "unsafe").count();
        if count > 0 {
            let file = path.strip_prefix(CRATE).unwrap().display().to_string();
            counted.insert(file, count);
        }
    }
}

/// A file and its number, of a row of the table.
fn row(line: &str) -> Option<(String, usize)> {
    let mut cells = line.split('|').skip(1).map(str::trim);
    let file = cells.next().filter(|file| file.ends_with(".rs"))?;
    Some((file.to_owned(), cells.next()?.parse().ok()?))
}
