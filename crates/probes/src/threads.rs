//! How many threads, and on which CPUs.

use crate::prelude::*;
use costof_model::CpuSet;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

/// The axis `threads`, with these defaults.
pub(crate) fn axis<T>(about: &'static str, defaults: &[u64]) -> AxisOf<T> {
    count(1..=4096, defaults).about(about)
}

/// 4, 8, 16 and so on, up to `most`.
pub(crate) fn more(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(4), |threads| Some(2 * threads))
        .take_while(move |threads| *threads <= most)
}

/// How many CPUs the run has.
pub(crate) fn processors(facts: &Facts) -> u64 {
    facts.planned_cpus().len() as u64
}

/// The first `needed` of a run's CPUs.
///
/// # Errors
/// If the run has fewer.
pub(crate) fn on(needed: usize, cpus: &[usize]) -> Result<&[usize]> {
    cpus.get(..needed).ok_or_else(|| too_few(needed, cpus.len()))
}

/// Checks that each thread has a CPU of its own, where they are pinned to `cpus` or, without those,
/// where the kernel places them.
///
/// # Errors
/// If there are too few.
pub(crate) fn have_one_each(threads: usize, cpus: &[usize]) -> Result {
    let processors = match cpus.len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        some => some,
    };
    if threads > processors {
        return Err(too_few(threads, processors));
    }
    Ok(())
}

/// The CPUs that this many threads run on and may share. Two or more threads need two CPUs; on one
/// they would take turns and never share anything at the same time.
///
/// # Errors
/// If there is only one for several.
pub(crate) fn sharing(threads: usize, cpus: &[usize]) -> Result<&[usize]> {
    if threads > 1 {
        on(2, cpus)?;
    }
    Ok(&cpus[..threads.min(cpus.len())])
}

/// The CPUs of a launch, or else those on which this thread may run.
///
/// # Errors
/// If the kernel does not report them.
pub(crate) fn of_run(launch: &Launch) -> Result<Vec<usize>> {
    match launch.cpus.as_slice() {
        [] => affinity::allowed().or_fail("cannot read the allowed CPUs"),
        cpus => Ok(cpus.to_vec()),
    }
}

/// Checks that a CPU that a point names is one of the run's.
///
/// # Errors
/// If it is not.
pub(crate) fn is_of_run(cpu: usize, cpus: &[usize]) -> Result {
    if !cpus.contains(&cpu) {
        let cpus: CpuSet = cpus.iter().map(|cpu| *cpu as u32).collect();
        unsupported!(
            "CPU {cpu} is not one of this run's ({cpus}): choose others by --set, or by --cpu"
        );
    }
    Ok(())
}

/// This thread is on another CPU than at home, until it goes back.
pub(crate) struct Moved(Vec<usize>);

impl Moved {
    /// Moves this thread to a CPU.
    ///
    /// # Errors
    /// If it cannot run there.
    pub(crate) fn to(cpu: usize) -> Result<Moved> {
        let home = affinity::allowed().or_fail("cannot read the allowed CPUs")?;
        affinity::pin(&[cpu]).or_unsupported(format_args!("CPU {cpu} (--set, --cpu)"))?;
        Ok(Moved(home))
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // It was allowed there before.
        let _ = affinity::pin(&self.0);
    }
}

/// A second thread of this process, which sleeps until this is dropped: programs have one, and calls
/// of the C library and on file descriptors are more expensive with it.
#[derive(Debug)]
pub(crate) struct Sleeper(Option<(Sender<()>, JoinHandle<()>)>);

impl Sleeper {
    /// Starts it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start() -> Result<Sleeper> {
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("sleeper".to_owned());
        let sleeps = move || {
            // Until the other end is dropped.
            let _ = ended.recv();
        };
        let thread = thread.spawn(sleeps).or_fail("cannot start a second thread")?;
        Ok(Sleeper(Some((end, thread))))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

fn too_few(needed: usize, has: usize) -> Failure {
    let processors = match needed {
        1 => "a CPU".to_owned(),
        _ => format!("{needed} CPUs"),
    };
    Failure::unsupported(format!(
        "this needs {processors} to be pinned to, and this run has {has} (--cpu names them, as \
         --cpu 0,1)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        assert_eq!(more(2).count(), 0);
        assert_eq!(more(4).collect::<Vec<_>>(), [4]);
        assert_eq!(more(31).collect::<Vec<_>>(), [4, 8, 16]);
    }

    #[test]
    fn threads_have_a_processor_each_or_at_least_two_to_share() {
        assert_eq!(on(2, &[7, 5, 6]).unwrap(), [7, 5]);
        assert_eq!(sharing(1, &[7]).unwrap(), [7]);
        assert_eq!(sharing(2, &[7, 5, 6]).unwrap(), [7, 5]);
        assert_eq!(sharing(8, &[7, 5]).unwrap(), [7, 5]);
        for (failure, needed, given) in [
            (on(8, &[7, 5]), "8 CPUs", "has 2"),
            (on(1, &[]), "a CPU", "has 0"),
            (sharing(2, &[7]), "2 CPUs", "has 1"),
        ] {
            let failure = failure.unwrap_err();
            let reason = &failure.reason;
            assert!(reason.contains(needed) && reason.contains(given), "{failure}");
            assert!(failure.reason.contains("--cpu"), "{failure}");
        }
    }
}
