//! `mbw`: copies between two arrays with the C library's memcpy.

use super::MIB;
use crate::tool::{Reading, Statistic, Tool, number_before};
use costof_stats::median;

/// Copies one array of this size to another this many times. The number is the median over all copies.
pub fn copy(size_mib: u64, copies: u32) -> Tool<'static> {
    Tool::simple(
        "mbw",
        // A median of means: each copy is one long time, which includes interruptions.
        Statistic::Mean,
        &format!("-q -n {copies} -t0 {size_mib}"),
        Reading::By(bytes_per_second),
    )
}

/// Reads lines such as `0 Method: MEMCPY Elapsed: 0.01363 MiB: 128.00000 Copy: 9393.806 MiB/s`.
fn bytes_per_second(output: &str) -> Option<f64> {
    let copies: Vec<f64> = output
        .lines()
        .filter(|line| !line.starts_with("AVG"))
        .filter_map(|line| number_before(line, "MiB/s"))
        .collect();
    Some(MIB * median(&copies)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mbw 1.2.2.
    const OUTPUT: &str = "\
0\tMethod: MEMCPY\tElapsed: 0.01363\tMiB: 128.00000\tCopy: 9393.806 MiB/s
1\tMethod: MEMCPY\tElapsed: 0.01326\tMiB: 128.00000\tCopy: 9652.364 MiB/s
2\tMethod: MEMCPY\tElapsed: 0.01612\tMiB: 128.00000\tCopy: 7939.462 MiB/s
AVG\tMethod: MEMCPY\tElapsed: 0.01409\tMiB: 128.00000\tCopy: 9082.588 MiB/s
";

    #[test]
    fn the_middle_copy_is_read() {
        assert_eq!(bytes_per_second(OUTPUT), Some(9393.806 * MIB));
        assert_eq!(bytes_per_second("Long uses 8 bytes."), None);
    }
}
