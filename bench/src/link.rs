//! What links do that costof makes, by programs that know nothing of it: ping(8)
//! measures the delay, idle and beside a flow, iperf3 what is lost and what passes.
//!
//! Both go through the link of `costof link`, which needs root.

use crate::bench::Bench;
use crate::child::{self, KillOnDrop};
use crate::error::{OrCannot, Result, failed};
use crate::machine::{self, Watch};
use crate::server::{Server, Transport, free_port};
use crate::verdict::{Verdict, shown_median};
use costof_os::process::terminate_group;
use costof_peers::agreement::Band;
use costof_stats::{median, quantile};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

const SERVER: &str = "10.0.0.1";
/// How long a command may take that goes over a link.
const LIMIT: Duration = Duration::from_secs(120);
/// For how long the machine is looked at while the bench does nothing: the relay
/// is no child of it, and would count as somebody else.
const QUIET_WINDOW: Duration = Duration::from_secs(2);

/// 95 ms there and 95 back, and what ping and the kernel add.
const ROUND_TRIP_MS: Band = Band::new(190.0, 190.3);
const PINGS: usize = 25;
/// How long a flow may take until it flows.
const START: Duration = Duration::from_secs(3);

const LOSS_PERCENT: Band = Band::new(9.8, 10.2);
const SEEDS: usize = 5;

const RATE_SHARE: Band = Band::new(0.97, 1.0);
const RATE: f64 = 100e6;
/// The payload of a packet of the MTU, and that packet.
const PAYLOAD_BYTES: f64 = 1472.0;
const PACKET_BYTES: f64 = 1500.0;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce("links that were asked for a delay, for losses, and for a rate");
    let quiet_before = is_quiet();
    let mut found = delays(bench)?;
    found.push(losses(bench)?);
    found.push(rate(bench)?);
    println!();
    let quiet = is_quiet() && quiet_before;
    println!();
    Ok(found
        .into_iter()
        .map(|(what, holds)| Verdict::from(holds).refuted_only_if_quiet(quiet).report(&what))
        .collect())
}

/// What was promised, and whether it holds.
type Found = (String, bool);

fn is_quiet() -> bool {
    let watch = Watch::start();
    std::thread::sleep(QUIET_WINDOW);
    machine::was_quiet(&watch)
}

/// Round trips with nothing else in flight, and beside 50 Mb/s.
fn delays(bench: &Bench) -> Result<Vec<Found>> {
    let up = Up::new(bench, "delay=95ms", 1)?;
    let idle = up.round_trips("idle")?;
    let server = up.iperf3_server()?;
    let arguments = "--udp --bitrate 50M --length 1400 --time 3600";
    let mut flow = child::start_silent(&mut up.iperf3(&server, arguments))?;
    std::thread::sleep(START);
    let beside = up.round_trips("beside 50 Mb/s")?;
    if flow.status()?.is_some() {
        return Err(failed("iperf3's flow ended before the last ping"));
    }
    up.print_report()?;
    Ok(vec![idle, beside])
}

fn losses(bench: &Bench) -> Result<Found> {
    let mut all = true;
    for seed in 1..=bench.rounds(SEEDS) {
        let up = Up::new(bench, "up.loss=10%", seed)?;
        let server = up.iperf3_server()?;
        let arguments = "--udp --length 100 --blockcount 100000 --bitrate 10M";
        let (lost, sent) = up.finish(&mut up.iperf3(&server, arguments), lost_of)?;
        let percent = 100.0 * lost / sent;
        let holds = LOSS_PERCENT.contains(percent);
        println!("up.loss=10%, seed {seed}: {lost} of {sent} packets lost, {percent:.2} %");
        if !holds {
            up.print_report()?;
        }
        all &= holds;
    }
    Ok((format!("losses, {LOSS_PERCENT} % by each seed"), all))
}

fn rate(bench: &Bench) -> Result<Found> {
    let up = Up::new(bench, "rate=100Mbit", 1)?;
    let server = up.iperf3_server()?;
    let arguments = "--udp --length 1472 --bitrate 150M --omit 1 --time 5 --format k";
    let kilobits = up.finish(&mut up.iperf3(&server, arguments), kilobits_received)?;
    // iperf3 and the link each have a clock of their own: four digits.
    let share = kilobits * 1e3 * PACKET_BYTES / PAYLOAD_BYTES / RATE;
    let share = (share * 1e4).round() / 1e4;
    println!(
        "rate=100Mbit: {:.2} Mb/s of payload received, which is {share:.4} of the rate in IP bytes",
        kilobits / 1e3
    );
    let holds = RATE_SHARE.contains(share);
    Ok((format!("the rate's share, {RATE_SHARE}"), holds))
}

/// A link with names, until it is dropped.
struct Up<'a> {
    bench: &'a Bench,
    link: &'a str,
    costof: KillOnDrop,
    output: BufReader<ChildStdout>,
}

impl<'a> Up<'a> {
    fn new(bench: &'a Bench, link: &'a str, seed: usize) -> Result<Up<'a>> {
        let mut command = bench.costof.command(&["link", link, "--seed", &seed.to_string()]);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut costof = child::start(&mut command)?;
        let mut output = BufReader::new(costof.output().expect("its output is a pipe"));
        let mut said = String::new();
        while !said.starts_with("enter it") {
            said.clear();
            if output.read_line(&mut said).or_cannot("read what costof link says")? == 0 {
                return Err(failed(format!("costof made no link {link}")));
            }
        }
        Ok(Up { bench, link, costof, output })
    }

    /// Something started in the client's namespace.
    fn client(&self, words: &str) -> Command {
        let mut command = child::until_death("ip");
        command.args(["netns", "exec", "costof-client"]).args(words.split(' '));
        command
    }

    fn iperf3_server(&self) -> Result<Server> {
        let mut command = child::until_death("ip");
        command.args(["netns", "exec", "costof-server", "iperf3", "--server"]);
        let port = free_port()?;
        command.args(["--one-off", "--port", &port.to_string()]);
        Server::listening(command, port, Transport::Tcp, &self.bench.interrupt)
    }

    fn iperf3(&self, server: &Server, arguments: &str) -> Command {
        self.client(&format!("iperf3 --client {SERVER} --port {} {arguments}", server.port))
    }

    /// What is read from all that a command prints.
    fn finish<T>(&self, command: &mut Command, read: fn(&str) -> Option<T>) -> Result<T> {
        let output = child::finish(command, LIMIT, &self.bench.interrupt)?.output;
        read(&output).ok_or_else(|| failed(format!("this was not understood: {output}")))
    }

    /// One packet after the other, so that each has a number with three digits
    /// after the point: of the single ones above 100 ms, ping shows none.
    fn round_trips(&self, when: &str) -> Result<Found> {
        let mut round_trips_ms = Vec::new();
        for _ in 0..PINGS {
            let mut ping = self.client(&format!("ping -n -c 1 -W 10 {SERVER}"));
            round_trips_ms.push(self.finish(&mut ping, round_trip_ms)?);
        }
        let at = |p| quantile(&round_trips_ms, p).unwrap_or(f64::NAN);
        println!(
            "{}, {when}: ping {} ms in the median of {PINGS}, {:.3} at least, {:.3} at most",
            self.link,
            shown_median(&round_trips_ms),
            at(0.0),
            at(1.0)
        );
        let holds = median(&round_trips_ms).is_some_and(|middle| ROUND_TRIP_MS.contains(middle));
        Ok((format!("the round trip {when}, {ROUND_TRIP_MS} ms"), holds))
    }

    /// Ends the link, and prints what costof reports of it.
    fn print_report(mut self) -> Result<()> {
        print!("{}", self.end().or_cannot("read what costof link says")?);
        Ok(())
    }

    fn end(&mut self) -> io::Result<String> {
        terminate_group(self.costof.id())?;
        let mut report = String::new();
        self.output.read_to_string(&mut report)?;
        Ok(report)
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        // The next `costof link` removes what is left.
        let _ = self.end();
    }
}

/// The packets lost and sent, from `[  5]   0.00-4.00   sec  8.60 MBytes  18.0 Mbits/sec  0.009 ms
/// 9987/100000 (10%)  receiver`.
fn lost_of(output: &str) -> Option<(f64, f64)> {
    let before = receiver(output)?.rsplit_once(" (")?.0;
    let (lost, sent) = before.split_whitespace().last()?.split_once('/')?;
    Some((lost.parse().ok()?, sent.parse().ok()?))
}

/// The receiver's line of iperf3.
fn receiver(output: &str) -> Option<&str> {
    output.lines().find(|line| line.trim().ends_with("receiver"))
}

/// Reads the line `… 98050 Kbits/sec  0.120 ms  20000/61000 (33%)  receiver`.
fn kilobits_received(output: &str) -> Option<f64> {
    let (before, _) = receiver(output)?.split_once(" Kbits/sec")?;
    before.split_whitespace().last()?.parse().ok()
}

/// Reads `rtt min/avg/max/mdev = 190.123/190.123/190.123/0.000 ms`, the milliseconds of one packet.
fn round_trip_ms(output: &str) -> Option<f64> {
    let (_, times) = output.split_once("min/avg/max/mdev = ")?;
    times.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_of_datagrams_is_read() {
        let output = "[  5]   0.00-4.00   sec  9.54 MBytes  20.0 Mbits/sec  0.000 ms  0/100000 (0%)  sender\n\
             [  5]   0.00-4.00   sec  8.60 MBytes  98050 Kbits/sec  0.009 ms  9987/100000 (10%)  receiver\n";
        assert_eq!(lost_of(output), Some((9987.0, 100_000.0)));
        assert_eq!(kilobits_received(output), Some(98050.0));
        let refused = "iperf3: error - unable to connect to server";
        assert!(lost_of(refused).is_none() && kilobits_received(refused).is_none());
    }

    #[test]
    fn one_packets_round_trip_is_read() {
        let output = "1 packets transmitted, 1 received, 0% packet loss, time 0ms\n\
                      rtt min/avg/max/mdev = 190.123/190.123/190.123/0.000 ms\n";
        assert_eq!(round_trip_ms(output), Some(190.123));
        assert_eq!(round_trip_ms("1 packets transmitted, 0 received"), None);
    }
}
