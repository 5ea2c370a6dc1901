//! The two ends, started where they belong, and what they say.

use super::tally::Arrived;
use crate::bench::{Bench, own_program};
use crate::child::{self, Speaking};
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
    /// On this machine's loopback device, each on a processor of its own: the near and the far
    /// end's.
    Loopback(usize, usize),
    /// At the ends of a link that was made, both on this processor, as costof has them: what relays
    /// the link takes another one.
    Link(Box<Made>, String),
}

impl Path {
    /// Errors: there is no second processor.
    pub(super) fn loopback(bench: &Bench) -> Result<Path> {
        let [near, far] = bench.two_cpus()?;
        Ok(Path::Loopback(near, far))
    }

    /// Errors: there can be no such link here, and why.
    pub(super) fn link(bench: &Bench, link: &str, seed: usize) -> Result<Path> {
        let holder = WorkerCommand::own_executable(&["end", "hold"]).map_err(failed)?;
        let link: Link = link.parse().map_err(failed)?;
        let mut made = Made::make(&link, None, &holder).map_err(failed)?;
        made.begin(seed as u64).map_err(failed)?;
        let mut cpu = "any".to_owned();
        if let [near, others @ ..] = &bench.measured_first()[..]
            && made.is_relayed()
            && !others.is_empty()
        {
            made.relay_on(others).map_err(failed)?;
            cpu = near.to_string();
        }
        Ok(Path::Link(Box::new(made), cpu))
    }

    /// What the link did so far, for a person to read.
    pub(super) fn what_it_did(&mut self) -> Result<String> {
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
        let Path::Loopback(near, far) = self else {
            return Ok(None);
        };
        keep_awake(&[*near, *far]).map(Some)
    }

    fn far(&self) -> (IpAddr, Option<&End>, String) {
        match self {
            Path::Loopback(_, far) => (Ipv4Addr::LOCALHOST.into(), None, far.to_string()),
            Path::Link(made, cpu) => (made.far.address, Some(&made.far), cpu.clone()),
        }
    }

    fn near(&self) -> (Option<&End>, String) {
        match self {
            Path::Loopback(near, _) => (None, near.to_string()),
            Path::Link(made, cpu) => (Some(&made.near), cpu.clone()),
        }
    }

    /// An end that listens, and where it does.
    pub(super) fn listens(
        &self,
        bench: &Bench,
        what: &str,
        kind: &str,
        rest: &[&str],
    ) -> Result<Listening> {
        let (address, end, cpu) = self.far();
        let at = SocketAddr::new(address, 0).to_string();
        let mut heard = start(end, &[&[what, &cpu, kind, &at][..], rest].concat())?;
        let said = heard.line(START_LIMIT, &bench.interrupt)?;
        let (at, besides) = said.split_once(' ').unwrap_or((&said, ""));
        Ok(Listening {
            at: at.to_owned(),
            besides: besides.to_owned(),
            kind: kind.to_owned(),
            heard,
        })
    }

    /// The other end of one that listens.
    pub(super) fn talks(&self, what: &str, to: &Listening, rest: &[&str]) -> Result<Speaking> {
        let (end, cpu) = self.near();
        start(end, &[&[what, &cpu, &to.kind, &to.at][..], rest].concat())
    }

    /// What arrives of a stream in so many seconds.
    pub(super) fn stream(&self, bench: &Bench, kind: &str, seconds: usize) -> Result<Arrived> {
        let receiver = self.receives(bench, kind, seconds)?;
        let _sender = self.sends(&receiver)?;
        receiver.arrived(bench, seconds)
    }

    pub(super) fn receives(&self, bench: &Bench, kind: &str, seconds: usize) -> Result<Listening> {
        self.listens(bench, "receive", kind, &[&seconds.to_string()])
    }

    /// Sends until it is dropped.
    pub(super) fn sends(&self, to: &Listening) -> Result<Speaking> {
        self.talks("send", to, &[&to.besides])
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
        let echo = self.listens(bench, echoes, kind, &[])?;
        let rest: Vec<String> = rest.iter().map(usize::to_string).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut asks = self.talks(asks, &echo, &rest)?;
        let said = asks.line(SPARE, &bench.interrupt)?;
        child::numbers(&said)
    }
}

/// An end that listens, until it is dropped.
pub(super) struct Listening {
    at: String,
    besides: String,
    kind: String,
    heard: Speaking,
}

impl Listening {
    /// What it says in the end, which comes after so many seconds at the latest.
    pub(super) fn arrived(mut self, bench: &Bench, seconds: usize) -> Result<Arrived> {
        let limit = Duration::from_secs(seconds as u64) + SPARE;
        let said = self.heard.line(limit, &bench.interrupt)?;
        Arrived::read(&said).ok_or_else(|| failed(format!("the receiver said `{said}`")))
    }

    /// Waits, as long as it runs.
    pub(super) fn wait_running(&mut self, bench: &Bench, time: Duration) -> Result<()> {
        self.heard.wait_running(time, &bench.interrupt)
    }
}

/// This program again, as one end.
fn start(end: Option<&End>, words: &[&str]) -> Result<Speaking> {
    let mut command = Command::new(own_program()?);
    command.arg("end").args(words);
    if let Some(namespace) = end.and_then(|end| end.namespace.as_ref()) {
        namespace.start_in(&mut command).map_err(failed)?;
    }
    child::start_speaking(&mut command)
}
