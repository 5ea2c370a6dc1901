//! Common parts of probes with two ends: where the other end runs, and whether their CPUs are kept
//! awake.

use crate::prelude::*;
use costof_os::ipc::token::{Exchange, Leader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

costof_model::words! {
    /// Where two ends run.
    pub(crate) enum Cpus {
        /// both on one CPU, which switches between them
        Same = "same",
        /// each on a CPU of its own, the nearest one to the first
        Cross = "cross",
        /// both in one thread, which never waits: every message has been sent before it is received
        OneThread = "one_thread",
    }
}

impl Cpus {
    /// How many CPUs the two ends use.
    pub(crate) fn count(self) -> usize {
        match self {
            Cpus::Same | Cpus::OneThread => 1,
            Cpus::Cross => 2,
        }
    }

    /// The axis `cpus`, for probes of one CPU.
    pub(crate) fn same_first() -> AxisOf<Cpus> {
        words_of(&[Cpus::Same, Cpus::Cross]).about(ABOUT_CPUS)
    }

    /// The axis `cpus`, for probes of two.
    pub(crate) fn cross_first() -> AxisOf<Cpus> {
        words_of(&[Cpus::Cross, Cpus::Same]).about(ABOUT_CPUS)
    }

    /// The axis `cpus`, for messages that one thread can send to itself.
    pub(crate) fn cross_first_or_one_thread() -> AxisOf<Cpus> {
        words_of(&[Cpus::Cross, Cpus::Same, Cpus::OneThread]).about(ABOUT_CPUS)
    }
}

const ABOUT_CPUS: &str = "where the two ends run";

/// The CPU of the other end. The first of `cpus` is this thread's own.
///
/// # Errors
/// If the run has too few.
pub(crate) fn partner_cpu(ends: Cpus, cpus: &[usize]) -> Result<usize> {
    Ok(threads::on(ends.count(), cpus)?[ends.count() - 1])
}

/// Keeps the CPUs on which the ends run, the first ones of `cpus`, idle or awake as `wake` says.
///
/// # Errors
/// If that is impossible.
pub(crate) fn keep(ends: Cpus, wake: Wake, cpus: &[usize]) -> Result<Awake> {
    check(ends, wake, false)?;
    match ends {
        Cpus::Cross => wake::keep(wake, threads::on(2, cpus)?),
        Cpus::Same | Cpus::OneThread => Ok(Awake::Unchanged),
    }
}

/// Refuses ends on one CPU that should be idle, or on which both spin.
///
/// # Errors
/// What to set instead.
pub(crate) fn check(ends: Cpus, wake: Wake, spins: bool) -> Result {
    match (ends, wake, spins) {
        (Cpus::Same, _, true) => unsupported!(
            "two ends that spin on one CPU wait for the end of each other's time slice \
             (--set cpus=cross, or wait=block)"
        ),
        (_, Wake::Idle | Wake::Polling, true) => {
            unsupported!("an end that spins keeps its CPU awake (--set wake=awake)")
        }
        (Cpus::Same | Cpus::OneThread, Wake::Idle | Wake::Polling, false) => unsupported!(
            "the CPU that both ends share is never idle (--set cpus=cross, or wake=awake)"
        ),
        _ => Ok(()),
    }
}

/// Two ends that spin need a CPU each, and keep them awake themselves.
///
/// # Errors
/// If they share a CPU, or it should be idle.
pub(crate) fn spinning_keeps(ends: Cpus, wake: Wake) -> Result<Awake> {
    check(ends, wake, true).map(|()| Awake::Unchanged)
}

/// A token that goes between this thread and a partner, with both CPUs kept awake or not.
pub(crate) struct TokenExchange {
    pub(crate) leader: Leader,
    _awake: Awake,
}

impl TokenExchange {
    /// # Errors
    /// If the partner cannot be started.
    pub(crate) fn start(exchange: &Exchange, awake: Awake) -> Result<TokenExchange> {
        Ok(TokenExchange { leader: Leader::start(exchange).map_err(cannot_start)?, _awake: awake })
    }

    /// Measures round trips in a row as `cost`, and each one alone as `single` if that is a metric.
    /// Returns how many there were.
    ///
    /// # Errors
    /// If one failed.
    pub(crate) fn measure(
        &mut self,
        single: Option<&'static str>,
        meter: &mut Meter<'_>,
    ) -> Result<u64> {
        let (mut made, mut failed) = (0, FirstError::default());
        let mut round_trips = |n| {
            made += n;
            failed.note(self.leader.round_trips(n));
        };
        meter.repeatable("cost", &mut round_trips);
        if let Some(metric) = single {
            meter.single(metric, || round_trips(1));
        }
        failed.into_result().map_err(broken)?;
        Ok(made)
    }
}

/// A failure to set up the other end.
pub(crate) fn cannot_start(error: io::Error) -> Failure {
    Failure::unsupported(format!(
        "the other end cannot be started: {error} (ulimit -u, ulimit -n and the cgroup's pids.max \
         limit processes and descriptors; --cpu chooses the CPUs)"
    ))
}

/// A failure while the ends exchange something.
pub(crate) fn broken(error: io::Error) -> Failure {
    Failure::error(match error.kind() {
        io::ErrorKind::InvalidData => "the answer differs from what was sent".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the other end has ended: was it killed?".to_owned()
        }
        _ => format!("the exchange with the other end failed: {error}"),
    })
}

/// Both ends of a TCP connection over loopback, which send small messages at once.
pub(crate) fn tcp_over_loopback() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    for end in [&one, &other] {
        end.set_nodelay(true)?;
    }
    Ok((one, other))
}
