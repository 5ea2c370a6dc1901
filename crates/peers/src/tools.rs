//! The tools, one file each: how to start it, and how to read its output. Each gives nanoseconds or bytes per
//! second.

pub mod c;
pub mod fio;
pub mod iperf3;
pub mod lmbench;
pub mod mbw;
pub mod openssl;
pub mod perf;
pub mod pg_test_fsync;
pub mod ping;
pub mod sockperf;
pub mod stress_ng;
pub mod sysbench;

/// The number of bytes in what these programs call MiB, or mean by MB.
const MIB: f64 = 1024.0 * 1024.0;

/// The beginning of a program's output.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
