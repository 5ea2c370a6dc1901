//! A test of `sysbench`: `memory`, which accesses words one after the other in one block.

use super::MIB;
use crate::tool::{Reading, Statistic, Tool, number_before};

/// One thread that reads or writes (`operation`) a block repeatedly for this many seconds. The size has to be
/// a power of two.
pub fn memory(operation: &'static str, size_mib: u64, seconds: u32) -> Tool<'static> {
    Tool::simple(
        "sysbench",
        Statistic::Mean,
        &format!(
            "memory --memory-block-size={size_mib}M --memory-total-size=1T \
             --memory-oper={operation} --memory-access-mode=seq --threads=1 --time={seconds} run"
        ),
        Reading::By(bytes_per_second),
    )
}

/// Reads `24320.00 MiB transferred (24179.42 MiB/sec)`.
fn bytes_per_second(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("transferred"))?;
    let rate = line.rsplit_once('(')?.1;
    Some(MIB * number_before(rate, "MiB/sec)")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sysbench 1.0.20.
    const OUTPUT: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Running memory speed test with the following options:
  block size: 262144KiB
  total size: 1048576MiB
  operation: read
  scope: global

Initializing worker threads...

Threads started!

Total operations: 95 (   94.45 per second)

24320.00 MiB transferred (24179.42 MiB/sec)


General statistics:
    total time:                          1.0049s
    total number of events:              95
";

    #[test]
    fn its_rate_is_read() {
        assert_eq!(bytes_per_second(OUTPUT), Some(24179.42 * MIB));
        assert_eq!(bytes_per_second("Total operations: 16"), None);
        assert_eq!(bytes_per_second("16 MiB transferred"), None);
    }
}
