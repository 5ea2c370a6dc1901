//! The ends that `rpc` compares: ours, and those of each peer whose tools are installed here, take the
//! same words and say what the bench reads. A short launch of each, whatever it takes.
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const BENCH: &str = env!("CARGO_BIN_EXE_costof-bench");

/// An end, killed and reaped when it is dropped.
struct End {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl End {
    fn start(program: &str, words: &[&str]) -> End {
        let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        End { child, says }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The numbers that it says behind `warm`.
    fn numbers(&mut self) -> Vec<u64> {
        assert_eq!(self.line(), "warm");
        let line = self.line();
        line.split(' ')
            .map(|word| word.parse().unwrap_or_else(|_| panic!("it said `{line}`")))
            .collect()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // One that has ended by itself is past both.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server, and a client of it that does this.
fn numbers(program: &str, before: &[&str], serve: &str, what: &str, rest: &[&str]) -> Vec<u64> {
    let mut server = End::start(program, &[before, &[serve]].concat());
    let address = server.line();
    let words = [before, &[what, &address], rest].concat();
    End::start(program, &words).numbers()
}

fn calls(program: &str, before: &[&str], serve: &str) {
    let times = numbers(program, before, serve, "call", &["5", "50", "64"]);
    let [median, almost_all, longest] = times[..] else { panic!("{times:?} are no three numbers") };
    assert!(0 < median && median <= almost_all && almost_all <= longest);
}

fn streams(program: &str, before: &[&str], serve: &str) {
    let sum = numbers(program, before, serve, "stream", &["20", "65536"]);
    let [bytes, took_ns] = sum[..] else { panic!("{sum:?} are no two numbers") };
    assert!(bytes > 0 && bytes.is_multiple_of(65536) && took_ns >= 20_000_000);
}

#[test]
fn our_ends_say_how_long_calls_take_and_what_arrives_of_a_stream() {
    for stack in ["grpc", "framed"] {
        calls(BENCH, &["rpc-end", stack], "serve");
    }
    streams(BENCH, &["rpc-end", "grpc"], "serve");
}

#[test]
fn an_end_that_does_not_exist_is_refused() {
    for words in [["grpc", "dance"], ["soap", "serve"]] {
        let ended = Command::new(BENCH).arg("rpc-end").args(words).output().unwrap();
        assert_eq!(ended.status.code(), Some(2));
        let why = String::from_utf8(ended.stderr).unwrap();
        assert!(why.contains(words[0]), "{why}");
    }
}

#[test]
fn peers_whose_tools_are_here_do_the_same() {
    let built = Command::new(BENCH)
        .args(["rpc", "build", "--costof", BENCH])
        // Modules that are not here already are not fetched for a test.
        .env("GOPROXY", "off")
        .output()
        .unwrap();
    let said = String::from_utf8(built.stdout).unwrap();
    let mut all_are_there = true;
    for line in said.lines() {
        let Some((version, program)) = line.split_once(": /") else {
            eprintln!("skipped: {line}");
            all_are_there = false;
            continue;
        };
        let program = format!("/{program}");
        match version.split(' ').next() {
            Some("gRPC") => {
                calls(&program, &[], "serve");
                streams(&program, &[], "serve");
                if version.starts_with("gRPC C++") {
                    calls(&program, &[], "serve-sync");
                    streams(&program, &[], "serve-sync");
                }
            }
            _ => calls(&program, &["framed"], "serve"),
        }
    }
    assert_eq!(built.status.code(), Some(if all_are_there { 0 } else { 2 }));
    assert!(said.lines().count() == 3, "{said}");
}
