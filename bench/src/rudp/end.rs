//! One end of what is compared: this program again, on a processor of its own or in a link's
//! namespace. It prints where it listens, does its part, and prints the result.

#[cfg(feature = "quic")]
mod quic;
#[cfg(not(feature = "quic"))]
#[path = "end/no_quic.rs"]
mod quic;
mod raw;
mod reliable;
mod tcp;

use crate::role::{self, RoleResult};
use costof_lab::link;
use costof_os::process;
use costof_os::sched::affinity;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const NO_ROLE: &str = "there is no such role";
/// Bytes that one write or message carries.
const MESSAGE_BYTES: usize = 64 << 10;
/// Larger than what comes in an exchange.
const LARGEST: usize = 1 << 16;
/// Round trips before those that count.
const WARM_UP: usize = 200;

/// What is sent, and how.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// By rudp.
    Rudp(Rudp),
    /// Datagrams that nobody acknowledges, in batches that the kernel cuts and joins.
    Raw,
    /// By the kernel's TCP, with this congestion control.
    Tcp(String),
    /// By quinn, which encrypts.
    Quic,
}

/// How a connection of rudp is configured.
#[derive(Clone, Debug, PartialEq)]
struct Rudp {
    control: rudp::Control,
    /// The longest datagram.
    datagram_bytes: usize,
    /// How many bytes are queued ahead.
    ahead_bytes: u64,
}

/// As `rudp:rate:1452:16777216`, `raw`, `tcp:cubic`, `quic`.
impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let unknown = || format!("`{text}` is nothing that can be sent here");
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["rudp", control, datagram_bytes, ahead_bytes] => Ok(Kind::Rudp(Rudp {
                control: match control {
                    "cubic" => rudp::Control::Cubic,
                    "rate" => rudp::Control::Rate,
                    "fixed" => rudp::Control::Fixed { messages: 1000 },
                    _ => return Err(unknown()),
                },
                datagram_bytes: datagram_bytes.parse().map_err(|_| unknown())?,
                ahead_bytes: ahead_bytes.parse().map_err(|_| unknown())?,
            })),
            ["raw"] => Ok(Kind::Raw),
            ["tcp", control] => Ok(Kind::Tcp(control.to_owned())),
            ["quic"] => Ok(Kind::Quic),
            _ => Err(unknown()),
        }
    }
}

/// Runs the end that these words name.
pub(crate) fn run_role(words: &[String]) -> ExitCode {
    role::run(words, parse_and_run)
}

fn parse_and_run(words: &[&str]) -> RoleResult<()> {
    if let ["hold", link] = words {
        return Ok(link::hold(&link.parse()?)?);
    }
    process::die_with_parent()?;
    let [what, cpu, kind, at, rest @ ..] = words else {
        return Err(NO_ROLE.into());
    };
    // Anywhere, unless a CPU is named.
    if *cpu != "any" {
        affinity::pin(&[cpu.parse()?])?;
    }
    let (kind, at): (Kind, SocketAddr) = (kind.parse()?, at.parse()?);
    let spins = what.ends_with("spinning");
    match (*what, &kind, rest) {
        ("receive", _, [seconds]) => {
            let lasts = Duration::from_secs(seconds.parse()?);
            let tally = match &kind {
                Kind::Rudp(options) => reliable::receive(at, options, lasts),
                Kind::Raw => raw::receive(at, lasts),
                Kind::Tcp(_) => tcp::receive(at, lasts),
                Kind::Quic => quic::receive(at, lasts),
            };
            println!("{}", tally?.line());
            Ok(())
        }
        ("send", _, [key]) => match &kind {
            Kind::Rudp(options) => reliable::send(at, options),
            Kind::Raw => raw::send(at),
            Kind::Tcp(control) => tcp::send(at, control),
            Kind::Quic => quic::send(at, key),
        },
        ("echo" | "echo spinning", Kind::Rudp(options), []) => {
            reliable::echo_one(at, options, spins)
        }
        ("echo" | "echo spinning", Kind::Raw, []) => raw::echo(at, spins),
        ("echo at once", Kind::Rudp(options), []) => reliable::echo(at, options),
        ("ping" | "ping spinning", _, [bytes, count]) => {
            let (bytes, count) = (bytes.parse()?, count.parse()?);
            let mut round_trips = match &kind {
                Kind::Rudp(options) => reliable::ping(at, options, bytes, count, spins),
                Kind::Raw => raw::ping(at, bytes, count, spins),
                Kind::Tcp(_) | Kind::Quic => Err(NO_ROLE.into()),
            }?;
            round_trips.drain(..WARM_UP.min(round_trips.len()));
            print_quantiles(round_trips);
            Ok(())
        }
        ("ping at once", Kind::Rudp(options), [bytes, in_flight, count]) => {
            let (bytes, in_flight, count) = (bytes.parse()?, in_flight.parse()?, count.parse()?);
            print_quantiles(reliable::ping_many(at, options, bytes, in_flight, count)?);
            Ok(())
        }
        _ => Err(NO_ROLE.into()),
    }
}

/// Where it listens; what else the other end has to know stands after it.
fn print_address(at: SocketAddr, extra: &str) {
    println!("{at} {extra}");
}

/// The median, the 99th percentile and the longest, in nanoseconds.
pub(crate) fn print_quantiles(mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |p: f64| {
        let last = took.len().saturating_sub(1);
        took.get((last as f64 * p).round() as usize).map_or(f64::NAN, |took| took.as_nanos() as f64)
    };
    println!("{} {} {}", at(0.5), at(0.99), at(1.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_what_their_words_say() {
        let rudp =
            Kind::Rudp(Rudp { control: rudp::Control::Rate, datagram_bytes: 1452, ahead_bytes: 7 });
        assert_eq!("rudp:rate:1452:7".parse(), Ok(rudp));
        assert_eq!("tcp:cubic".parse(), Ok(Kind::Tcp("cubic".to_owned())));
        for unknown in ["rudp:fast:1:1", "rudp", "tcp", ""] {
            assert!(unknown.parse::<Kind>().is_err(), "{unknown}");
        }
    }
}
