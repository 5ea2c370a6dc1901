//! The process that holds a link: it creates the link, reports it, and answers requests until its
//! standard input closes.

use crate::link::emulator::Emulator;
use crate::link::ends::Ends;
use crate::link::holder::{LINE_MAX_BYTES, Reply, Request};
use crate::link::netem::Netem;
use crate::link::relay::Relay;
use crate::link::sink;
use crate::pipe::line;
use costof_model::Link;
use costof_model::link::Emulation;
use costof_os::process;
use std::io::{self, BufRead, Read, Write};

struct Held {
    ends: Ends,
    emulator: Option<Box<dyn Emulator>>,
}

/// Creates a link, reports it on standard output, answers requests from standard input, and ends
/// when that closes; the link ends with it.
///
/// # Errors
/// If it cannot answer.
pub fn hold(link: &Link) -> io::Result<()> {
    process::die_with_parent()?;
    match Ends::anonymous().and_then(|ends| Held::make(link, ends)) {
        Ok(mut held) => {
            say(&held.introduction())?;
            held.serve()
        }
        Err(reason) => say(&Reply::Refused { reason }),
    }
}

fn say(reply: &Reply) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(&line(reply))?;
    output.flush()
}

impl Held {
    /// Joins the ends by this link.
    fn make(link: &Link, ends: Ends) -> Result<Held, String> {
        let emulator = match *link {
            Link::Veth => {
                ends.join_by_cable()?;
                None
            }
            Link::Emulated { up, down } => Some(emulate(&ends, up, down)?),
            Link::Sink => {
                sink::lay(&ends.near)?;
                None
            }
            Link::Loopback | Link::Remote => {
                return Err(format!("{link} needs no namespaces"));
            }
        };
        Ok(Held { ends, emulator })
    }

    fn introduction(&self) -> Reply {
        Reply::Link {
            near: self.ends.near.descriptor(),
            far: self.ends.far.descriptor(),
            user: self.ends.user,
            emulated_by: (self.emulator.as_ref()).map(|emulator| emulator.name().to_owned()),
        }
    }

    /// Answers until there is nothing more to read.
    fn serve(&mut self) -> io::Result<()> {
        let mut input = io::stdin().lock();
        loop {
            let mut asked = String::new();
            (&mut input).take(LINE_MAX_BYTES).read_line(&mut asked)?;
            if asked.is_empty() {
                return Ok(());
            }
            let malformed = "malformed request to the holder of a link";
            say(&match serde_json::from_str(&asked) {
                Ok(ask) => self.answer(ask),
                Err(_) => Reply::Refused { reason: malformed.to_owned() },
            })?;
        }
    }

    fn answer(&mut self, ask: Request) -> Reply {
        let answer = match (ask, &mut self.emulator) {
            (Request::Report, None) => Ok(Reply::Report { link: None }),
            (Request::Begin { .. } | Request::RelayOn { .. }, None) => Ok(Reply::Done),
            (Request::Begin { seed }, Some(emulator)) => {
                emulator.begin(seed, &self.ends).map(|()| Reply::Done)
            }
            (Request::RelayOn { cpus }, Some(emulator)) => {
                emulator.run_on(&cpus).map(|()| Reply::Done)
            }
            (Request::Report, Some(emulator)) => {
                let report = emulator.report(&self.ends);
                report.map(|report| Reply::Report { link: Some(Box::new(report)) })
            }
        };
        answer.unwrap_or_else(|reason| Reply::Refused { reason })
    }
}

/// netem if the kernel has it, which is tried; otherwise the relay.
fn emulate(ends: &Ends, up: Emulation, down: Emulation) -> Result<Box<dyn Emulator>, String> {
    ends.join_by_cable()?;
    let no_netem = match Netem::install(ends, up, down) {
        Ok(netem) => return Ok(Box::new(netem)),
        Err(reason) => reason,
    };
    ends.cut()?;
    let relay = ends.tuns().and_then(|tuns| {
        Relay::start(tuns, up, down).map_err(|error| format!("the relay does not start: {error}"))
    });
    match relay {
        Ok(relay) => Ok(Box::new(relay)),
        Err(reason) => Err(format!("{reason}; and netem instead: {no_netem}")),
    }
}
