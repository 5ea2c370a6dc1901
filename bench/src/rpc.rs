//! The stacks of `crates/rpc` against those of others: gRPC against Go's and C++'s, Thrift against
//! Apache's C++.
//!
//! Each side is a pair of ends of its own, started anew for each launch: the server on the second
//! processor, the client on the measured one, which reports how long its calls took by its own clock.
//! Ours are this program again ([`own`]); the others are built from what is in `rpc/peers`
//! ([`program`]) and from the interfaces in `crates/rpc/idl`, and take the same words.

mod contest;
mod own;
mod pair;
mod usage;

pub(crate) use own::run_role;

use crate::bench::Bench;
use crate::error::{Error, Result, failed};
use crate::program;
use crate::verdict::{COST, RATE, Verdict};
use clap::{Args, ValueEnum};
use contest::Contest;
use pair::{Pair, Task};

/// The payload of a call, and of a message of a stream.
const CALL_BYTES: usize = 64;
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// Build the peers, and print their versions
    Build,
    /// gRPC's round trip of 64 B: at most 1.05 times that of the faster of Go's and C++'s
    Grpc,
    /// Thrift's round trip of 64 B: at most 1.05 times that of Apache's C++
    Thrift,
    /// A client stream of messages of 64 KiB by gRPC: at least 0.95 times the faster pair's
    Stream,
}

/// How long a launch is.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Calls of a launch, after a tenth as many that warm up
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    calls: u32,
    /// Milliseconds of a stream, after one as long that warms up
    #[arg(long, value_name = "MS", default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    stream: u32,
}

impl Size {
    fn calls(self) -> Task {
        Task::Calls {
            warm_up: (self.calls / 10) as usize,
            calls: self.calls as usize,
            bytes: CALL_BYTES,
        }
    }

    fn stream(self) -> Task {
        Task::Stream { lasts_ms: self.stream as usize, bytes: CHUNK_BYTES }
    }
}

/// Compares this part, or all.
pub(crate) fn compare(bench: &Bench, part: Option<Part>, size: Size) -> Result<Vec<Verdict>> {
    let contests = match part {
        Some(Part::Build) => {
            build(bench)?;
            Vec::new()
        }
        Some(Part::Grpc) => vec![grpc(bench, size)?],
        Some(Part::Thrift) => vec![thrift(bench, size)?],
        Some(Part::Stream) => vec![stream(bench, size)?],
        None => {
            vec![grpc(bench, size)?, thrift(bench, size)?, stream(bench, size)?]
        }
    };
    contests.into_iter().map(|contest| contest.judge(bench)).collect()
}

fn grpc(bench: &Bench, size: Size) -> Result<Contest> {
    Ok(Contest {
        what: "gRPC's round trip of 64 B over TCP on loopback",
        task: size.calls(),
        band: COST,
        own: Pair::own("grpc")?,
        peers: vec![
            ("Go", Pair::peer(bench, &program::grpc_go(), None)),
            ("C++", Pair::peer(bench, &program::grpc_cpp(), None)),
        ],
        probe: Some("over=grpc"),
    })
}

fn stream(bench: &Bench, size: Size) -> Result<Contest> {
    Ok(Contest {
        what: "gRPC's client stream of messages of 64 KiB over TCP on loopback",
        task: size.stream(),
        band: RATE,
        probe: None,
        ..grpc(bench, size)?
    })
}

fn thrift(bench: &Bench, size: Size) -> Result<Contest> {
    const FRAMED: &str = "framed";
    Ok(Contest {
        what: "Thrift's round trip of 64 B over TCP on loopback",
        task: size.calls(),
        band: COST,
        own: Pair::own(FRAMED)?,
        peers: vec![("C++", Pair::peer(bench, &program::thrift_cpp(), Some(FRAMED)))],
        probe: Some("over=thrift"),
    })
}

/// Builds each peer, and prints the version of its stack.
fn build(bench: &Bench) -> Result<()> {
    let mut missing = Vec::new();
    for peer in [program::grpc_go(), program::grpc_cpp(), program::thrift_cpp()] {
        match peer.build(bench) {
            Ok(program) => println!("{}: {}", peer.version(bench)?, program.display()),
            Err(Error::Failed(why)) => {
                // One line for each peer, however many lines its compiler prints.
                let why: Vec<&str> = why.lines().map(str::trim).collect();
                println!("{} is not built: {}", peer.name, why.join(" "));
                missing.push(peer.name);
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(failed(format!("not built: {}", missing.join(", "))))
}
