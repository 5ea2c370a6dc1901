//! `ipc.bandwidth`: how many bytes per second reach another process.

use crate::ends::{broken, cannot_start, keep, partner_cpu};
use crate::prelude::*;
use costof_os::ipc::flow::{Flow, MAX_BYTES, Through};

words! {
    /// What messages go through.
    pub(crate) enum Over => Through {
        /// a pipe of the usual 64 KiB
        Pipe = "pipe",
        /// a pair of Unix stream sockets with the usual buffers
        Unix = "unix",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Bandwidth>();

point! {
    /// How many bytes per second can one process hand to another?
    ///
    /// One process writes messages from one buffer as fast as it can; a fork of it reads them into
    /// a buffer of the same size. A batch has 4 MiB or more, or 1,024 messages, and ends when the
    /// last byte has been read. Both buffers stay in the caches as far as they fit, and nothing
    /// looks at the bytes while they are timed. After the batches, both ends sum up three messages
    /// with contents of their own.
    ///
    /// # Predicted from
    /// two copies from and to caches, at the same time where each end has a CPU; system calls
    /// (os.syscall) and context switches (os.context_switch), up to one every 128 KiB; for a pipe
    /// a tenth to a third of an open and close (os.syscall) for each page of 4 KiB
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   bw_pipe, bw_unix
    /// - pipe(7), unix(7), sched_yield(2)
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - wake=polling: root, and a cpuidle driver whose shallowest state is POLL
    pub(crate) struct Bandwidth of "ipc.bandwidth" {
        /// what they go through; an eventfd carries no bytes
        over: Over = words(),
        /// bytes of each write
        size: u64 = bytes(1..=MAX_BYTES as u64, &[65536, 4096, 1 << 20]),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Measure for Bandwidth {
    const METRICS: &'static [Metric] = metrics! {
        /// bytes that arrived, copied in by the sender and out by the receiver
        throughput: BytesPerSecond Higher,
        /// one message of `size` bytes
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch"];
    const CROSSINGS: &'static [NameList] = &[&["over", "size"], &["over", "cpus"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Sender>];

    headlines! {
        "IPC bandwidth: pipe": { over: Over::Pipe },
        "IPC bandwidth: Unix socket": { over: Over::Unix },
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        // A message at each end, and the channel between them.
        2 * point.size + (1 << 20)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let bytes = point.size as f64;
        // Within one CPU's caches, or from one CPU to another, with about ten lines of 64 B in
        // flight, for 40 to 120 ns each; the two copies overlap or follow each other.
        let mut cost = match point.cpus {
            Cpus::Same | Cpus::OneThread => {
                Cost::bytes(2.0 * bytes, (10.0, 35.0), "copied in one CPU's caches")
            }
            Cpus::Cross => Cost::bytes(2.0 * bytes, (5.0, 15.0), "copied from CPU to CPU"),
        };
        cost += syscall::measured_cost(measured, syscall::Call::Read)? * (1.0, 2.0);
        let switch = context_switch::measured_cost(point.cpus, point.wake, measured)?;
        cost += switch * (0.0, 0.5 * bytes / 65536.0);
        if point.over == Over::Pipe {
            // A page of its own for each 4 KiB: allocated, queued, freed.
            let open = syscall::measured_cost(measured, syscall::Call::Open)?;
            cost += (open * (0.1, 0.35) * (bytes / 4096.0).ceil()).named("a pipe's pages");
        }
        cost.predict_throughput(bytes)
    }

    /// Bytes per second, from the time of a message.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = derived::on_cpus(point.cpus, only(reports));
        derived::divide_cost(&mut report, point.group());
        derived::add_throughput(&mut report, point.size);
        report
    }
}

impl Bandwidth {
    /// The fewest messages of a batch. The first ones find an empty channel, and the last ones have
    /// no message behind them, which shows in a batch of a few.
    fn group(&self) -> u64 {
        const BYTES: u64 = 4 << 20;
        const MESSAGES: u64 = 1024;
        (BYTES / self.size).clamp(1, MESSAGES)
    }
}

struct Sender {
    flow: Flow,
    _awake: Awake,
}

impl Setup<Bandwidth> for Sender {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Bandwidth>, launch: &Launch) -> Result<Sender> {
        let cpu = partner_cpu(point.cpus, &launch.cpus)?;
        let awake = keep(point.cpus, point.wake, &launch.cpus)?;
        // The axis ends at what a flow accepts.
        let size = point.size as usize;
        let flow = Flow::start(point.over.into(), size, cpu, point.cpus == Cpus::Same);
        Ok(Sender { flow: flow.map_err(cannot_start)?, _awake: awake })
    }

    fn measure(&mut self, point: &At<Bandwidth>, meter: &mut Meter<'_>) -> Result {
        // A group counts as one operation here; `derive` makes it messages.
        let group = point.group();
        repeat_fallible(meter, "cost", |n| self.flow.send(n * group)).map_err(broken)
    }

    fn check(mut self, _: &At<Bandwidth>, _: &mut Meter<'_>) -> Result {
        let arrived = self.flow.check().map_err(broken)?;
        ensure!(arrived, "the received bytes differ from those sent");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{data, report, samples};
    use costof_model::metric::Data;
    use costof_model::rows::State;

    #[test]
    fn throughput_is_bytes_over_the_median_time_of_a_message() {
        let point = Bandwidth::default().into();
        let messages = [32_768.0, 131_072.0, 65_536.0].map(|ns| 64.0 * ns);
        let [first, two, last] = messages;
        let cost = samples("cost", &[(1, first), (2, two), (1, last)]);
        let measured = Bandwidth::derive(&point, vec![report(vec![cost])]);
        assert_eq!(data(&measured, "throughput"), Some(&Data::Value(1e9)));
        let failed = Report { state: State::Failed, ..report(Vec::new()) };
        assert!(Bandwidth::derive(&point, vec![failed]).metrics.is_empty());
    }
}
