//! rudp over links that costof makes: what it delivers of what the link carries.
//!
//! A noisy machine can only show too little: the relay or an end was late.

use super::ends::Path;
use super::{CUBIC, FIXED, RATE};
use crate::bench::Bench;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::{Bounded, Verdict};
use costof_peers::agreement::Band;
use std::time::Duration;

const ROUNDS: usize = 3;

const LONG_LINK: &str = "rate=100Mbit,delay=95ms";
const RATE_BITS: f64 = 100e6;
const ROUND_TRIP_NS: f64 = 190e6;
const LOSSES_PERCENT: [u32; 5] = [0, 1, 10, 20, 30];
/// A stream lasts so long, and is taken to be at its speed from then on.
const SECONDS: usize = 20;
const STEADY_FROM: usize = 10;
/// Of what loss lets through.
const GOODPUT: Band = crate::verdict::at_least(0.9);
const START_S: Band = crate::verdict::at_most(10.0);

const ECHO_ROUNDS: usize = 15;
const ECHOES: usize = 1000;
/// With a thousand in flight always, so many.
const ECHOES_ALL: usize = 10_000;
const ECHO_BYTES: usize = 64;
const ECHO_ROUND_TRIPS: Band = crate::verdict::at_most(4.0);

/// TCP has the link for so long before it is shared.
const ALONE_SECONDS: usize = 10;
const SHARED_SECONDS: usize = 60;
const KEEPS: Band = crate::verdict::at_least(0.4);

const LAN_SECONDS: usize = 8;
const LAN_STEADY_FROM: usize = 3;
const LAN_BITS: f64 = 1e9;
const LAN: Band = crate::verdict::at_least(0.93);

/// Loss in the direction of the data, which is judged, and in both.
pub(super) fn loss(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(&format!(
        "rudp control=rate over {LONG_LINK}, with loss: payload as a share of what loss lets \
         through, from second {STEADY_FROM} on"
    ));
    let watch = Watch::start();
    let mut found = Vec::new();
    for percent in LOSSES_PERCENT {
        let part = 1.0 - f64::from(percent) / 100.0;
        for ways in ["up.", ""] {
            if percent == 0 && ways.is_empty() {
                continue;
            }
            let link = format!("{LONG_LINK},{ways}loss={percent}%");
            let steady = Steady {
                link: &link,
                kind: RATE,
                seconds: SECONDS,
                from: STEADY_FROM,
                carries: RATE_BITS * part,
            };
            let (shares, starts) = steady.rounds(bench)?;
            if !ways.is_empty() {
                let goodput = format!("goodput over {link}, {GOODPUT} of what loss lets through");
                let start = format!("seconds until it is at speed over {link}, {START_S}");
                found.push(Bounded::new(goodput, GOODPUT, shares));
                found.push(Bounded::new(start, START_S, starts));
            }
        }
    }
    Ok(judge(&watch, found))
}

/// The link that costof calls `lan`.
pub(super) fn lan(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce("rudp over lan (1 Gb/s, 0.05 ms): payload as a share of the rate");
    let watch = Watch::start();
    let mut found = Vec::new();
    for kind in [CUBIC, RATE] {
        let steady = Steady {
            link: "lan",
            kind,
            seconds: LAN_SECONDS,
            from: LAN_STEADY_FROM,
            carries: LAN_BITS,
        };
        let (shares, _) = steady.rounds(bench)?;
        // By the default; the other stands beside it.
        if kind == CUBIC {
            let what = format!("goodput over lan, {LAN} of 1 Gb/s");
            found.push(Bounded::new(what, LAN, shares));
        }
    }
    Ok(judge(&watch, found))
}

/// A stream by a link of its own in each round.
struct Steady<'a> {
    link: &'a str,
    kind: &'a str,
    seconds: usize,
    /// From which second on it counts.
    from: usize,
    /// Bits a second that the link could deliver.
    carries: f64,
}

impl Steady<'_> {
    /// The share that was delivered, and the seconds until it was at speed, of each round.
    fn rounds(&self, bench: &Bench) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut shares, mut starts) = (Vec::new(), Vec::new());
        for round in 1..=bench.rounds(ROUNDS) {
            let mut path = Path::link(bench, self.link, round)?;
            let arrived = path.stream(bench, self.kind, self.seconds)?;
            let rate = arrived.rate(self.from, self.seconds);
            let start = arrived.start_s(rate).unwrap_or(self.seconds as f64);
            let share = rate * 8.0 / self.carries;
            println!(
                "{}, {}, round {round}: {:.1} Mb/s, {share:.3} of what could arrive; at speed \
                 after {start:.1} s; {}",
                self.link,
                self.kind,
                rate * 8e-6,
                path.link_summary()?
            );
            shares.push(share);
            starts.push(start);
        }
        Ok((shares, starts))
    }
}

/// A thousand questions at once, each answered as it comes; and a thousand in flight always.
pub(super) fn echoes(bench: &Bench) -> Result<Vec<Verdict>> {
    let link = format!("{LONG_LINK},loss=10%");
    bench.introduce(&format!(
        "{ECHOES} echoes of {ECHO_BYTES} bytes at once over {link}, in round trips of the link: the \
         connection's first, and {ECHOES_ALL} of which as many are in flight always"
    ));
    let watch = Watch::start();
    let mut found = Vec::new();
    for kind in [FIXED, RATE, CUBIC] {
        for (all, which) in [(ECHOES, "the first"), (ECHOES_ALL, "always in flight")] {
            // Who takes every loss for congestion has no window for so many.
            if kind == CUBIC && all > ECHOES {
                continue;
            }
            let mut p99 = Vec::new();
            for round in 1..=bench.rounds(ECHO_ROUNDS) {
                let path = Path::link(bench, &link, round)?;
                let rest = [ECHO_BYTES, ECHOES, all];
                let took = path.exchange(bench, ["echo at once", "ping at once"], kind, &rest)?;
                let [middle, ninety_ninth, most] = took.map(|ns| ns / ROUND_TRIP_NS);
                println!(
                    "{kind}, {which}, round {round}: median {middle:.2}, p99 {ninety_ninth:.2}, all \
                     within {most:.2}"
                );
                p99.push(ninety_ninth);
            }
            if kind != CUBIC {
                let what =
                    format!("p99 of echoes by {kind}, {which}, {ECHO_ROUND_TRIPS} round trips");
                found.push(Bounded::new(what, ECHO_ROUND_TRIPS, p99));
            }
        }
    }
    Ok(judge(&watch, found))
}

/// TCP cubic alone, and then beside rudp `cubic`; and beside another TCP cubic, to see what
/// that would leave it.
pub(super) fn share(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(&format!(
        "TCP cubic over {LONG_LINK}, after {ALONE_SECONDS} s beside another for {SHARED_SECONDS} s: \
         its part of what the link carries"
    ));
    let watch = Watch::start();
    let mut kept = Vec::new();
    for round in 1..=bench.rounds(ROUNDS) {
        kept.push(shared(bench, CUBIC, round)?);
        shared(bench, "tcp:cubic", round)?;
    }
    let what = format!("what TCP cubic keeps beside rudp cubic, {KEEPS}");
    Ok(judge(&watch, vec![Bounded::new(what, KEEPS, kept)]))
}

/// What TCP cubic keeps beside this one.
fn shared(bench: &Bench, other: &str, round: usize) -> Result<f64> {
    let mut path = Path::link(bench, LONG_LINK, round)?;
    let all = ALONE_SECONDS + SHARED_SECONDS;
    let mut first = path.start_receiver(bench, "tcp:cubic", all)?;
    let _first_sends = path.start_sender(&first)?;
    first.wait_running(bench, Duration::from_secs(ALONE_SECONDS as u64))?;
    let second = path.start_receiver(bench, other, SHARED_SECONDS)?;
    let _second_sends = path.start_sender(&second)?;
    let of_first = first.arrived(bench, all)?;
    let of_second = second.arrived(bench, SHARED_SECONDS)?;
    let parts = [of_first.rate(ALONE_SECONDS, all), of_second.rate(0, SHARED_SECONDS)]
        .map(|rate| rate * 8.0 / RATE_BITS);
    println!(
        "beside {other}, round {round}: TCP {:.3} of the link (alone before: {:.3}), the other \
         {:.3}; {}",
        parts[0],
        of_first.rate(ALONE_SECONDS / 2, ALONE_SECONDS) * 8.0 / RATE_BITS,
        parts[1],
        path.link_summary()?
    );
    if parts[0] <= 0.0 {
        return Err(failed("nothing of TCP's stream arrived"));
    }
    Ok(parts[0])
}

fn judge(watch: &Watch, found: Vec<Bounded>) -> Vec<Verdict> {
    println!();
    let quiet = machine::was_quiet(watch);
    let verdicts = found.into_iter().map(|bounded| bounded.report(quiet)).collect();
    println!();
    verdicts
}
