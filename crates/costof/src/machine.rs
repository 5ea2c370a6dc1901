//! The machines that a run meets, each as one of its workers describes it. That
//! worker stays for as long as the run does and keeps other costofs off the
//! machine.

use crate::error::Error;
use costof_lab::addresses::Side;
use costof_lab::host::{Host, WorkerCommand};
use costof_lab::launch::Place;
use costof_lab::link::Made;
use costof_lab::worker::{NoAnswer, Worker};
use costof_model::failure::{Failure, FailureKind};
use costof_model::link::Link;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Answer, Command, Description};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a machine that another costof measures is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long a worker may take to describe its machine at least: that measures
/// nothing, and a limit for what does is no limit for it.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether the user has had enough of waiting.
const LOOK: Duration = Duration::from_millis(50);

/// A host, and its machine.
pub(crate) struct Machine {
    pub(crate) host: Host,
    pub(crate) description: Description,
    worker: Worker,
}

/// How long a machine that another costof measures is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// This long without a word.
    pub(crate) in_silence: Duration,
    /// And then, for as long as it takes.
    pub(crate) then_until_it_is_free: bool,
}

/// How workers are asked, everywhere in a command.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) command: &'a WorkerCommand,
    pub(crate) limit: Duration,
    pub(crate) interrupted: &'a AtomicBool,
}

impl Machine {
    /// Starts a worker on a host and has it describe itself.
    pub(crate) fn meet(host: &Host, asking: Asking<'_>) -> Result<Machine, Error> {
        let place = Place { host, end: None };
        let mut worker = Worker::start(&place, asking.command, asking.limit, asking.interrupted)
            .map_err(ended)?;
        let description = described(&mut worker, host, asking).map_err(ended)?;
        let clock = &description.clock;
        if !(clock.hz.is_finite() && clock.hz > 0.0) {
            return Err(Error::Nothing(format!(
                "the worker on {host} describes a clock of {} Hz, which is none",
                clock.hz
            )));
        }
        Ok(Machine {
            host: host.clone(),
            description,
            worker,
        })
    }

    /// Whether its workers could come to the ends of a link that is made here.
    ///
    /// # Errors
    /// Where they are on another machine for certain, and the way out.
    pub(crate) fn may_come_to(&self, link: &Link) -> Result<(), Failure> {
        match (&self.host, link) {
            (Host::Ssh(_), Link::Veth | Link::Sink | Link::Emulated { .. }) => {
                Err(self.is_elsewhere(link, ""))
            }
            _ => Ok(()),
        }
    }

    /// Looks whether they do: what a command of the user's starts may be elsewhere, and would then measure
    /// another path. It does not look where costof starts them itself.
    ///
    /// # Errors
    /// Where they do not come there, and the way out; and what fails by itself, of which nothing is known.
    pub(crate) fn comes_to(
        &self,
        link: &Link,
        made: &Made,
        asking: Asking<'_>,
    ) -> Result<(), Failure> {
        let (Host::Exec(_), Some(end)) = (&self.host, &made.near.namespace) else {
            return Ok(());
        };
        let place = Place {
            host: &self.host,
            end: Some(&made.near),
        };
        let failed = |why| match why {
            NoAnswer::Failed(failure) => failure,
            NoAnswer::Interrupted => Failure::error("interrupted"),
        };
        let started = Worker::start(&place, asking.command, asking.limit, asking.interrupted);
        let mut worker = started.map_err(|why| match failed(why) {
            // From the link's namespace nothing else is reached, and a command that has to ends.
            ended if ended.kind == FailureKind::Crashed => {
                self.is_elsewhere(link, &format!(": {}", ended.reason))
            }
            other => other,
        })?;
        let at_its_end = described(&mut worker, &self.host, asking).map_err(failed)?;
        let number = end.number().map_err(|error| {
            Failure::error(format!(
                "cannot tell the namespaces of {link} apart: {error}"
            ))
        })?;
        // A machine of its own says the same number of both, which may be this one by chance.
        let comes = self.description.network.namespace != Some(number)
            && at_its_end.network.namespace == Some(number);
        match comes {
            true => Ok(()),
            false => Err(self.is_elsewhere(link, "")),
        }
    }

    fn is_elsewhere(&self, link: &Link, because: &str) -> Failure {
        Failure::unsupported(format!(
            "the link {link} is made where costof itself runs, and {} leads elsewhere (run costof \
             there){because}",
            self.host
        ))
    }

    /// Takes the machine, so that no other costof measures it meanwhile. Where
    /// one does, it is waited for as that is wanted, and `say` tells for whom.
    pub(crate) fn hold(
        &mut self,
        waiting: Waiting,
        asking: Asking<'_>,
        say: impl Fn(&str),
    ) -> Result<(), Error> {
        let mut is_told = false;
        let silent_until = Instant::now() + waiting.in_silence;
        loop {
            let answer = self
                .worker
                .ask(&Command::Hold, asking.limit, asking.interrupted)
                .map_err(ended)?;
            match answer {
                Answer::Held => return Ok(()),
                Answer::Busy { holder } => {
                    let machine = match &self.host {
                        Host::Local => "this machine".to_owned(),
                        host => format!("the machine of {host}"),
                    };
                    let is_silent = Instant::now() < silent_until;
                    if !waiting.then_until_it_is_free && !is_silent {
                        return Err(Error::Nothing(format!(
                            "{machine} is being measured by {holder} (without --no-wait, costof \
                             waits for its turn)"
                        )));
                    }
                    if !is_told && !is_silent {
                        say(&format!(
                            "waiting: {machine} is being measured by {holder} (--no-wait does \
                             not wait)"
                        ));
                        is_told = true;
                    }
                }
                answer => {
                    let reason = misfit(&self.host, &answer, "say whose turn it is");
                    return Err(Error::Nothing(reason));
                }
            }
            let until = Instant::now() + ASK_AGAIN;
            while Instant::now() < until && !asking.interrupted.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Its machine's boot, where it is known.
    pub(crate) fn boot(&self) -> Option<&str> {
        self.description.facts.kernel.boot_id.as_deref()
    }

    /// What matters to where it is reached.
    pub(crate) fn side(&self) -> Side<'_> {
        Side {
            host: &self.host,
            boot: self.boot(),
            network: &self.description.network,
        }
    }

    /// The processors that its workers may use.
    pub(crate) fn allowed(&self) -> Vec<usize> {
        let allowed = &self.description.facts.inherited.allowed_cpus;
        allowed.iter().map(|cpu| cpu as usize).collect()
    }

    /// Whether its costof measures a probe as this one does.
    ///
    /// # Errors
    /// What differs, and the way out.
    pub(crate) fn has(&self, probe: &ProbeInfo) -> Result<(), Failure> {
        let there = self
            .description
            .probes
            .iter()
            .find(|(id, _)| *id == probe.id);
        let differs = match there {
            Some((_, method)) if *method == probe.method => return Ok(()),
            Some((_, method)) => format!(
                "has method {method} of {}, and this one method {}, whose numbers are not \
                 comparable",
                probe.id, probe.method
            ),
            None => format!("has no probe {}", probe.id),
        };
        Err(Failure::unsupported(format!(
            "the costof on {} {differs} (use the same release at both ends)",
            self.host
        )))
    }
}

/// How a worker describes itself and its machine.
fn described(
    worker: &mut Worker,
    host: &Host,
    asking: Asking<'_>,
) -> Result<Description, NoAnswer> {
    let limit = asking.limit.max(DESCRIBE_LIMIT);
    match worker.ask(&Command::Describe, limit, asking.interrupted)? {
        Answer::Description(description) => Ok(*description),
        other => {
            let reason = misfit(host, &other, "describe itself");
            Err(NoAnswer::Failed(Failure::error(reason)))
        }
    }
}

/// What a worker says that is no answer to what it was asked.
fn misfit(host: &Host, answer: &Answer, wanted: &str) -> String {
    let said: String = format!("{answer:?}").chars().take(200).collect();
    format!("the worker on {host} answered {said} where it should {wanted}")
}

fn ended(why: NoAnswer) -> Error {
    match why {
        NoAnswer::Failed(failure) => Error::Nothing(failure.reason),
        NoAnswer::Interrupted => Error::Interrupted,
    }
}

/// The exit code of an interrupted command.
pub(crate) fn interrupted_code() -> ExitCode {
    ExitCode::from(130)
}
