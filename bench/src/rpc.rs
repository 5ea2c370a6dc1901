//! The stacks of `crates/rpc` beside those of others: gRPC beside Go's and C++'s, Thrift beside
//! Apache's C++.
//!
//! Each side is a pair of ends of its own, started anew for each launch: the server on the second
//! processor, the client on the measured one, which reports how long its calls took by its own clock.
//! Ours are this program again ([`own`]); the others are built from what is in `rpc/peers`
//! ([`peers`]) and from the interfaces in `crates/rpc/idl`, and take the same words.

mod contest;
mod own;
mod pair;
mod peers;
mod usage;

pub(crate) use own::play;

use crate::bench::Bench;
use crate::error::{Result, failed};
use crate::verdict::{COST, RATE, Verdict};
use clap::{Args, ValueEnum};
use contest::Contest;
use pair::{Pair, Task};

/// The payload of a call, and of a message of a stream.
const CALL_BYTES: usize = 64;
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// Build the peers, and say of what
    Build,
    /// gRPC's round trip of 64 B: at most 1.05 times that of the faster of Go's and C++'s
    Grpc,
    /// Thrift's round trip of 64 B, framed and buffered: at most 1.05 times that of Apache's C++
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
        Task::Stream {
            lasts_ms: self.stream as usize,
            bytes: CHUNK_BYTES,
        }
    }
}

/// Compares this part, or all.
pub(crate) fn compare(bench: &Bench, part: Option<Part>, size: Size) -> Result<Vec<Verdict>> {
    let parts = match part {
        Some(Part::Build) => return build(bench),
        Some(part) => vec![part],
        None => vec![Part::Grpc, Part::Thrift, Part::Stream],
    };
    let mut verdicts = Vec::new();
    for part in parts {
        for contest in contests(bench, part, size)? {
            verdicts.push(contest.hold(bench)?);
        }
    }
    Ok(verdicts)
}

fn contests(bench: &Bench, part: Part, size: Size) -> Result<Vec<Contest>> {
    let grpc = |what, task, band, probe| -> Result<Contest> {
        Ok(Contest {
            what,
            task,
            band,
            own: Pair::own("grpc")?,
            peers: vec![
                ("Go", Pair::peer(bench, &peers::GRPC_GO, None)),
                ("C++", Pair::peer(bench, &peers::GRPC_CPP, None)),
            ],
            probe,
        })
    };
    // Each transport against the same of C++.
    let thrift = |what, transport, probe| -> Result<Contest> {
        let theirs = Pair::peer(bench, &peers::THRIFT_CPP, Some(transport));
        Ok(Contest {
            what,
            task: size.calls(),
            band: COST,
            own: Pair::own(transport)?,
            peers: vec![("C++", theirs)],
            probe,
        })
    };
    match part {
        Part::Build => Ok(Vec::new()),
        Part::Grpc => {
            let what = "gRPC's round trip of 64 B over TCP on loopback";
            Ok(vec![grpc(what, size.calls(), COST, Some("stack=grpc"))?])
        }
        Part::Thrift => {
            let framed = "Thrift's round trip of 64 B over TCP on loopback, framed";
            let buffered = "Thrift's round trip of 64 B over TCP on loopback, buffered";
            Ok(vec![
                thrift(framed, "framed", Some("stack=thrift"))?,
                thrift(buffered, "buffered", None)?,
            ])
        }
        Part::Stream => {
            let what = "gRPC's client stream of messages of 64 KiB over TCP on loopback";
            Ok(vec![grpc(what, size.stream(), RATE, None)?])
        }
    }
}

/// Builds each peer, and prints the version of its stack.
fn build(bench: &Bench) -> Result<Vec<Verdict>> {
    let mut missing = Vec::new();
    for peer in peers::ALL {
        match peer.built(bench) {
            Ok(program) => println!("{}: {}", peer.version(bench)?, program.display()),
            Err(crate::error::Error::Failed(why)) => {
                // A line for each, however many a compiler complains in.
                let why: Vec<&str> = why.lines().map(str::trim).collect();
                println!("{} is not built: {}", peer.name, why.join(" "));
                missing.push(peer.name);
            }
            Err(interrupted) => return Err(interrupted),
        }
    }
    match missing[..] {
        [] => Ok(Vec::new()),
        _ => Err(failed(format!("without {}", missing.join(", ")))),
    }
}
