//! The short form of all targets: the kept inputs, and changes of them from fixed seeds.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use costof_fuzz::{TARGETS, Target};
use fastrand::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::scope;

/// No input is longer, so that a change of one takes little time.
const MAX_BYTES: usize = 100_000;

#[test]
#[ignore = "long; ./check --all runs it"]
fn all_holds_for_what_is_kept_and_for_changes_of_it() {
    scope(|scope| {
        // All of them, or the one that is named.
        let named = std::env::var("COSTOF_FUZZ").ok();
        let is_named = |target: &&Target| named.as_deref().is_none_or(|name| name == target.name);
        for target in TARGETS.iter().filter(is_named) {
            scope.spawn(|| short(target));
        }
    });
}

fn short(target: &Target) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let files = std::fs::read_dir(&folder).unwrap();
    let mut kept: Vec<Vec<u8>> =
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    kept.sort();
    assert!(!kept.is_empty(), "{} is empty", folder.display());
    let mut random = Rng::with_seed(1);
    let changed: Vec<Vec<u8>> = (0..target.rounds).map(|_| changed(&kept, &mut random)).collect();
    for input in kept.iter().chain(&changed) {
        let held = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        assert!(held.is_ok(), "{} fails for b\"{}\"", target.name, input.escape_ascii());
    }
}

/// One of the kept inputs with some of its bytes removed, repeated, changed, or taken from another one.
fn changed(kept: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    let mut input = random.choice(kept).unwrap().clone();
    for _ in 0..random.usize(1..5) {
        let (start, end) = (random.usize(..=input.len()), random.usize(..=input.len()));
        let part = start.min(end)..start.max(end).min(start.min(end) + 16);
        let other = random.choice(kept).unwrap();
        let from = random.usize(..=other.len());
        let new = match random.u8(..5) {
            0 => Vec::new(),
            1 => input[part.clone()].repeat(2),
            2 => vec![random.u8(..); part.len().max(1)],
            3 => other[from..other.len().min(from + part.len() + 1)].to_vec(),
            _ => random.choice(NEW).unwrap().to_vec(),
        };
        input.splice(part, new);
    }
    input.truncate(MAX_BYTES);
    input
}

/// What bytes alone would seldom become.
const NEW: &[&[u8]] = &[
    b"0",
    b"-1",
    b"1e308",
    b"18446744073709551615",
    b"\"",
    b"\\u001b",
    "\u{9b}\u{202e}".as_bytes(),
    b"<img>",
    b"\n",
    b"=",
    b",",
    b"(",
    b"[",
    b"{",
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"null",
];
