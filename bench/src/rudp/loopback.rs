//! rudp on loopback beside raw UDP, which is what any protocol over UDP is limited by, and beside
//! TCP and QUIC, which do more for their users, or have the kernel do it.

use super::ends::Path;
use crate::bench::Bench;
use crate::error::Result;
use crate::rounds::{self, Given, Side, Told};
use crate::verdict::{Bounds, Verdict};
use costof_stats::{median, median_interval, ratio_interval};

const ROUNDS: usize = 9;
/// So long a stream lasts, and so much of its beginning is left out.
const SECONDS: usize = 3;
const START_SECONDS: usize = 1;
/// Datagrams as long as the loopback device takes them, and a queue that the caches hold; and
/// datagrams of an Ethernet frame, which the kernel cuts and joins as it does raw UDP's.
const LONG: &str = "rudp:cubic:65507:4194304";
const SHORT: &str = "rudp:cubic:1452:4194304";

const OF_RAW: Bounds = Bounds {
    low: 0.4,
    high: f64::INFINITY,
};
const GIGABITS: Bounds = Bounds {
    low: 20.0,
    high: f64::INFINITY,
};
const ROUND_TRIP: Bounds = Bounds {
    low: 0.0,
    high: 1.15,
};
const EXCHANGES: usize = 20_000;

/// One connection, messages of 64 KiB.
pub(super) fn goodput(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(
        "rudp on loopback, one connection, messages of 64 KiB, in Gb/s of payload: with datagrams \
         of 65,507 bytes (long) and of 1,452; raw UDP with GSO and GRO, which loses what does not \
         fit; TCP; quinn, which encrypts",
    );
    let path = &Path::loopback(bench)?;
    let side = |name: &'static str, kind: &'static str| Side {
        name,
        measure: Box::new(move |_| {
            let arrived = path.stream(bench, kind, SECONDS)?;
            Ok(arrived.rate(START_SECONDS, SECONDS) * 8e-9)
        }),
    };
    let mut sides = vec![
        side("long", LONG),
        side("raw", "raw"),
        side("short", SHORT),
        side("tcp cubic", "tcp:cubic"),
        side("tcp bbr", "tcp:bbr"),
        side("quinn", "quic"),
    ];
    let Told { given, quiet } = rounds::tell(bench, ROUNDS, &mut sides)?;
    let own = given.first().and_then(|given| given.as_ref().ok());
    let absolute = match own {
        Some(own) => GIGABITS
            .judge(median_interval(own))
            .only_if_quiet(quiet || median(own).is_some_and(|middle| GIGABITS.holds(middle))),
        None => Verdict::CannotBeTold("there is no number".to_owned()),
    };
    println!("verdict on goodput, {GIGABITS} Gb/s: {absolute}");
    let of_raw = beside(&given, OF_RAW);
    println!("verdict on goodput over that of raw UDP, {OF_RAW}: {of_raw}\n");
    Ok(vec![absolute, of_raw])
}

/// One after the other: both ends blocked until something comes, and both asking again and again.
pub(super) fn round_trip(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(
        "rudp's round trips on loopback beside those of raw UDP, both ends blocked until \
         something comes, or spinning; both processors kept awake: medians in µs",
    );
    let path = &Path::loopback(bench)?;
    // How long one that sleeps takes to wake differs by more than what is to be told.
    let _spinners = path.keep_awake()?;
    let mut verdicts = Vec::new();
    for parts in [["echo", "ask"], ["echo spinning", "ask spinning"]] {
        for bytes in [64, 1400] {
            println!("{bytes} bytes, {}", parts[1]);
            let side = |name: &'static str, kind: &'static str| Side {
                name,
                measure: Box::new(move |_| {
                    let [middle, ..] = path.exchange(bench, parts, kind, &[bytes, EXCHANGES])?;
                    Ok(middle / 1e3)
                }),
            };
            let mut sides = vec![side("rudp", SHORT), side("raw", "raw")];
            let Told { given, .. } = rounds::tell(bench, ROUNDS, &mut sides)?;
            // Both are medians of many exchanges: a noisy machine moves both alike.
            let verdict = beside(&given, ROUND_TRIP);
            println!(
                "verdict on round trips of {bytes} bytes, {}, {ROUND_TRIP}: {verdict}\n",
                parts[1]
            );
            verdicts.push(verdict);
        }
    }
    Ok(verdicts)
}

/// The first over the second.
fn beside(given: &[Given], bounds: Bounds) -> Verdict {
    match given {
        [Ok(own), Ok(other), ..] => bounds.judge(ratio_interval(own, other)),
        _ => Verdict::CannotBeTold("there is no number".to_owned()),
    }
}
