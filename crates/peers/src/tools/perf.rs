//! `perf bench` (perf-bench(1)): the time of one long run divided by its operations.

use crate::tool::{Reading, Statistic, Tool};

/// 10 million calls of the C library's `getppid()`.
pub fn syscall() -> Tool<'static> {
    bench("syscall basic", 1)
}

/// Two processes or threads pass a token of four bytes back and forth through two pipes, this many times. The
/// number is half of a round trip.
pub fn sched_pipe(threads: bool, round_trips: u32) -> Tool<'static> {
    let threaded = if threads { "-T" } else { "" };
    // Each round trip is two switches.
    bench(&format!("sched pipe -l {round_trips} {threaded}"), 2)
}

/// Takes the time from `0.110355 usecs/op` and divides it by the number of parts of an operation.
fn bench(arguments: &str, parts: u32) -> Tool<'static> {
    let read = Reading::Before("usecs/op", 1e3 / f64::from(parts));
    Tool::simple("perf", Statistic::Mean, &format!("bench {arguments}"), read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// perf 6.1.
    const SYSCALL: &str = "\
# Running 'syscall/basic' benchmark:
# Executed 10000000 getppid() calls
     Total time: 1.767 [sec]

       0.176760 usecs/op
        5657375 ops/sec
";
    const PIPE: &str = "\
# Running 'sched/pipe' benchmark:
# Executed 200000 pipe operations between two processes

     Total time: 1.123 [sec]

       5.619605 usecs/op
         177948 ops/sec
";

    #[test]
    fn an_operations_time_is_read() {
        let close = |found: Option<f64>, ns: f64| (found.unwrap() - ns).abs() < 1e-9;
        assert!(close(syscall().read.number(SYSCALL), 176.76));
        assert!(close(sched_pipe(false, 1).read.number(PIPE), 2809.8025));
        for output in ["", "Total time: 1.1 [sec]", "zero usecs/op"] {
            assert_eq!(syscall().read.number(output), None);
        }
    }

    #[test]
    fn threads_are_asked_for() {
        let arguments = |threads| (sched_pipe(threads, 5).arguments)().unwrap().join(" ");
        assert_eq!(arguments(false), "bench sched pipe -l 5");
        assert_eq!(arguments(true), "bench sched pipe -l 5 -T");
    }
}
