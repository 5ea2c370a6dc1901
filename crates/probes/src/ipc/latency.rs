//! `ipc.latency`: how long a small message takes to another process and back.

use crate::ends::{TokenExchange, keep, partner_cpu, spinning_keeps};
use crate::prelude::*;
use costof_os::ipc::token::{self, Between, Exchange, MAX_BYTES};

words! {
    /// What a message goes through.
    pub(crate) enum Over => token::Over {
        /// a pipe for each direction
        Pipe = "pipe",
        /// a pair of Unix stream sockets
        Unix = "unix",
        /// an eventfd for each direction, which carries 8 bytes
        Eventfd = "eventfd",
        /// a word in memory that both see, and the message behind it
        SharedMemory = "shared_memory",
    }

    /// How an end waits for a message.
    pub(crate) enum Wait => token::Wait {
        /// in the kernel; for shared memory by futex
        Block = "block",
        /// by polling: a load, or a read that does not block
        Spin = "spin",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Latency>();

point! {
    /// How long does a small message take to another process and back?
    ///
    /// A message goes to another process, a fork of this one, which answers with a message of the
    /// same size and the next number in its first and last byte; both ends are pinned. A round trip
    /// contains two sends, two receives, and, if an end blocks, two wake-ups. `cost` is the time of
    /// many round trips divided by their number. `latency` stamps each one, which adds a clock
    /// reading. An end that spins reads without a pause instruction.
    ///
    /// # Predicted from
    /// context switches on the same CPUs, kept awake in the same way (os.context_switch); with
    /// wait=spin, system calls (os.syscall) and a cache line's round trip (sync.core_to_core, else
    /// 60 to 300 ns); two copies at each end at 5 to 20 GB/s
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_pipe, lat_unix
    /// - perf-bench(1), sched pipe
    /// - pipe(7), unix(7), eventfd(2), futex(2)
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - wake=polling: root, and a cpuidle driver whose shallowest state is POLL
    pub(crate) struct Latency of "ipc.latency" {
        /// what the message goes through
        over: Over = words(),
        /// bytes of the message
        size: usize = bytes(1..=MAX_BYTES as u64, &[1, 64, 4096]),
        /// how an end waits for it
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Measure for Latency {
    const METRICS: &'static [Metric] = metrics! {
        /// one round trip, there and back, in a row of many
        cost: Nanoseconds Lower,
        /// with wait=block: one round trip, each one stamped
        latency: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch", "sync.core_to_core"];
    const CROSSINGS: &'static [NameList] =
        &[&["over", "wait"], &["over", "cpus"], &["over", "wake"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, TokenExchange>];

    headlines! {
        "IPC round trip: pipe": { over: Over::Pipe },
        "IPC round trip: Unix socket": { over: Over::Unix },
        "IPC round trip: eventfd": { over: Over::Eventfd },
        "IPC round trip: shared memory, spinning": { over: Over::SharedMemory, wait: Wait::Spin },
    }

    fn check_axes(point: &At<Self>) -> Result {
        if point.over == Over::Eventfd && point.size > 8 {
            unsupported!("an eventfd carries one number of 8 bytes (--set size=8)");
        }
        ends::check(point.cpus, point.wake, point.wait == Wait::Spin)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let mut cost = match point.wait {
            Wait::Spin => spinning(point, facts, measured)?,
            Wait::Block => blocking(point, measured)?,
        };
        if point.size > 64 {
            cost += Cost::bytes(4.0 * point.size as f64, (5.0, 20.0), "copied");
        }
        cost.predict("cost")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::on_cpus(point.cpus, only(reports))
    }
}

impl Setup<Latency> for TokenExchange {
    fn blocks(point: &At<Latency>) -> bool {
        point.wait == Wait::Block
    }

    fn set_up(point: &At<Latency>, launch: &Launch) -> Result<TokenExchange> {
        let exchange = Exchange {
            between: Between::Processes,
            over: point.over.into(),
            wait: point.wait.into(),
            // The axis ends at what the exchange accepts.
            size: point.size,
            cpu: partner_cpu(point.cpus, &launch.cpus)?,
        };
        Latency::check_axes(point)?;
        let awake = match point.wait {
            Wait::Spin => spinning_keeps(point.cpus, point.wake)?,
            Wait::Block => keep(point.cpus, point.wake, &launch.cpus)?,
        };
        TokenExchange::start(&exchange, awake)
    }

    /// Every answer is checked when it comes.
    fn measure(&mut self, point: &At<Latency>, meter: &mut Meter<'_>) -> Result {
        let single = (point.wait == Wait::Block).then_some("latency");
        TokenExchange::measure(self, single, meter).map(drop)
    }
}

/// Two context switches, scaled by how much more or less than a pipe the channel does for a
/// message.
fn blocking(point: &At<Latency>, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let times = match point.over {
        Over::Pipe => Range(0.8, 1.25),
        // It allocates and queues a buffer for each message.
        Over::Unix => Range(0.8, 1.7),
        // They have no buffer.
        Over::Eventfd => Range(0.65, 1.3),
        Over::SharedMemory => Range(0.5, 1.2),
    };
    Some(context_switch::measured_cost(point.cpus, point.wake, measured)? * (times * 2.0))
}

fn spinning(point: &At<Latency>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let line = core_to_core::to_the_neighbour(facts, measured)
        .unwrap_or_else(|| Cost::new((60.0, 300.0), "for a line to another core and back"));
    if point.over == Over::SharedMemory {
        // A message of more than one byte lies behind the word, in a line of its own.
        let high = if point.size == 1 { 1.6 } else { 3.2 };
        return Some(line * (0.8, high));
    }
    // The channel's lock, its state and its buffer are lines that both ends write.
    Some(syscall::measured_cost(measured, syscall::Call::Read)? * (4.0, 12.0) + line * (1.0, 5.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn who_spins_needs_no_measured_line_to_be_predicted() {
        let spinning = At::from(at::<Latency>("over=shared_memory wait=spin"));
        let prediction =
            Latency::predict(&spinning, &Facts::default(), &MeasuredRows::new(&[])).unwrap();
        assert_eq!((prediction.low, prediction.high), (48.0, 480.0));
        assert!(prediction.because.contains("60.0–300 ns"), "{prediction:?}");
    }
}
