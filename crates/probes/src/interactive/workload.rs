//! What users can send: messages of `copy.send`, or reliable datagrams as `rudp.loss` sends them.

use super::admission;
use crate::copy::send::axes::{self as fields, CopySend};
use crate::copy::send::roles as field_roles;
use crate::rudp::loss::Loss;
use crate::rudp::roles as datagram_roles;
use crate::rudp::transfer::Transfer;
use crate::two_ends::over::Over;
use crate::{copy, rudp};
use costof_exchange::progress::Ending;
use costof_measure::meter::Meter;
use costof_measure::probe::{Measure, RoleAt};
use costof_model::Text;
use costof_model::axis::Axes;
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::typed::{At, TypedPoint, Words};
use costof_os::net::random_loss;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Protocols of reliable datagrams: the user's word, and the value of rudp.loss.
const DATAGRAMS: [(&str, Over); 2] = [("rudp", Over::Rudp), ("study-datagrams", Over::Study)];
/// The shortest and the longest time after which the study's protocol may retransmit: a receiver does not
/// wait for a silent sender for ever.
const MIN_RETRY: Duration = Duration::from_millis(1);
const MAX_RETRY: Duration = Duration::from_secs(10);

/// The words for the protocols of reliable datagrams, each with an explanation.
pub fn datagrams() -> impl Iterator<Item = (&'static str, Text)> {
    let words = DATAGRAMS.iter();
    words.map(|(word, stack)| (*word, stack.choice().about))
}

/// The probe that sends over this: a value of copy.send's axis `over`, or a word of [`datagrams`].
pub fn probe_over(over: &str) -> &'static ProbeInfo {
    match stack(over) {
        Some(_) => &rudp::loss::PROBE.info,
        None => &copy::send::PROBE.info,
    }
}

/// The protocol that this word names.
pub(super) fn stack(over: &str) -> Option<Over> {
    let found = DATAGRAMS.iter().find(|(word, _)| *word == over);
    found.map(|(_, stack)| *stack)
}

/// Conditions of datagrams that are not axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// After how many nanoseconds the study's protocol retransmits; its default is a second.
    pub retry_ns: Option<u64>,
    /// The share of datagrams that the receiver loses.
    pub drop: f64,
}

impl Conditions {
    /// With a share of lost datagrams.
    pub fn new(retry: Option<Duration>, drop: f64) -> Conditions {
        let retry_ns = retry.map(|retry| retry.as_nanos() as u64);
        Conditions { retry_ns, drop }
    }
}

/// How many messages of the study's protocol the queue of its receiver's socket holds, if that is fewer
/// than the default window: the kernel counts the memory behind a datagram, the next power of two
/// and its own record. `over` is the word that names the protocol, `size` the bytes of a message.
pub fn window_that_fits(over: &str, size: Option<u64>) -> Option<u64> {
    /// `net.core.rmem_default` as the kernel sets it.
    const QUEUE_BYTES: u64 = 212_992;
    const RECORD_BYTES: u64 = 1024;
    let info = probe_over(over);
    let default = |axis: &str| info.axis(axis).ok()?.default().as_number();
    let size = size.or_else(|| default("size"))?;
    let fits = QUEUE_BYTES / ((size + 512).next_power_of_two() + RECORD_BYTES);
    let is_study = stack(over) == Some(Over::Study);
    (is_study && fits < default("window")?).then_some(fits.max(1))
}

/// A request, before its link is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The id of the probe.
    pub(super) probe: String,
    /// The version of its method.
    pub(super) method: u32,
    pub(super) axes: Axes,
    #[serde(default)]
    pub(super) conditions: Conditions,
}

impl Asked {
    /// This probe at these axes.
    pub(super) fn new(info: &ProbeInfo, axes: Axes, conditions: Conditions) -> Asked {
        Asked { probe: info.id.to_string(), method: info.method, axes, conditions }
    }

    /// The workload over this link; none where this build has no such probe, method or point.
    pub(super) fn over(&self, link: &Link) -> Option<Workload> {
        let Asked { axes, conditions, .. } = self;
        let link = link.to_string().into();
        let is_of = |info: &ProbeInfo| {
            self.probe == info.id && self.method == info.method && info.allows(axes)
        };
        if is_of(&copy::send::PROBE.info) && *conditions == Conditions::default() {
            let axes = CopySend::read(axes)?;
            return Some(Workload::Fields(At { axes, link }));
        }
        if !is_of(&rudp::loss::PROBE.info) {
            return None;
        }
        let (loss, conditions) = (Loss::read(axes)?, *conditions);
        let axes = Datagrams { loss, conditions };
        Some(Workload::Datagrams(At { axes, link }))
    }
}

/// Points of rudp.loss, with conditions that are not axes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Datagrams {
    loss: Loss,
    conditions: Conditions,
}

impl From<&Datagrams> for Transfer {
    fn from(sent: &Datagrams) -> Transfer {
        let transfer = Transfer::from(&sent.loss);
        let Conditions { retry_ns, drop } = sent.conditions;
        Transfer {
            retry: retry_ns.map_or(transfer.retry, Duration::from_nanos),
            lose: drop,
            ..transfer
        }
    }
}

/// What is sent, as shown to people.
#[derive(Clone, Debug)]
pub struct What {
    /// The probe.
    pub info: &'static ProbeInfo,
    /// The point.
    pub point: Point,
    /// Conditions that are not axes.
    pub conditions: Conditions,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Workload {
    /// Messages of several fields.
    Fields(At<CopySend>),
    /// Messages as reliable datagrams.
    Datagrams(At<Datagrams>),
}

impl Workload {
    pub(super) fn info(&self) -> &'static ProbeInfo {
        match self {
            Workload::Fields(_) => &copy::send::PROBE.info,
            Workload::Datagrams(_) => &rudp::loss::PROBE.info,
        }
    }

    pub(super) fn point(&self) -> Point {
        match self {
            Workload::Fields(point) => point.into(),
            Workload::Datagrams(point) => {
                let (axes, link) = (point.loss.clone(), point.link.clone());
                Point::from(&At { axes, link })
            }
        }
    }

    pub(super) fn what(&self) -> What {
        What {
            info: self.info(),
            point: self.point(),
            conditions: match self {
                Workload::Fields(_) => Conditions::default(),
                Workload::Datagrams(point) => point.conditions,
            },
        }
    }

    /// Bytes of a message.
    pub(super) fn size(&self) -> u64 {
        match self {
            Workload::Fields(point) => point.size,
            Workload::Datagrams(point) => point.loss.size as u64,
        }
    }

    /// Whether it goes through a Unix socket.
    pub(super) fn is_unix(&self) -> bool {
        matches!(self, Workload::Fields(point) if point.over == Over::Unix)
    }

    /// Whether its ends are on two machines.
    pub(super) fn is_apart(&self) -> bool {
        self.point().link == Link::Remote.to_string()
    }

    /// Refuses what cannot be sent on any machine.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self {
            Workload::Fields(point) => fields::check(point),
            Workload::Datagrams(point) => {
                check_conditions(point)?;
                Transfer::from(&point.axes).check()
            }
        }
    }

    /// Approximate memory that the receiver needs for it.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Workload::Fields(point) => admission::held_bytes(point),
            // The windows of a connection, and the socket's queue.
            Workload::Datagrams(_) => 64 << 20,
        }
    }

    /// One report from the receiver's and the sender's.
    pub(super) fn derive(&self, reports: Vec<Report>) -> Report {
        match self {
            Workload::Fields(point) => CopySend::derive(point, reports),
            Workload::Datagrams(point) => {
                let (axes, link) = (point.loss.clone(), point.link.clone());
                Loss::derive(&At { axes, link }, reports)
            }
        }
    }

    /// The end that receives it.
    pub(super) fn receiving(&self, launch: &Launch) -> Result<Box<dyn LocalEnd>, Failure> {
        Ok(match self {
            Workload::Fields(point) => Box::new(Started {
                point: point.clone(),
                role: field_roles::Receiving::start(launch, true)?,
            }),
            Workload::Datagrams(point) => Box::new(Started {
                point: point.clone(),
                role: datagram_roles::Receiving::interactive(launch)?,
            }),
        })
    }

    /// The end that sends it for this long, or until something else ends it.
    pub(super) fn sending(
        &self,
        launch: &Launch,
        duration: Duration,
        ending: Ending,
    ) -> Result<Box<dyn LocalEnd>, Failure> {
        Ok(match self {
            Workload::Fields(point) => Box::new(Started {
                point: point.clone(),
                role: field_roles::Sending::interactive(launch, duration, ending)?,
            }),
            Workload::Datagrams(point) => Box::new(Started {
                point: point.clone(),
                role: datagram_roles::Sending::interactive(launch, duration, ending)?,
            }),
        })
    }
}

fn check_conditions(point: &Datagrams) -> Result<(), Failure> {
    let Conditions { retry_ns, drop } = point.conditions;
    let reason = if !(0.0..=random_loss::MAX).contains(&drop) {
        "the receiver can drop 0 to 90 % of the datagrams (--drop)"
    } else if DATAGRAMS.iter().all(|(_, stack)| *stack != point.loss.stack) {
        "`costof send` sends only rudp and study-datagrams (--over, not --set stack=)"
    } else if retry_ns.is_some() && point.loss.stack != Over::Study {
        "rudp retransmits by the round trip that it measures (--over study-datagrams has --retry)"
    } else if retry_ns.is_some_and(|ns| ns < MIN_RETRY.as_nanos() as u64) {
        "datagrams can be retransmitted after 1 ms at the earliest (--retry)"
    } else if retry_ns.is_some_and(|ns| ns > MAX_RETRY.as_nanos() as u64) {
        "datagrams can be retransmitted after 10 s at the latest (--retry)"
    } else {
        return Ok(());
    };
    Err(Failure::unsupported(reason))
}

/// A role with its point.
pub(super) trait LocalEnd: Send {
    /// As [`RoleAt::prepare`].
    fn prepare(&mut self, offers: &Offers) -> Result<Offers, Failure>;

    /// As [`RoleAt::run`].
    fn run(&mut self, meter: &mut Meter<'_>) -> Result<(), Failure>;

    /// Messages sent or bytes received, even after a failure.
    fn count(&self) -> u64;
}

struct Started<P, R> {
    point: At<P>,
    role: R,
}

impl<P: Send, R: RoleAt<P> + Counts + Send> LocalEnd for Started<P, R> {
    fn prepare(&mut self, offers: &Offers) -> Result<Offers, Failure> {
        self.role.prepare(&self.point, offers)
    }

    fn run(&mut self, meter: &mut Meter<'_>) -> Result<(), Failure> {
        self.role.run(&self.point, meter)
    }

    fn count(&self) -> u64 {
        self.role.count()
    }
}

/// The count of a role, as shown to people.
trait Counts {
    fn count(&self) -> u64;
}

/// A field of the role is the count.
macro_rules! counts {
    ($($role:ty: $field:ident),+) => {
        $(impl Counts for $role {
            fn count(&self) -> u64 {
                self.$field
            }
        })+
    };
}
counts! {
    field_roles::Receiving: arrived_bytes,
    field_roles::Sending: sent,
    datagram_roles::Receiving: arrived_bytes,
    datagram_roles::Sending: sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(over: &str, axes: impl Fn(Axes) -> Axes, conditions: Conditions) -> Asked {
        let info = probe_over(over);
        Asked::new(info, axes(info.defaults()), conditions)
    }

    #[test]
    fn the_default_window_of_the_study_fits_its_receivers_queue() {
        let fits = |over, size| window_that_fits(over, size);
        assert_eq!(fits("study-datagrams", Some(20_000)), Some(6));
        assert_eq!(fits("study-datagrams", Some(65_499)), Some(1));
        // Ten of the default size fit, and the others have flow control.
        assert_eq!(fits("study-datagrams", None), None);
        assert_eq!(fits("rudp", Some(20_000)), None);
        assert_eq!(fits("tcp", Some(20_000)), None);
    }

    #[test]
    fn what_a_peer_sends_has_a_probes_axes_and_values() {
        let none = Conditions::default();
        for over in ["tcp", "rudp"] {
            let is_known = |asked: Asked| asked.over(&Link::Loopback).is_some();
            assert!(is_known(asked(over, |axes| axes, none)));
            let wrong: [fn(Axes) -> Axes; 4] = [
                |mut axes| {
                    axes.0.remove("size");
                    axes
                },
                |axes| axes.with("size", 1 << 40),
                |axes| axes.with("size", "big"),
                |axes| axes.with("colour", "red"),
            ];
            for axes in wrong {
                assert!(!is_known(asked(over, axes, none)), "{over}");
            }
            for (probe, method) in [("net.rtt", 1), (&*probe_over(over).id, 99)] {
                let (probe, asked) = (probe.to_owned(), asked(over, |axes| axes, none));
                assert!(!is_known(Asked { probe, method, ..asked }));
            }
        }
        let dropping = asked("tcp", |axes| axes, Conditions::new(None, 0.1));
        assert_eq!(dropping.over(&Link::Loopback), None);
    }

    #[test]
    fn conditions_are_those_of_the_protocol() {
        let (second, short) = (Duration::from_secs(1), Duration::from_micros(1));
        let long = Duration::from_secs(11);
        for (stack, retry, drop, says) in [
            ("study", Some(second), 0.3, ""),
            ("rudp", None, 0.3, ""),
            ("rudp", Some(second), 0.0, "study-datagrams"),
            ("study", Some(short), 0.0, "1 ms"),
            ("study", Some(long), 0.0, "10 s"),
            ("study", None, 0.95, "90 %"),
            ("study", None, -0.1, "90 %"),
        ] {
            let conditions = Conditions::new(retry, drop);
            let asked = asked("rudp", |axes| axes.with("stack", stack), conditions);
            let workload = asked.over(&Link::Loopback).expect("it is a point");
            let reason = workload.check().err().map(|failure| failure.reason).unwrap_or_default();
            assert_eq!(reason.is_empty(), says.is_empty(), "{reason}");
            assert!(reason.contains(says), "{reason}");
        }
    }
}
