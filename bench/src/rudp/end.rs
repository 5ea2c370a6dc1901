//! One end of what is compared: this program again, on a processor of its own or in a link's
//! namespace. It prints where it listens, does its part, and prints the result.

#[cfg(feature = "quic")]
mod quic;
mod raw;
mod reliable;
mod tcp;

use crate::part::Played;
use costof_lab::link;
use costof_os::process;
use costof_os::sched::affinity;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

#[cfg(not(feature = "quic"))]
const NO_QUIC: &str = "it was built without quinn (--features quic)";

/// Bytes that one write or message carries.
const MESSAGE_BYTES: usize = 64 << 10;
/// Larger than what comes in an exchange.
const LARGEST: usize = 1 << 16;
/// Round trips before those that count.
const WARM_UP: usize = 200;

/// What is sent, and how.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// By rudp: its control, the longest datagram, and how many bytes are queued ahead.
    Rudp {
        control: rudp::Control,
        datagram_bytes: usize,
        ahead_bytes: u64,
    },
    /// Datagrams that nobody acknowledges, in batches that the kernel cuts and joins.
    Raw,
    /// By the kernel's TCP, with this congestion control.
    Tcp(String),
    /// By quinn, which encrypts.
    Quic,
}

/// As `rudp:rate:1452:16777216`, `raw`, `tcp:cubic`, `quic`.
impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let unknown = || format!("`{text}` is nothing that can be sent here");
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["rudp", control, datagram_bytes, ahead_bytes] => Ok(Kind::Rudp {
                control: match control {
                    "cubic" => rudp::Control::Cubic,
                    "rate" => rudp::Control::Rate,
                    "fixed" => rudp::Control::Fixed { messages: 1000 },
                    _ => return Err(unknown()),
                },
                datagram_bytes: datagram_bytes.parse().map_err(|_| unknown())?,
                ahead_bytes: ahead_bytes.parse().map_err(|_| unknown())?,
            }),
            ["raw"] => Ok(Kind::Raw),
            ["tcp", control] => Ok(Kind::Tcp(control.to_owned())),
            ["quic"] => Ok(Kind::Quic),
            _ => Err(unknown()),
        }
    }
}

/// Plays the part that these words say, to its end.
pub(crate) fn play(words: &[String]) -> ExitCode {
    crate::part::play(words, part)
}

fn part(words: &[&str]) -> Played<()> {
    if let ["hold", link] = words {
        return Ok(link::hold(&link.parse()?)?);
    }
    process::die_with_parent()?;
    let [what, cpu, kind, at, rest @ ..] = words else {
        return Err("it has no such part".into());
    };
    // Anywhere, unless a CPU is named.
    if *cpu != "any" {
        affinity::pin(&[cpu.parse()?])?;
    }
    let (kind, at): (Kind, SocketAddr) = (kind.parse()?, at.parse()?);
    match (*what, rest) {
        ("receive", [seconds]) => {
            let lasts = Duration::from_secs(seconds.parse()?);
            let tally = match &kind {
                Kind::Rudp { .. } => reliable::receive(at, &kind, lasts),
                Kind::Raw => raw::receive(at, lasts),
                Kind::Tcp(_) => tcp::receive(at, lasts),
                #[cfg(feature = "quic")]
                Kind::Quic => quic::receive(at, lasts),
                #[cfg(not(feature = "quic"))]
                Kind::Quic => Err(NO_QUIC.into()),
            };
            println!("{}", tally?.line());
            Ok(())
        }
        ("send", [certificate]) => match &kind {
            Kind::Rudp { .. } => reliable::send(at, &kind),
            Kind::Raw => raw::send(at),
            Kind::Tcp(control) => tcp::send(at, control),
            #[cfg(feature = "quic")]
            Kind::Quic => quic::send(at, certificate),
            #[cfg(not(feature = "quic"))]
            Kind::Quic => {
                let _ = certificate;
                Err(NO_QUIC.into())
            }
        },
        ("echo" | "echo spinning", []) => {
            let spins = what.ends_with("spinning");
            match &kind {
                Kind::Rudp { .. } => reliable::echo_one(at, &kind, spins),
                _ => raw::echo(at, spins),
            }
        }
        ("echo at once", []) => reliable::echo(at, &kind),
        ("ask" | "ask spinning", [bytes, times]) => {
            let (bytes, times) = (bytes.parse()?, times.parse()?);
            let spins = what.ends_with("spinning");
            let mut took = match &kind {
                Kind::Rudp { .. } => reliable::ask(at, &kind, bytes, times, spins),
                _ => raw::ask(at, bytes, times, spins),
            }?;
            took.drain(..WARM_UP.min(took.len()));
            print_quantiles(took);
            Ok(())
        }
        ("ask at once", [bytes, at_once, all]) => {
            let (bytes, at_once, all) = (bytes.parse()?, at_once.parse()?, all.parse()?);
            print_quantiles(reliable::ask_at_once(at, &kind, bytes, at_once, all)?);
            Ok(())
        }
        _ => Err("it has no such part".into()),
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
        took.get((last as f64 * p).round() as usize)
            .map_or(f64::NAN, |took| took.as_nanos() as f64)
    };
    println!("{} {} {}", at(0.5), at(0.99), at(1.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_what_their_words_say() {
        let rudp = Kind::Rudp {
            control: rudp::Control::Rate,
            datagram_bytes: 1452,
            ahead_bytes: 7,
        };
        assert_eq!("rudp:rate:1452:7".parse(), Ok(rudp));
        assert_eq!("tcp:cubic".parse(), Ok(Kind::Tcp("cubic".to_owned())));
        for unknown in ["rudp:fast:1:1", "rudp", "tcp", ""] {
            assert!(unknown.parse::<Kind>().is_err(), "{unknown}");
        }
    }
}
