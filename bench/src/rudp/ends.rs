//! The two ends: how they are started, and how their output is read.

use super::tally::Arrived;
use crate::bench::{Bench, own_program};
use crate::error::{Result, failed};
use crate::piped::{PipedChild, numbers, start_piped};
use costof_lab::host::WorkerCommand;
use costof_lab::link::{End, Made};
use costof_model::link::Link;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A signal ends the bench at once.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// How long an end may take until it is there.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How much longer than it should a part may take.
const SPARE: Duration = Duration::from_secs(60);

/// Where both ends are.
pub(super) struct Path {
    /// The link between them; none on this machine's loopback device.
    link: Option<Made>,
    /// The CPU of the client and that of the server, or `any`.
    cpus: [String; 2],
}

impl Path {
    /// The client on the first of these CPUs, the server on the second.
    pub(super) fn loopback(cpus: [usize; 2]) -> Path {
        Path { link: None, cpus: cpus.map(|cpu| cpu.to_string()) }
    }

    /// Both on the measured CPU, as costof has them: what relays the link takes another one.
    ///
    /// Errors: there can be no such link here, and why.
    pub(super) fn link(bench: &Bench, link: &str, seed: usize) -> Result<Path> {
        let holder = WorkerCommand::own_executable(&["end", "hold"]).map_err(failed)?;
        let link: Link = link.parse().map_err(failed)?;
        let mut made = Made::make(&link, None, &holder, &GOES_ON).map_err(failed)?;
        made.begin(seed as u64, &GOES_ON).map_err(failed)?;
        let mut cpu = "any".to_owned();
        if let [measured, others @ ..] = &bench.measured_first()[..]
            && made.is_relayed
            && !others.is_empty()
        {
            made.relay_on(others, &GOES_ON).map_err(failed)?;
            cpu = measured.to_string();
        }
        Ok(Path { link: Some(made), cpus: [cpu.clone(), cpu] })
    }

    /// What the link did so far, for a person to read.
    pub(super) fn link_summary(&mut self) -> Result<String> {
        let Some(made) = &mut self.link else {
            return Ok(String::new());
        };
        let Some(report) = made.report(&GOES_ON).map_err(failed)? else {
            return Ok(String::new());
        };
        let drops = report.up.queue_drops.unwrap_or(0);
        Ok(format!(
            "{} packets passed, {} were lost, {drops} found the queue full, {} overran",
            report.up.packets, report.up.lost, report.up.overruns
        ))
    }

    /// An end that listens, and where it does.
    pub(super) fn listen(
        &self,
        bench: &Bench,
        what: &str,
        kind: &str,
        rest: &[&str],
    ) -> Result<Listener> {
        let end = self.link.as_ref().map(|link| &link.far);
        let address = end.map_or(Ipv4Addr::LOCALHOST.into(), |end| end.address);
        let at = SocketAddr::new(address, 0).to_string();
        let [_, cpu] = &self.cpus;
        let mut child = start(end, &[&[what, cpu, kind, &at][..], rest].concat())?;
        let line = child.line(START_LIMIT, &bench.interrupt)?;
        let (at, extra) = line.split_once(' ').unwrap_or((&line, ""));
        Ok(Listener { at: at.to_owned(), extra: extra.to_owned(), kind: kind.to_owned(), child })
    }

    /// The other end of one that listens.
    pub(super) fn connect(&self, what: &str, to: &Listener, rest: &[&str]) -> Result<PipedChild> {
        let end = self.link.as_ref().map(|link| &link.near);
        let [cpu, _] = &self.cpus;
        start(end, &[&[what, cpu, &to.kind, &to.at][..], rest].concat())
    }

    /// What arrives of a stream in so many seconds.
    pub(super) fn stream(&self, bench: &Bench, kind: &str, seconds: usize) -> Result<Arrived> {
        let receiver = self.start_receiver(bench, kind, seconds)?;
        let _sender = self.start_sender(&receiver)?;
        receiver.arrived(bench, seconds)
    }

    pub(super) fn start_receiver(
        &self,
        bench: &Bench,
        kind: &str,
        seconds: usize,
    ) -> Result<Listener> {
        self.listen(bench, "receive", kind, &[&seconds.to_string()])
    }

    /// Sends until it is dropped.
    pub(super) fn start_sender(&self, to: &Listener) -> Result<PipedChild> {
        self.connect("send", to, &[&to.extra])
    }

    /// The median, the 99th percentile and the longest of round trips, in nanoseconds, between these
    /// roles of [`end`](super::end); the client gets `rest` as arguments.
    pub(super) fn exchange(
        &self,
        bench: &Bench,
        [server, client]: [&str; 2],
        kind: &str,
        rest: &[usize],
    ) -> Result<[f64; 3]> {
        let echo = self.listen(bench, server, kind, &[])?;
        let rest: Vec<String> = rest.iter().map(usize::to_string).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut client = self.connect(client, &echo, &rest)?;
        let line = client.line(SPARE, &bench.interrupt)?;
        numbers(&line)
    }
}

/// An end that listens, until it is dropped.
pub(super) struct Listener {
    at: String,
    extra: String,
    kind: String,
    child: PipedChild,
}

impl Listener {
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
    start_piped(&mut command)
}
