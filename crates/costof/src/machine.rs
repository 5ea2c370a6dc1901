//! The machines of a run. A worker on each describes its machine, and stays until the run ends to keep other
//! costofs off the machine.

use crate::cli::RunOptions;
use crate::error::{Error, Result, wrong};
use crate::progress::{Display, Reminders};
use costof_lab::addresses::{self, Meet, Side};
use costof_lab::host::Host;
use costof_lab::launch::{Place, Setting};
use costof_lab::link::Made;
use costof_lab::worker::{IDLE_MIN, Lost, Worker};
use costof_model::protocol::{Answer, Command, Contention, CpuLook, Description, Look};
use costof_model::{Failure, FailureKind, Hosts, Link, ProbeInfo, Text};
use std::io;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often costof asks again for a machine that another costof is measuring.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How often a wait checks whether the user interrupted it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The hosts of the options; if there are several, the first one measures.
pub(crate) fn hosts(options: &RunOptions) -> Hosts {
    hosts_on(options, options.on.first())
}

/// The same, but measured on this host.
pub(crate) fn hosts_on(options: &RunOptions, on: Option<&Host>) -> Hosts {
    let elsewhere = on.filter(|host| **host != Host::Local);
    Hosts {
        on: elsewhere.map(ToString::to_string),
        peer: options.peer.host.as_ref().map(ToString::to_string),
        to: options.to.clone(),
        peer_address: options.peer.address,
        peer_ports: options.peer.ports,
        remote_costof: options.remote.remote_costof.clone(),
    }
}

/// A host, and its machine.
pub(crate) struct Machine {
    pub(crate) host: Host,
    pub(crate) description: Description,
    worker: Worker,
    /// Whether the worker may know the command to look at CPUs: an older one refuses it.
    can_look: bool,
}

/// The machines of a run.
pub(crate) struct Machines {
    /// The machine of the leading roles, and of probes with one role.
    pub(crate) measured: Machine,
    /// The machine of the other roles, if they have another host.
    pub(crate) peer: Option<Machine>,
}

/// How long to wait for a machine that another costof is measuring.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// The wait is silent for this long.
    pub(crate) in_silence: Duration,
    /// After that, whether to wait until the machine is free.
    pub(crate) then_until_it_is_free: bool,
}

impl Machines {
    /// Starts a worker on each host, and lets it describe its machine.
    pub(crate) fn connect(
        hosts: &Hosts,
        setting: Setting<'_>,
        display: &Display,
    ) -> Result<Machines> {
        let host = |text: &String| text.parse::<Host>().map_err(wrong);
        let on = hosts.on.as_ref().map(host).transpose()?;
        let peer = hosts.peer.as_ref().map(host).transpose()?;
        if let Some(on @ Host::Call(_)) = &on {
            return Err(wrong(format!("a costof that listens only answers (--peer {on})")));
        }
        let connect = |host: &Host| {
            let machine = Machine::connect(host, setting)?;
            if let Some(bytes) = machine.worker.copied_bytes() {
                let size = bytes as f64 / 1e6;
                display.say(&format!(
                    "{host}: copied costof there, into ~/.cache/costof ({size:.1} MB; --clean removes it)"
                ));
            }
            Ok::<_, Error>(machine)
        };
        Ok(Machines {
            measured: connect(&on.unwrap_or(Host::Local))?,
            peer: peer.as_ref().map(connect).transpose()?,
        })
    }

    /// All machines.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Machine> {
        std::iter::once(&self.measured).chain(&self.peer)
    }

    /// All machines, to send them requests.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Machine> {
        std::iter::once(&mut self.measured).chain(&mut self.peer)
    }

    /// The machine of the leading role, or of the others.
    pub(crate) fn of_role(&self, leads: bool) -> &Machine {
        match &self.peer {
            Some(peer) if !leads => peer,
            _ => &self.measured,
        }
    }

    /// Whether the peer is another machine than the measured one.
    pub(crate) fn are_two(&self) -> bool {
        let peer = self.peer.as_ref();
        peer.is_some_and(|peer| !one_machine(&self.measured, peer))
    }

    /// The link to the peer and its addresses; none if there is no peer.
    pub(crate) fn link(&self, hosts: &Hosts) -> Result<Option<(Link, Meet)>> {
        if let (Some(_), Some(far)) = (&hosts.to, hosts.peer_address) {
            let own = &self.measured.description.network.addresses;
            let is_own = far.is_loopback() || own.contains(&far);
            let link = if is_own { Link::Loopback } else { Link::Remote };
            let meet = match source_towards(far) {
                Ok(near) if hosts.on.is_none() => Meet { near, ..Meet::towards(far) },
                _ => Meet::towards(far),
            };
            return Ok(Some((link, meet)));
        }
        let Some(peer) = &self.peer else {
            return Ok(None);
        };
        let meet = addresses::between(self.measured.side(), peer.side(), hosts.peer_address)
            .map_err(Error::Nothing)?;
        let link = if meet.one_namespace { Link::Loopback } else { Link::Remote };
        Ok(Some((link, meet)))
    }
}

/// The hosts with the address of one that has no costof: the first of its name that this machine has a route
/// to.
pub(crate) fn resolved(hosts: Hosts) -> Result<Hosts> {
    let (Some(name), None) = (&hosts.to, hosts.peer_address) else {
        return Ok(hosts);
    };
    let address = route_to(name).map_err(Error::Nothing)?;
    Ok(Hosts { peer_address: Some(address), ..hosts })
}

fn route_to(name: &str) -> Result<IpAddr, String> {
    let addresses =
        (name, 0).to_socket_addrs().map_err(|error| format!("{name} has no address: {error}"))?;
    let mut refused = format!("{name} has no address");
    for address in addresses {
        match source_towards(address.ip()) {
            Ok(_) => return Ok(address.ip()),
            Err(error) => refused = format!("no route to {name} ({}): {error}", address.ip()),
        }
    }
    Err(refused)
}

/// From which address this machine sends to another one.
fn source_towards(far: IpAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind((Meet::towards(far).near, 0))?;
    // Any port does, since nothing is sent.
    socket.connect((far, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// Takes both machines, or the one machine. All costofs use the same order, so that no two wait for each
/// other.
pub(crate) fn hold(
    one: &mut Machine,
    other: Option<&mut Machine>,
    waiting: Waiting,
    setting: Setting<'_>,
    display: &Display,
) -> Result<()> {
    let other = other.filter(|other| !one_machine(one, other));
    let mut machines: Vec<&mut Machine> = std::iter::once(one).chain(other).collect();
    machines.sort_by_key(|machine| machine.boot().map(str::to_owned));
    let mut machines = machines.into_iter();
    machines.try_for_each(|machine| machine.hold(waiting, setting, display))
}

/// Whether two hosts are the same machine.
pub(crate) fn one_machine(one: &Machine, other: &Machine) -> bool {
    addresses::one_machine(one.boot(), other.boot())
}

impl Machine {
    /// Starts a worker on a host, and lets it describe its machine.
    pub(crate) fn connect(host: &Host, setting: Setting<'_>) -> Result<Machine> {
        let place = Place { host, end: None };
        let (worker, description) = describe(place, setting)?;
        let hz = description.clock.hz;
        if !(hz.is_finite() && hz > 0.0) {
            return Err(Error::Nothing(format!(
                "the worker on {host} describes an invalid clock of {hz} Hz"
            )));
        }
        Ok(Machine { host: host.clone(), description, worker, can_look: true })
    }

    /// Checks that the host's workers could enter the namespaces of a link that is made here.
    ///
    /// # Errors
    /// The workers are certainly on another machine. The error says what to do.
    pub(crate) fn may_reach(&self, link: &Link) -> Result<(), Failure> {
        match (&self.host, link) {
            (Host::Ssh(_) | Host::Call(_), Link::Veth | Link::Sink | Link::Emulated { .. }) => {
                Err(self.is_elsewhere(link, ""))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the host's workers do enter the namespaces. A command of the user may start them
    /// elsewhere, and they would measure another path. If costof starts them itself, there is nothing to
    /// check.
    ///
    /// # Errors
    /// The workers do not enter them, with advice; or the check itself fails, which leaves this unknown.
    pub(crate) fn reaches(
        &self,
        link: &Link,
        made: &Made,
        setting: Setting<'_>,
    ) -> Result<(), Failure> {
        let (Host::Exec(_), Some(namespace)) = (&self.host, &made.near.namespace) else {
            return Ok(());
        };
        let place = Place { host: &self.host, end: Some(&made.near) };
        let (_worker, inside) = describe(place, setting).map_err(|why| match why {
            // Only the link can be reached from its namespace, so a command that needs another host ends.
            Lost::Failed(_, ended) if ended.kind == FailureKind::Crashed => {
                self.is_elsewhere(link, &format!(": {}", ended.reason))
            }
            other => other.failure(),
        })?;
        let number = namespace.number().map_err(|error| {
            Failure::error(format!("cannot tell the namespaces of {link} apart: {error}"))
        })?;
        // A separate machine reports the same number in both cases, which may equal this machine's by chance.
        if self.description.network.namespace != Some(number)
            && inside.network.namespace == Some(number)
        {
            return Ok(());
        }
        Err(self.is_elsewhere(link, ""))
    }

    fn is_elsewhere(&self, link: &Link, because: &str) -> Failure {
        Failure::unsupported(format!(
            "costof makes the link {link} on the machine on which it runs, and {} leads to another one (run costof there){because}",
            self.host
        ))
    }

    /// Takes the machine, so that no other costof measures it meanwhile. If another one does, waits according
    /// to `patience`, and reports who holds the machine.
    fn hold(&mut self, waiting: Waiting, setting: Setting<'_>, display: &Display) -> Result<()> {
        let mut reminders = Reminders::default();
        let silent_until = Instant::now() + waiting.in_silence;
        loop {
            let answer = self.worker.ask(&Command::Hold, setting.limit, setting.interrupted);
            let answer = answer?;
            let holder = match answer {
                Answer::Held => return Ok(()),
                Answer::Busy { holder } => holder,
                Answer::Failed(failure) => return Err(Error::Nothing(failure.reason)),
                answer => return Err(self.worker.misfit(&answer, "say whose turn it is").into()),
            };
            let busy = match &self.host {
                Host::Local => format!("this machine is being measured by {holder}"),
                host => format!("the machine of {host} is being measured by {holder}"),
            };
            let waited = Instant::now().checked_duration_since(silent_until);
            let is_silent = waited.is_none();
            if !waiting.then_until_it_is_free && !is_silent {
                return Err(Error::Nothing(format!(
                    "{busy} (without --no-wait, costof waits for its turn)"
                )));
            }
            if let Some(reminder) = waited.and_then(|waited| reminders.reminder(waited)) {
                display.say(&format!("{reminder}: {busy} (--no-wait does not wait)"));
            }
            let until = Instant::now() + RETRY_INTERVAL;
            while Instant::now() < until && !setting.interrupted.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Whether the worker that holds the machine is still there. If it was killed, another costof may measure.
    pub(crate) fn is_held(&self) -> bool {
        !self.worker.is_gone()
    }

    /// How much other processes use the machine; none if the machine does not report it, or its costof is too
    /// old.
    pub(crate) fn watch(&mut self, setting: Setting<'_>) -> Result<Option<Contention>> {
        let watched = self.worker.ask(&Command::Watch, setting.limit, setting.interrupted);
        match watched? {
            // Shares that cannot be are unknown.
            Answer::Watched { contention } => Ok(contention.filter(|seen| {
                let is_share = |share| (0.0..=1.0).contains(&share);
                is_share(seen.others) && is_share(seen.steal)
            })),
            Answer::Failed(_) => Ok(None),
            answer => Err(self.worker.misfit(&answer, "say what others use").into()),
        }
    }

    /// How alone the cores of these CPUs are; looks until `enough` of them are. `None` if the floor of its gauge
    /// is not known, or its costof is too old.
    pub(crate) fn look(
        &mut self,
        cpus: &[usize],
        enough: usize,
        setting: Setting<'_>,
    ) -> Result<Option<Vec<CpuLook>>> {
        let Some(floor) = self.description.clock.core_floor.filter(|_| self.can_look) else {
            return Ok(None);
        };
        let look = Command::Look(Look { cpus: cpus.to_vec(), enough, floor });
        let limit = setting.limit.max(IDLE_MIN);
        let answer = self.worker.ask(&look, limit, setting.interrupted);
        match answer? {
            Answer::Looked { cpus: mut looks } => {
                looks.retain(|look| cpus.contains(&look.cpu) && look.is_possible());
                Ok(Some(looks))
            }
            Answer::Failed(_) => {
                self.can_look = false;
                Ok(None)
            }
            answer => Err(self.worker.misfit(&answer, "say which CPUs are alone").into()),
        }
    }

    /// The id of the machine's boot, if known.
    pub(crate) fn boot(&self) -> Option<&str> {
        self.description.facts.kernel.boot_id.as_deref()
    }

    /// What decides how the machine is reached.
    fn side(&self) -> Side<'_> {
        Side { host: &self.host, boot: self.boot(), network: &self.description.network }
    }

    /// The CPUs that its workers may use.
    pub(crate) fn allowed(&self) -> Vec<usize> {
        let usable = self.description.facts.usable_cpus();
        usable.iter().map(|cpu| cpu as usize).collect()
    }

    /// Which of these probes its costof lacks or measures in another way, as a sentence; none if it has all.
    pub(crate) fn misses(&self, probes: &[&ProbeInfo]) -> Option<String> {
        misses(&self.host, &self.description.probes, probes)
    }

    /// Checks that its costof measures a probe in the same way as this one.
    pub(crate) fn has(&self, probe: &ProbeInfo) -> Result<(), Failure> {
        let mut probes = self.description.probes.iter();
        let differs = match probes.find(|(id, _)| *id == probe.id) {
            Some((_, method)) if *method == probe.method => return Ok(()),
            Some((_, method)) => format!(
                "has method {method} of {}, and this one method {}: their numbers cannot be \
                 compared",
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

/// A worker that has described itself and its machine.
pub(crate) fn describe(
    place: Place<'_>,
    setting: Setting<'_>,
) -> Result<(Worker, Description), Lost> {
    Worker::describe(&place, setting.command, setting.limit, setting.interrupted)
}

/// Which of these probes the costof on a host, which has its `own` with their methods, lacks or measures in
/// another way.
pub(crate) fn misses(host: &Host, own: &[(Text, u32)], probes: &[&ProbeInfo]) -> Option<String> {
    let method = |probe: &ProbeInfo| own.iter().find(|(id, _)| *id == probe.id);
    let named = |what: &str, is_such: &dyn Fn(&ProbeInfo) -> bool| {
        let such = probes.iter().filter(|probe| is_such(probe));
        let ids: Vec<&str> = such.map(|probe| &*probe.id).collect();
        (!ids.is_empty()).then(|| what.replace("{}", &ids.join(", ")))
    };
    let lacks = named("it lacks {}", &|probe| method(probe).is_none());
    let others = named("it measures {} in another way", &|probe| {
        method(probe).is_some_and(|(_, method)| *method != probe.method)
    });
    let release = match lacks {
        Some(_) => "an older release",
        None => "another release",
    };
    let parts: Vec<String> = [lacks, others].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "the costof on {host} is {release}: {}; their points get no number (use the same release at both ends)",
            parts.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{golden, probe_info};

    #[test]
    fn an_older_costof_is_named_once_with_what_it_lacks() {
        let [one, two] = ["a.one", "a.two"].map(probe_info);
        let of = |own: &[(&'static str, u32)]| {
            let own: Vec<(Text, u32)> =
                own.iter().map(|(id, method)| ((*id).into(), *method)).collect();
            misses(&Host::Local, &own, &[&one, &two])
        };
        assert_eq!(of(&[("a.one", 1), ("a.two", 1), ("a.three", 9)]), None);
        let others = [&[("a.one", 1)][..], &[], &[("a.one", 2), ("a.two", 1)], &[("a.one", 2)]];
        let misses = others.map(|own| of(own).unwrap());
        golden("costof/messages", "the costof of another release", &misses.join("\n"));
    }
}
