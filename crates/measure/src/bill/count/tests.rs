use super::*;
use std::collections::BTreeMap;
use std::ffi::OsString;

const BY_EACH: [Means; 2] = [Means::Ebpf, Means::Ptrace];

fn program(words: &[&str]) -> Program {
    let words = words.iter().map(OsString::from).collect();
    Program { words, input: None, output: Output::Null, folder: None }
}

/// What a program does; `None`, with a word on it, where these means do not work.
fn counted(program: &Program, means: Means) -> Option<Counts> {
    match count(program, Some(means), || true) {
        Ok(counts) => Some(counts.expect("it may go on")),
        Err(error) => {
            eprintln!("checked less: {}: {error}", means.name());
            None
        }
    }
}

/// How often each system call was made, and how many of these failed.
fn calls(counts: &Counts) -> BTreeMap<String, [u64; 2]> {
    let mut calls = BTreeMap::new();
    for count in counts.sum() {
        if let Item::Call { name, .. } = count.item {
            let sum: &mut [u64; 2] = calls.entry(name).or_default();
            sum[0] += count.count;
            sum[1] += count.errors;
        }
    }
    calls
}

fn call<'c>(counts: &'c [Count], called: &str, bytes: u64) -> Option<&'c Count> {
    let item = Item::Call { name: called.to_owned(), size: SizeClass::new(bytes) };
    counts.iter().find(|count| count.item == item)
}

#[test]
fn both_means_count_the_same_calls_with_their_sizes() {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=5000", "status=none"];
    let each = BY_EACH.map(|means| counted(&program(&dd), means));
    for counts in each.iter().flatten() {
        let sum = counts.sum();
        let [read, write] = ["read", "write"].map(|name| call(&sum, name, 64).unwrap());
        assert_eq!([read.count, read.bytes, read.errors], [5000, 320_000, 0]);
        assert_eq!([write.count, write.bytes, write.errors], [5000, 320_000, 0]);
        assert_eq!(counts.end, End::Exited(0));
        assert_eq!(calls(counts)["exit_group"], [1, 0]);
    }
    if let [Some(ebpf), Some(ptrace)] = &each {
        assert_eq!(calls(ebpf), calls(ptrace));
    }
}
