//! The process that holds a link: it creates the link, reports it, and answers requests until its
//! standard input closes.

use crate::link::ends::Ends;
use crate::link::holder::{LINE_MAX_BYTES, Reply, Request};
use crate::link::relay::Relay;
use crate::link::sink;
use crate::pipe::line;
use costof_model::Link;
use costof_model::link::Emulation;
use costof_os::process;
use std::io::{self, BufRead, Read, Write};

struct Held {
    ends: Ends,
    relay: Option<Relay>,
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
        let relay = match *link {
            Link::Veth => {
                ends.join_by_cable()?;
                None
            }
            Link::Emulated { up, down } => Some(relay(&ends, up, down)?),
            Link::Sink => {
                sink::lay(&ends.near)?;
                None
            }
            Link::Loopback | Link::Remote => {
                return Err(format!("{link} needs no namespaces"));
            }
        };
        Ok(Held { ends, relay })
    }

    fn introduction(&self) -> Reply {
        Reply::Link {
            near: self.ends.near.descriptor(),
            far: self.ends.far.descriptor(),
            user: self.ends.user,
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
        let answer = match (ask, &mut self.relay) {
            (Request::Report, None) => Ok(Reply::Report { link: None }),
            (Request::Begin { .. } | Request::RelayOn { .. }, None) => Ok(Reply::Done),
            (Request::Begin { seed }, Some(relay)) => {
                relay.begin(seed, &self.ends).map(|()| Reply::Done)
            }
            (Request::RelayOn { cpus }, Some(relay)) => relay.run_on(&cpus).map(|()| Reply::Done),
            (Request::Report, Some(relay)) => {
                let report = relay.report(&self.ends);
                report.map(|report| Reply::Report { link: Some(Box::new(report)) })
            }
        };
        answer.unwrap_or_else(|reason| Reply::Refused { reason })
    }
}

fn relay(ends: &Ends, up: Emulation, down: Emulation) -> Result<Relay, String> {
    let tuns = ends.tuns()?;
    Relay::start(tuns, up, down).map_err(|error| format!("the relay does not start: {error}"))
}
