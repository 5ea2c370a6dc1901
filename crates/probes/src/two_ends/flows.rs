//! The concurrent flows of one end, and the CPUs on which they run.

use crate::prelude::*;
use std::collections::BTreeSet;

/// The shortest transfer. In the first 0.1 s buffers grow, and the CPU time per KiB falls by about
/// a tenth.
pub(crate) const MIN_DURATION: Duration = Duration::from_millis(300);
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(15);
/// The shortest transfer in round trips, so that its rate settles in the part that does not count:
/// slow start takes ten to grow from ten segments to 16 MiB. How soon a link is filled is known too
/// late for planning.
const ROUND_TRIPS: u32 = 40;

/// How long a transfer lasts that is to be measured for `point_ns`.
pub(crate) fn duration(point_ns: f64, least: Duration, round_trip: Duration) -> Duration {
    Duration::from_nanos(point_ns as u64).max(least).max(ROUND_TRIPS * round_trip).min(MAX_DURATION)
}

/// The CPUs of an end's flows, in order; empty if the flows may run anywhere.
pub(crate) struct Processors(Vec<usize>);

impl Processors {
    /// A role's CPUs. On one machine they are every second one, because the other role has the same
    /// list rotated by one. On two machines each role has all of its own.
    pub(crate) fn new(cpus: &[usize], rendezvous: &Rendezvous) -> Processors {
        if rendezvous.apart {
            return Processors(cpus.to_vec());
        }
        let every_second = (0..cpus.len()).map(|number| cpus[2 * number % cpus.len()]);
        Processors(every_second.collect())
    }

    fn cpu_of(&self, flow: usize) -> Option<usize> {
        self.0.iter().copied().cycle().nth(flow)
    }

    /// The CPUs that the first `flows` flows use.
    pub(crate) fn used(&self, flows: usize) -> BTreeSet<usize> {
        self.0.iter().copied().take(flows).collect()
    }
}

/// Runs all flows at the same time, each on its CPU, the first in this thread.
pub(crate) fn each<F: Send, T: Send>(
    flows: &mut [F],
    cpus: &Processors,
    work: impl Fn(&mut F) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let work = |position: usize, flow: &mut F| {
        if let Some(cpu) = cpus.cpu_of(position) {
            affinity::pin(&[cpu])?;
        }
        work(flow)
    };
    let (first, others) = flows.split_first_mut().expect("there is a flow");
    std::thread::scope(|scope| {
        let started: Vec<_> = others
            .iter_mut()
            .zip(1..)
            .map(|(flow, position)| {
                let thread = std::thread::Builder::new().name(format!("flow {position}"));
                thread.spawn_scoped(scope, move || work(position, flow))
            })
            .collect();
        let first = work(0, first);
        let others = started.into_iter().map(|thread| {
            let ended = thread?.join();
            ended.map_err(|_| io::Error::other("a thread of a flow has panicked"))?
        });
        std::iter::once(first).chain(others).collect()
    })
}

#[cfg(test)]
pub(in crate::two_ends) mod tests {
    use super::*;

    pub(in crate::two_ends) fn processors(cpus: &[usize], apart: bool) -> Processors {
        let rendezvous = Rendezvous {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            scope: 0,
            receive_buffer: None,
            ports: (0, 0),
            token: String::new(),
            apart,
            sink: None,
        };
        Processors::new(cpus, &rendezvous)
    }

    fn cpu_ofs(cpus: &[usize], apart: bool, flows: usize) -> Vec<usize> {
        let processors = processors(cpus, apart);
        (0..flows).filter_map(|flow| processors.cpu_of(flow)).collect()
    }

    #[test]
    fn ends_share_no_processor_where_there_are_enough() {
        assert_eq!(cpu_ofs(&[4, 5, 6, 7], false, 2), [4, 6]);
        assert_eq!(cpu_ofs(&[5, 6, 7, 4], false, 2), [5, 7]);
        assert_eq!(cpu_ofs(&[0, 1], false, 3), [0, 0, 0]);
        assert_eq!(cpu_ofs(&[1, 0], false, 3), [1, 1, 1]);
        assert_eq!(cpu_ofs(&[0, 1, 2], false, 4), [0, 2, 1, 0]);
        assert_eq!(cpu_ofs(&[9], false, 2), [9, 9]);
        assert!(cpu_ofs(&[], false, 2).is_empty());
    }

    #[test]
    fn on_two_machines_each_end_uses_all_of_its_own() {
        assert_eq!(cpu_ofs(&[4, 5, 6, 7], true, 3), [4, 5, 6]);
        assert_eq!(cpu_ofs(&[4, 5], true, 3), [4, 5, 4]);
        assert!(cpu_ofs(&[], true, 2).is_empty());
    }

    #[test]
    fn work_of_all_flows_is_done_and_its_errors_are_reported() {
        let mut flows = [1, 2, 3];
        let doubled = each(&mut flows, &Processors(Vec::new()), |flow| Ok(2 * *flow)).unwrap();
        assert_eq!(doubled, [2, 4, 6]);
        let failed = each(&mut flows, &Processors(Vec::new()), |flow| match flow {
            2 => Err(io::Error::other("no")),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}
