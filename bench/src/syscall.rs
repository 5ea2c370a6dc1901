//! `os.syscall call=getppid` beside `perf bench syscall basic`: the same call in
//! a loop, through the same C library, on the same processor.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, number_before, words};
use crate::error::Result;
use crate::verdict::Verdict;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let perf = Peer {
        name: "perf",
        says: Says::Mean,
        program: Program::Installed("perf"),
        arguments: Box::new(|| words("bench syscall basic")),
        read: ns_per_operation,
    };
    let contest = Contest::time("os.syscall", "cost", words("call=getppid"), vec![perf]);
    contest::hold(bench, "os.syscall beside perf bench syscall", vec![contest])
}

/// What an operation of `perf bench` takes, from its words: `0.110355 usecs/op`.
pub(crate) fn ns_per_operation(output: &str) -> Option<f64> {
    Some(1000.0 * number_before(output, "usecs/op")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_output_is_read() {
        let output = "# Running 'syscall/basic' benchmark:\n\
                      # Executed 10000000 getppid() calls\n     \
                      Total time: 1.103 [sec]\n\n       \
                      0.110355 usecs/op\n        9061672 ops/sec\n";
        let ns = ns_per_operation(output).unwrap();
        assert!((ns - 110.355).abs() < 1e-9);
        for output in ["", "Total time: 1.1 [sec]", "zero usecs/op"] {
            assert_eq!(ns_per_operation(output), None);
        }
    }
}
