//! The kernel's files that list named sizes, such as /proc/self/status and /proc/meminfo.
//!
//! Source: proc(5).

/// The file with this process's memory use, among other things.
pub(crate) const STATUS: &str = "/proc/self/status";

/// The value of a name in a file such as [`STATUS`], in bytes.
pub(crate) fn status_bytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    kib_value(value).map(|kib| kib * 1024)
}

/// The number in `   1234 kB`.
pub(crate) fn kib_value(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim_end().parse().ok()
}
