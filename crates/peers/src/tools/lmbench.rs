//! Three programs of lmbench 3 (L. McVoy, C. Staelin, USENIX 1996): `lat_syscall`, `lat_pipe` and
//! `lat_mem_rd`. Each finds by itself how many operations it needs to time them well, takes the median of
//! several such times, and prints it to standard error. Debian has lmbench in its section non-free.

use crate::packages;
use crate::tool::{Reading, Statistic, Tool};

/// The common name of its programs.
pub const NAME: &str = "lmbench";

/// `getppid()`, timed five times.
pub fn syscall() -> Tool<'static> {
    // `Simple syscall: 0.1653 microseconds`
    let read = Reading::Before("microseconds", 1e3);
    program("lat_syscall", "-N 5 null", read)
}

/// Two processes pass a token of one byte back and forth through two pipes. The number is half of a round
/// trip.
pub fn pipe() -> Tool<'static> {
    // `Pipe latency: 5.2255 microseconds`, for a round trip of two switches.
    let read = Reading::Before("microseconds", 1e3 / 2.0);
    program("lat_pipe", "-N 1", read)
}

/// Dependent loads, a line of 64 bytes apart, each on another page (`-t`), from this many MiB. lmbench prints
/// many sizes; this is the last one.
pub fn memory_latency(size_mib: u64) -> Tool<'static> {
    let arguments = format!("-N 1 -t {size_mib} 64");
    program("lat_mem_rd", &arguments, Reading::By(last_size_ns))
}

fn program(program: &'static str, arguments: &str, read: Reading) -> Tool<'static> {
    Tool {
        program: packages::find(program).unwrap_or_else(|| program.into()),
        // A time of 10 ms is long enough. Otherwise lmbench would search for the right time for a second, and
        // on a noisy machine choose up to a second for each time.
        environment: &[("ENOUGH", "10000")],
        ..Tool::simple(NAME, Statistic::Median, arguments, read)
    }
}

/// Reads lines such as `64.00000 120.500`, MiB and nanoseconds, after `"stride=64`.
fn last_size_ns(output: &str) -> Option<f64> {
    let (_, sizes) = output.split_once("\"stride=")?;
    let last = sizes.lines().skip(1).filter(|line| !line.trim().is_empty()).last()?;
    let mut words = last.split_whitespace();
    let (_, ns) = (words.next()?.parse::<f64>().ok()?, words.next()?);
    ns.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// lmbench 3.0-a9, the middle of the sizes left out.
    const SIZES: &str = "\
\"stride=64
0.00049 1.410
0.00098 1.410
12.00000 133.955
16.00000 145.606
24.00000 150.094
";

    #[test]
    fn times_are_read_where_it_prints_them() {
        let read = |tool: Tool<'_>, output| tool.read.number(output);
        let close = |found: Option<f64>, ns: f64| (found.unwrap() - ns).abs() < 1e-9;
        assert!(close(read(syscall(), "Simple syscall: 0.1653 microseconds\n"), 165.3));
        assert!(close(read(pipe(), "Pipe latency: 5.2255 microseconds\n"), 2612.75));
        assert_eq!(read(memory_latency(24), SIZES), Some(150.094));
        let rubbish = "(w) read/write on pipe: Invalid argument\n";
        for tool in [syscall(), pipe(), memory_latency(24)] {
            assert_eq!(read(tool, rubbish), None);
        }
        assert_eq!(read(memory_latency(24), "\"stride=64\n"), None);
    }
}
