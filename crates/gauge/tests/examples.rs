//! The examples for other harnesses build and stamp what they measure.

use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(path)
}

/// What a command prints, both streams. `Err` with the same if it fails or cannot be started.
fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let streams = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let text = streams.concat();
    if output.status.success() { Ok(text) } else { Err(text) }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn google_benchmark_repeats_batches_until_the_core_is_alone() {
    let program = Path::new(FOLDER).join("google-benchmark");
    let built = printed(
        Command::new("g++")
            .args(["-std=c++14", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
            .args([example("../include"), example("google_benchmark/alone.cc"), "-o".into()])
            .arg(&program)
            .args(["-lbenchmark", "-lpthread"]),
    );
    match built {
        Err(error) if error.contains("benchmark/benchmark.h: No such file") => {
            return println!("skipped: Google Benchmark is not installed (libbenchmark-dev)");
        }
        built => built.unwrap(),
    };
    let text = printed(&mut Command::new(program)).unwrap();
    for column in ["sort_numbers", "alone=", "shared=", "not_alone="] {
        assert!(text.contains(column) || text.contains("no floor"), "{column}: {text}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn pytest_benchmark_stamps_each_round() {
    let has_it = |python: &&str| {
        let modules = "import pytest, pytest_benchmark";
        printed(Command::new(python).args(["-c", modules])).is_ok()
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_it) else {
        return println!("skipped: pytest-benchmark is not installed (python3-pytest-benchmark)");
    };
    let text = printed(
        Command::new(python)
            .args(["-B", "-m", "pytest", "-s", "-p", "no:cacheprovider"])
            .arg(example("python/test_sum.py")),
    )
    .unwrap();
    let stamps = text.lines().find(|line| line.contains("rounds alone "));
    let words: Vec<&str> = stamps.unwrap().split([' ', ',']).collect();
    let rounds: usize = words.iter().filter_map(|word| word.parse::<usize>().ok()).sum();
    assert_eq!(rounds, 2000, "{text}");
    assert!(text.contains("with the core alone: "), "{text}");
}
