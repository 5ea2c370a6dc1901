//! The rows of a first look: what an engineer reckons with most, from the clock to a remote procedure
//! call, all of it in seconds.

/// Probes, each with the beginning of a headline's label, or with the whole of it where others begin
/// alike: a disk's label ends with its name.
pub(super) const ROWS: [(&str, &str); 20] = [
    ("cpu.clock", "clock read: clock_gettime"),
    ("cpu.call", "procedure call"),
    ("cpu.branch_miss", "branch misprediction"),
    ("memory.latency", "L1 cache reference"),
    ("memory.latency", "L2 cache reference"),
    ("memory.latency", "L3 cache reference"),
    ("memory.latency", "main memory reference"),
    ("memory.bandwidth", "memory bandwidth: read"),
    ("sync.mutex", "mutex: lock and unlock"),
    ("os.syscall", "system call: getppid"),
    ("os.context_switch", "context switch: processes, one core"),
    ("os.process", "process: fork and exit"),
    ("os.thread", "thread: create and join"),
    ("os.page_fault", "page fault: anonymous memory"),
    ("ipc.latency", "IPC round trip: pipe"),
    ("net.rtt", "round trip: TCP on loopback, blocked"),
    ("net.bandwidth", "network bandwidth: TCP on loopback"),
    ("rpc.rtt", "remote procedure call: gRPC on loopback"),
    ("file.read", "read 4 KiB randomly from"),
    ("file.sync", "write 4 KiB and fsync"),
];

/// Those whose label goes on: with the disk's name, or with what is sent.
const PREFIXES: [&str; 3] = ["net.bandwidth", "file.read", "file.sync"];

/// Whether the headline of this label is one of them.
pub(super) fn has(probe: &str, label: &str) -> bool {
    let is_it = |row: &str| label == row || PREFIXES.contains(&probe) && label.starts_with(row);
    ROWS.iter().any(|(own, row)| *own == probe && is_it(row))
}
