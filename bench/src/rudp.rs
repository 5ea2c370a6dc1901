//! The library `rudp`, by itself: on loopback beside raw UDP, TCP and QUIC, and over links that
//! hold up, lose and limit, where what it delivers is compared with what the link can carry.
//!
//! Both ends are this program again ([`end`]). On loopback the sender or client is on the measured
//! processor and the other end on the next one; over a link nothing is pinned, since the relay
//! needs a processor too.

mod end;
mod ends;
mod links;
mod loopback;
mod tally;

pub(crate) use end::{print_quantiles, run_role};

use crate::bench::Bench;
use crate::error::Result;
use crate::verdict::Verdict;
use clap::ValueEnum;

/// Longest datagrams and what is queued ahead: of an Ethernet frame, and as much as fits in flight
/// on a link and in its queue, twice.
const RATE: &str = "rudp:rate:1452:16777216";
const CUBIC: &str = "rudp:cubic:1452:16777216";
const FIXED: &str = "rudp:fixed:1452:16777216";

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// Goodput on loopback: at least 20 Gb/s, and 0.4 of raw UDP
    Goodput,
    /// Round trips on loopback: at most 1.15 times those of raw UDP
    RoundTrip,
    /// Over 100 Mb/s and 95 ms that lose up to 30 %: at least 0.9 of what loss lets through
    Loss,
    /// A thousand echoes at once where 10 % are lost both ways: p99 at most 4 round trips
    Echoes,
    /// Beside TCP cubic for a minute: that keeps at least 40 % of the link
    Share,
    /// The link `lan`: at least 93 % of 1 Gb/s
    Lan,
}

/// Compares this part, or all.
pub(crate) fn compare(bench: &Bench, part: Option<Part>) -> Result<Vec<Verdict>> {
    let parts = part.map_or(Part::value_variants().to_vec(), |part| vec![part]);
    let mut verdicts = Vec::new();
    for part in parts {
        verdicts.extend(match part {
            Part::Goodput => loopback::goodput(bench),
            Part::RoundTrip => loopback::round_trip(bench),
            Part::Loss => links::loss(bench),
            Part::Echoes => links::echoes(bench),
            Part::Share => links::share(bench),
            Part::Lan => links::lan(bench),
        }?);
    }
    Ok(verdicts)
}
