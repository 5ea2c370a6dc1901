//! The stacks of `crates/rpc` beside those of others: gRPC beside Go's and C++'s, Thrift beside
//! Apache's C++.
//!
//! Each side is a pair of ends of its own, started anew for each launch: the server on the second
//! processor, the client on the measured one, which says how long its calls took by its own clock.
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
use crate::verdict::{Bounds, Verdict};
use clap::{Args, ValueEnum};
use contest::{Contest, Task};
use pair::Pair;

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
    match part {
        Some(Part::Build) => build(bench),
        Some(Part::Grpc) => grpc(bench, size),
        Some(Part::Thrift) => thrift(bench, size),
        Some(Part::Stream) => stream(bench, size),
        None => {
            let mut verdicts = grpc(bench, size)?;
            verdicts.extend(thrift(bench, size)?);
            verdicts.extend(stream(bench, size)?);
            Ok(verdicts)
        }
    }
}

/// Builds each peer, and says which version of its stack it has.
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

fn grpc(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    Contest {
        what: "gRPC's round trip of 64 B over TCP on loopback",
        task: size.calls(),
        bounds: Bounds::COST,
        rounds: 21,
        own: Pair::own("grpc")?,
        peers: vec![
            ("Go", Pair::peer(bench, &peers::GRPC_GO, None, "serve")),
            ("C++", Pair::peer(bench, &peers::GRPC_CPP, None, "serve")),
        ],
        probe: Some("stack=grpc"),
    }
    .hold(bench)
    .map(|verdict| vec![verdict])
}

/// Framed and buffered, each beside the same of C++.
fn thrift(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    let contest = |what, transport, probe| {
        let theirs = Pair::peer(bench, &peers::THRIFT_CPP, Some(transport), "serve");
        Contest {
            what,
            task: size.calls(),
            bounds: Bounds::COST,
            rounds: 21,
            own: Pair::own(transport)?,
            peers: vec![("C++", theirs)],
            probe,
        }
        .hold(bench)
    };
    let framed = contest(
        "Thrift's round trip of 64 B over TCP on loopback, framed",
        "framed",
        Some("stack=thrift"),
    )?;
    let buffered = contest(
        "Thrift's round trip of 64 B over TCP on loopback, buffered",
        "buffered",
        None,
    )?;
    Ok(vec![framed, buffered])
}

fn stream(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    Contest {
        what: "gRPC's client stream of messages of 64 KiB over TCP on loopback",
        task: size.stream(),
        bounds: Bounds::RATE,
        rounds: 21,
        own: Pair::own("grpc")?,
        peers: vec![
            ("Go", Pair::peer(bench, &peers::GRPC_GO, None, "serve")),
            ("C++", Pair::peer(bench, &peers::GRPC_CPP, None, "serve")),
        ],
        probe: None,
    }
    .hold(bench)
    .map(|verdict| vec![verdict])
}
