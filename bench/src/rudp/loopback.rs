//! rudp on loopback beside raw UDP, which is what any protocol over UDP is limited by, and beside
//! TCP and QUIC, which do more for their users, or have the kernel do it.

use super::ends::Path;
use crate::bench::Bench;
use crate::error::Result;
use crate::rounds;
use crate::verdict::{self, Verdict};
use costof_peers::agreement::Band;
use costof_peers::round::Side;
use costof_peers::verify::keep_awake;
use costof_stats::{median, median_interval};
use std::ops::Range;

const ROUNDS: usize = 9;
/// So long a stream lasts, and so much of its beginning is left out.
const SECONDS: usize = 3;
const START_SECONDS: usize = 1;
/// Datagrams as long as the loopback device takes them, and a queue that the caches hold; and
/// datagrams of an Ethernet frame, which the kernel cuts and joins as it does raw UDP's.
const LONG: &str = "rudp:cubic:65507:4194304";
const SHORT: &str = "rudp:cubic:1452:4194304";

/// The place of raw UDP among the sides, which rudp is judged by.
const RAW: Range<usize> = 1..2;
const OF_RAW: Band = crate::verdict::at_least(0.4);
const GIGABITS: Band = crate::verdict::at_least(20.0);
const ROUND_TRIP: Band = crate::verdict::at_most(1.15);
const EXCHANGES: usize = 20_000;

/// One connection, messages of 64 KiB.
pub(super) fn goodput(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(
        "rudp on loopback, one connection, messages of 64 KiB, in Gb/s of payload: with datagrams \
         of 65,507 bytes (long) and of 1,452; raw UDP with GSO and GRO, which loses what does not \
         fit; TCP; quinn, which encrypts",
    );
    let path = &Path::loopback(bench.two_cpus()?);
    let side = |name: &'static str, kind: &'static str| {
        Side::new(name, move |_| {
            let arrived = path.stream(bench, kind, SECONDS)?;
            Ok(arrived.rate(START_SECONDS, SECONDS) * 8e-9)
        })
    };
    let mut sides = [
        side("long", LONG),
        side("raw", "raw"),
        side("short", SHORT),
        side("tcp cubic", "tcp:cubic"),
        side("tcp bbr", "tcp:bbr"),
        side("quinn", "quic"),
    ];
    let measured = rounds::measure(bench, ROUNDS, &mut sides)?;
    let absolute = match &measured.given[0] {
        Ok(own) => {
            let reached = median(own).is_some_and(|middle| GIGABITS.contains(middle));
            verdict::judge(GIGABITS, median_interval(own)).only_if_quiet(measured.quiet || reached)
        }
        Err(why) => Verdict::Undecided(why.clone()),
    };
    Ok(vec![
        absolute.report(&format!("goodput, {GIGABITS} Gb/s")),
        measured
            .against_best(OF_RAW, RAW)
            .report(&format!("goodput over that of raw UDP, {OF_RAW}")),
    ])
}

/// One after the other: both ends blocked until something comes, and both polling.
pub(super) fn round_trip(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce(
        "rudp's round trips on loopback beside those of raw UDP, both ends blocked until \
         something comes, or spinning; both processors kept awake: medians in µs",
    );
    let cpus = bench.two_cpus()?;
    let path = &Path::loopback(cpus);
    // How long one that sleeps takes to wake differs by more than what is measured.
    let _spinners = keep_awake(&cpus)?;
    let mut verdicts = Vec::new();
    for parts in [["echo", "ping"], ["echo spinning", "ping spinning"]] {
        for bytes in [64, 1400] {
            println!("{bytes} bytes, {}", parts[1]);
            let side = |name: &'static str, kind: &'static str| {
                Side::new(name, move |_| {
                    let [middle, ..] = path.exchange(bench, parts, kind, &[bytes, EXCHANGES])?;
                    Ok(middle / 1e3)
                })
            };
            let mut sides = [side("rudp", SHORT), side("raw", "raw")];
            // Both are medians of many exchanges: a noisy machine moves both alike.
            let measured = rounds::measure(bench, ROUNDS, &mut sides)?;
            let what = format!("round trips of {bytes} bytes, {}, {ROUND_TRIP}", parts[1]);
            verdicts.push(measured.against_best(ROUND_TRIP, RAW).report(&what));
        }
    }
    Ok(verdicts)
}
