//! The numbers that an engineer uses most, from the clock to a remote procedure call. `costof run --quick`
//! measures them in seconds, and a page begins with the first of them.

use costof_model::PointRow;

/// Each probe with the label of a headline. A label that ends with a machine-dependent name, such
/// as a disk's, is given without it. The best-known numbers come first.
pub const ROWS: [(&str, &str); 20] = [
    ("cpu.clock", "clock read: clock_gettime"),
    ("cpu.branch_miss", "branch misprediction"),
    ("memory.latency", "L1 cache reference"),
    ("memory.latency", "main memory reference"),
    ("sync.mutex", "mutex: lock and unlock"),
    ("os.syscall", "system call: getppid"),
    ("os.context_switch", "context switch: processes, one core"),
    ("os.process", "process: fork and exit"),
    ("net.rtt", "round trip: TCP on loopback, blocked"),
    ("net.rtt", "remote procedure call: gRPC on loopback"),
    ("file.read", "read 4 KiB randomly from"),
    ("file.sync", "write 4 KiB and fsync"),
    ("cpu.call", "procedure call"),
    ("memory.latency", "L2 cache reference"),
    ("memory.latency", "L3 cache reference"),
    ("memory.bandwidth", "memory bandwidth: read"),
    ("os.thread", "thread: create and join"),
    ("os.page_fault", "page fault: anonymous memory"),
    ("ipc.latency", "IPC round trip: pipe"),
    ("net.bandwidth", "network bandwidth: TCP on loopback"),
];

/// The page's first screen shows this many.
const FIRST: usize = 12;

/// The probes whose labels end with the disk's name or with what is sent.
const PREFIXES: [&str; 3] = ["net.bandwidth", "file.read", "file.sync"];

/// Whether the headline with this label is one of these numbers.
pub fn has(probe: &str, label: &str) -> bool {
    is_in(&ROWS, probe, label)
}

/// Whether a page begins with this row.
pub(crate) fn is_first(row: &PointRow) -> bool {
    let label = row.label.as_ref().filter(|_| row.headline);
    label.is_some_and(|label| is_in(&ROWS[..FIRST], &row.point.probe, label))
}

fn is_in(rows: &[(&str, &str)], probe: &str, label: &str) -> bool {
    let is_it = |row: &str| label == row || PREFIXES.contains(&probe) && label.starts_with(row);
    rows.iter().any(|(own, row)| *own == probe && is_it(row))
}
