//! The two ends, started where they belong, and what they print.

use super::tally::Arrived;
use crate::bench::{Bench, own_program};
use crate::child::{self, PipedChild};
use crate::error::{Result, failed};
use costof_lab::host::WorkerCommand;
use costof_lab::link::{End, Made};
use costof_model::link::Link;
use costof_os::cpu::awake::Spinners;
use costof_peers::verify::keep_awake;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

/// How long an end may take until it is there.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How much longer than it should a part may take.
const SPARE: Duration = Duration::from_secs(60);

/// Where both ends are.
pub(super) enum Path {
    /// On this machine's loopback device, each on a CPU of its own: the client's and the server's.
    Loopback(usize, usize),
    /// At the ends of a link that was made, both on this processor, as costof has them: what relays
    /// the link takes another one.
    Link(Box<Made>, String),
}

impl Path {
    /// Errors: there is no second processor.
    pub(super) fn loopback(bench: &Bench) -> Result<Path> {
        let [client, server] = bench.two_cpus()?;
        Ok(Path::Loopback(client, server))
    }

    /// Errors: there can be no such link here, and why.
    pub(super) fn link(bench: &Bench, link: &str, seed: usize) -> Result<Path> {
        let holder = WorkerCommand::own_executable(&["end", "hold"]).map_err(failed)?;
        let link: Link = link.parse().map_err(failed)?;
        let mut made = Made::make(&link, None, &holder).map_err(failed)?;
        made.begin(seed as u64).map_err(failed)?;
        let mut cpu = "any".to_owned();
        if let [measured, others @ ..] = &bench.measured_first()[..]
            && made.is_relayed()
            && !others.is_empty()
        {
            made.relay_on(others).map_err(failed)?;
            cpu = measured.to_string();
        }
        Ok(Path::Link(Box::new(made), cpu))
    }

    /// What the link did so far, for a person to read.
    pub(super) fn link_summary(&mut self) -> Result<String> {
        let Path::Link(made, _) = self else {
            return Ok(String::new());
        };
        let Some(report) = made.report().map_err(failed)? else {
            return Ok(String::new());
        };
        let drops = report.up.queue_drops.unwrap_or(0);
        Ok(format!(
            "{} packets passed, {} were lost, {drops} found the queue full, {} overran",
            report.up.packets, report.up.lost, report.up.overruns
        ))
    }

    /// Keeps the processors from sleeping that the ends are on, where each has its own.
    pub(super) fn keep_awake(&self) -> Result<Option<Spinners>> {
        let Path::Loopback(client, server) = self else {
            return Ok(None);
        };
        keep_awake(&[*client, *server]).map(Some)
    }

    /// The address, the end of a link, and the CPU of the end that listens.
    fn server(&self) -> (IpAddr, Option<&End>, String) {
        match self {
            Path::Loopback(_, cpu) => (Ipv4Addr::LOCALHOST.into(), None, cpu.to_string()),
            Path::Link(made, cpu) => (made.far.address, Some(&made.far), cpu.clone()),
        }
    }

    /// The end of a link and the CPU of the other end.
    fn client(&self) -> (Option<&End>, String) {
        match self {
            Path::Loopback(cpu, _) => (None, cpu.to_string()),
            Path::Link(made, cpu) => (Some(&made.near), cpu.clone()),
        }
    }

    /// An end that listens, and where it does.
    pub(super) fn listen(
        &self,
        bench: &Bench,
        what: &str,
        kind: &str,
        rest: &[&str],
    ) -> Result<Listening> {
        let (address, end, cpu) = self.server();
        let at = SocketAddr::new(address, 0).to_string();
        let mut child = start(end, &[&[what, &cpu, kind, &at][..], rest].concat())?;
        let line = child.line(START_LIMIT, &bench.interrupt)?;
        let (at, extra) = line.split_once(' ').unwrap_or((&line, ""));
        Ok(Listening {
            at: at.to_owned(),
            extra: extra.to_owned(),
            kind: kind.to_owned(),
            child,
        })
    }

    /// The other end of one that listens.
    pub(super) fn connect(&self, what: &str, to: &Listening, rest: &[&str]) -> Result<PipedChild> {
        let (end, cpu) = self.client();
        start(end, &[&[what, &cpu, &to.kind, &to.at][..], rest].concat())
    }

    /// What arrives of a stream in so many seconds.
    pub(super) fn stream(&self, bench: &Bench, kind: &str, seconds: usize) -> Result<Arrived> {
        let receiver = self.receives(bench, kind, seconds)?;
        let _sender = self.sends(&receiver)?;
        receiver.arrived(bench, seconds)
    }

    pub(super) fn receives(&self, bench: &Bench, kind: &str, seconds: usize) -> Result<Listening> {
        self.listen(bench, "receive", kind, &[&seconds.to_string()])
    }

    /// Sends until it is dropped.
    pub(super) fn sends(&self, to: &Listening) -> Result<PipedChild> {
        self.connect("send", to, &[&to.extra])
    }

    /// The median, the 99th percentile and the longest of exchanges, in nanoseconds: of what, and
    /// what the client that asks for them has to know of them.
    pub(super) fn exchange(
        &self,
        bench: &Bench,
        [echoes, asks]: [&str; 2],
        kind: &str,
        rest: &[usize],
    ) -> Result<[f64; 3]> {
        let echo = self.listen(bench, echoes, kind, &[])?;
        let rest: Vec<String> = rest.iter().map(usize::to_string).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut asks = self.connect(asks, &echo, &rest)?;
        let line = asks.line(SPARE, &bench.interrupt)?;
        child::numbers(&line)
    }
}

/// An end that listens, until it is dropped.
pub(super) struct Listening {
    at: String,
    extra: String,
    kind: String,
    child: PipedChild,
}

impl Listening {
    /// The result that it prints, which comes after so many seconds at the latest.
    pub(super) fn arrived(mut self, bench: &Bench, seconds: usize) -> Result<Arrived> {
        let limit = Duration::from_secs(seconds as u64) + SPARE;
        let line = self.child.line(limit, &bench.interrupt)?;
        Arrived::read(&line).ok_or_else(|| failed(format!("the receiver printed `{line}`")))
    }

    /// Waits, as long as it runs.
    pub(super) fn wait_running(&mut self, bench: &Bench, time: Duration) -> Result<()> {
        self.child.wait_running(time, &bench.interrupt)
    }
}

/// This program again, as one end.
fn start(end: Option<&End>, words: &[&str]) -> Result<PipedChild> {
    let mut command = Command::new(own_program()?);
    command.arg("end").args(words);
    if let Some(namespace) = end.and_then(|end| end.namespace.as_ref()) {
        namespace.start_in(&mut command).map_err(failed)?;
    }
    child::start_piped(&mut command)
}
