//! Which point of costof is compared with which tools. Each comparison is data: its tool, the band in which
//! the ratio is expected, and how the two definitions differ. No two programs measure quite the same.
//!
//! `costof verify` makes all of [`checks`]. The bench makes the same comparisons with more [`Effort`] and
//! bounds of its own.

use crate::agreement::Band;
use crate::caches::BeyondCaches;
use crate::tool::Statistic::{Mean, Median};
use crate::tool::{CPU, NEXT_CPU, Tool};
use crate::tools::fio::{self, Wanted};
use crate::tools::{c, iperf3, lmbench, mbw, openssl, perf, pg_test_fsync};
use crate::tools::{ping, sockperf, stress_ng, sysbench};
use costof_os::file::scratch;

/// One point of costof, and the tools that measure the same.
pub struct Check {
    /// The probe.
    pub probe: &'static str,
    /// Values for its axes as `axis=value`, separated by blanks; the other axes have their defaults.
    pub axes: String,
    /// The metric.
    pub metric: &'static str,
    /// How many CPUs both sides run on. The first one is measured.
    pub cpus: usize,
    /// Whether both sides keep the CPUs from sleeping. Waking a CPU may take longer than all the rest, and
    /// varies more.
    pub awake: bool,
    /// Why this machine cannot make the check; none if it can.
    pub lacks: Option<String>,
    /// The tools to compare with.
    pub peers: Vec<Peer>,
}

/// A tool that a point is compared with.
pub struct Peer {
    /// The tool.
    pub tool: Tool<'static>,
    /// The band in which costof's number divided by the tool's is expected.
    pub expected: Band,
    /// How the definitions differ, and what effect that has.
    pub differs: &'static str,
}

/// How long and how much each tool measures for one number.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Main memory is measured with at least this many MiB.
    pub memory_mib: u64,
    /// How long a tool runs that has no default.
    pub seconds: u32,
    /// How long stress-ng runs, which measures about a dozen access widths several times each.
    pub memrate_seconds: u32,
    /// How long fio reads.
    pub fio_seconds: u32,
}

impl Effort {
    /// The effort of `costof verify`.
    pub const QUICK: Effort =
        Effort { memory_mib: 128, seconds: 1, memrate_seconds: 2, fio_seconds: 1 };
}

const COPIES: u32 = 20;
const PIPE_ROUND_TRIPS: u32 = 200_000;
const MESSAGE_BYTES: u32 = 56;
const PINGS: u32 = 300;
const FAULT_BATCHES: u32 = 300;
const CHILDREN: u32 = 5000;
/// Few enough that ports do not run out: each stays in TIME-WAIT for a minute.
const CONNECTIONS: u32 = 2000;
const FILE_BYTES: u64 = 64 << 20;
const SYNC_BYTES: u64 = 16 << 20;
/// Batches of the C programs, of 1,000 operations or more.
const BATCHES: u32 = 200;
const TOUCH_BATCHES: u32 = 400;
const HANDSHAKES: u32 = 1000;
const FORWARDED: u32 = 5000;
/// Bytes of a message to be hashed or encrypted: more than what a call costs.
const MESSAGE: u32 = 16 << 10;

const FIO_KEEPS_BOOKS: &str = "fio stamps each read twice, and between reads chooses the next place and does bookkeeping, which disturbs the caches; costof divides the time of a batch of reads by their number";
const FIO_SAME_READS: &str = "the same reads of a file of the same length in the same folder, stamped one by one; a device's own cache and queues may be in different states";
const VECTORS: &str = "sysbench takes words of 8 bytes in one loop, costof the fastest of its loops, with vectors if there are any";

/// All checks of `costof verify`, in their order.
pub fn checks() -> Vec<Check> {
    let effort = Effort::QUICK;
    let mut checks = vec![
        syscall(),
        context_switch("processes"),
        context_switch("threads"),
        fork(),
        vfork(effort.seconds),
    ];
    checks.extend(["minor_anonymous", "minor_file", "copy_on_write"].map(page_fault));
    checks.extend(["touch", "populate"].map(first_touch));
    checks.extend([malloc(1), malloc(1000), epoll(1), epoll(1000), nop(1), nop(32)]);
    checks.extend(transformations(effort.seconds));
    checks.push(handshake(effort.seconds));
    checks.push(memory_latency(effort));
    checks.extend(["read", "write", "copy"].map(|op| main_memory(op, effort)));
    checks.extend([
        file_read(&FILE_READS[0], effort),
        file_read(&FILE_READS[1], effort),
        fdatasync(1, effort),
        fdatasync(4, effort),
        round_trip("tcp", "block", "awake", effort).kept_awake(),
        round_trip("udp", "spin", "awake", effort),
        ping(),
        connect("same").kept_awake(),
        connect("cross").kept_awake(),
        tcp_stream("cubic", effort),
        sender(256),
        forward(),
    ]);
    checks
}

impl Check {
    /// A check on one CPU.
    pub fn new(
        probe: &'static str,
        axes: impl Into<String>,
        metric: &'static str,
        peers: Vec<Peer>,
    ) -> Check {
        Check { probe, axes: axes.into(), metric, cpus: 1, awake: false, lacks: None, peers }
    }

    /// The same check on two CPUs.
    pub fn on_two_cpus(self) -> Check {
        Check { cpus: 2, ..self }
    }

    /// The same check with CPUs that are kept awake.
    pub fn kept_awake(self) -> Check {
        Check { awake: true, ..self }
    }

    /// The probe and its axes, as a user names the point on the command line.
    pub fn point(&self) -> String {
        format!("{} {}", self.probe, self.axes)
    }

    /// `--set` for each axis, as `costof run` takes them.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.axes.split_whitespace().flat_map(|axis| ["--set", axis])
    }
}

impl Peer {
    /// A tool, the expected band of costof's number divided by the tool's, and how the definitions differ.
    pub fn new(tool: Tool<'static>, low: f64, high: f64, differs: &'static str) -> Peer {
        Peer { tool, expected: Band::new(low, high), differs }
    }
}

/// A system call that does nothing.
pub fn syscall() -> Check {
    let perf =
        "the same call through the same C library; perf divides one long time by 10 million calls";
    let lmbench = "the same call through the same C library";
    Check::new(
        "os.syscall",
        "call=getppid",
        "cost",
        vec![
            Peer::new(perf::syscall(), 0.93, 1.07, perf),
            Peer::new(lmbench::syscall(), 0.9, 1.1, lmbench),
        ],
    )
}

/// Two `processes` or `threads` that pass a token back and forth through two pipes.
pub fn context_switch(between: &str) -> Check {
    let threads = between == "threads";
    let perf = "perf's token is four bytes, costof's one; half of a round trip each";
    let tool = perf::sched_pipe(threads, PIPE_ROUND_TRIPS);
    let mut peers = vec![Peer::new(tool, 0.9, 1.1, perf)];
    if !threads {
        let half = "half of lat_pipe's round trip of one byte";
        peers.push(Peer::new(lmbench::pipe(), 0.85, 1.15, half));
    }
    let axes = format!("between={between} over=pipe cpus=same wake=awake");
    Check::new("os.context_switch", axes, "cost", peers)
}

/// A copy of a process of one thread that exits at once.
pub fn fork() -> Check {
    let libraries = "fork, _exit in the child, and waitpid, in a program linked to the C library alone; costof's worker is linked to two more libraries, and excludes from the fork what that program does not have";
    let tool = c::program(&c::FORK, Median, &format!("fork {CHILDREN}"), "ns until it ended");
    let axes = "how=fork exec=no resident=0";
    let peers = vec![Peer::new(tool, 0.9, 1.1, libraries)];
    Check::new("os.process", axes, "latency", peers)
}

/// First touches of pages of this `kind`.
fn page_fault(kind: &str) -> Check {
    let loops = "the same system calls, and as many pages; costof times the last 256 or 512 of 1,024 in a loop in assembly, the C program the last 512 in the compiler's";
    let folder = scratch::folder();
    let lacks = folder.is_none().then(|| "there is no folder on a disk (TMPDIR)".to_owned());
    let mut tool = c::program(&c::PAGE_FAULT, Median, "", "ns per fault");
    let arguments = vec![
        kind.to_owned(),
        folder.unwrap_or_default().to_string_lossy().into_owned(),
        FAULT_BATCHES.to_string(),
    ];
    tool.arguments = Box::new(move || Ok(arguments.clone()));
    let peers = vec![Peer::new(tool, 0.9, 1.1, loops)];
    Check { lacks, ..Check::new("os.page_fault", format!("kind={kind}"), "cost", peers) }
}

/// Fresh memory on pages of 4 KiB, by a write to each page (`touch`) or by one call (`populate`).
fn first_touch(how: &str) -> Check {
    let batches = "areas of 2 MiB less a page; costof brings in 64 MiB in each batch and times the last part, the C program one or two areas, whose pages are still in the caches; costof also reads its gauge between batches";
    let arguments = format!("{how} {TOUCH_BATCHES}");
    let tool = c::program(&c::FIRST_TOUCH, Median, &arguments, "ns per 4 KiB");
    let peers = vec![Peer::new(tool, 0.9, 1.3, batches)];
    Check::new("memory.first_touch", format!("pages=4KiB how={how}"), "cost", peers)
}

/// Blocks of 64 bytes from the C library, of which `burst` are allocated before they are freed.
pub fn malloc(burst: u32) -> Check {
    let lists = "the same calls, in the compiler's loop; with many blocks, what the allocator's lists look like depends on what the process has freed before";
    let tool = c::program(&c::MALLOC, Median, &format!("64 {burst} {BATCHES}"), "ns per block");
    let axes = format!("size=64 allocator=libc burst={burst} threads=1 frees=same");
    Check::new("memory.malloc", axes, "cost", vec![Peer::new(tool, 0.9, 1.1, lists)])
}

/// One of so many descriptors is written to, found by epoll_wait and read.
pub fn epoll(descriptors: u32) -> Check {
    let calls = "the same three system calls, in the same order of descriptors";
    let tool = c::program(&c::EPOLL, Median, &format!("{descriptors} {BATCHES}"), "ns per wake");
    let axes = format!("by=epoll descriptors={descriptors} step=wake");
    Check::new("os.wait", axes, "cost", vec![Peer::new(tool, 0.9, 1.1, calls)])
}

/// NOPs by io_uring, so many in a submission.
pub fn nop(batch: u32) -> Check {
    let library = "a ring with the same flags, by liburing and by the crate io-uring; both look at each completion";
    let tool = c::program(&c::NOP, Median, &format!("{batch} {BATCHES}"), "ns per request");
    let axes = format!("operation=nop how=ring batch={batch}");
    Check::new("os.io_uring", axes, "cost", vec![Peer::new(tool, 0.9, 1.1, library)])
}

/// Messages of 16 KiB, hashed and encrypted.
pub fn transformations(seconds: u32) -> [Check; 3] {
    [
        ("sha256", "sha256", 0.9, 1.1, "both by the CPU's instructions for SHA where it has them; openssl divides CPU time by its messages"),
        ("aes_128_gcm", "aes-128-gcm", 0.9, 3.5, "ring takes two blocks an instruction where the CPU can (VAES), OpenSSL 3.0 one"),
        ("chacha20_poly1305", "chacha20-poly1305", 0.5, 1.1, "OpenSSL has code for AVX-512, ring for AVX2"),
    ]
    .map(|(by, algorithm, low, high, differs)| {
        let tool = openssl::speed(algorithm, MESSAGE, seconds);
        let peers = vec![Peer::new(tool, low, high, differs)];
        Check::new("cpu.transform", format!("by={by} size={MESSAGE}"), "throughput", peers)
    })
}

/// A TLS 1.3 handshake by X25519 and Ed25519, both ends.
pub fn handshake(seconds: u32) -> Check {
    let parts = "openssl measures each operation by itself, and counts making a pair of keys like an agreement; TLS's messages and keys come on top";
    let library = "OpenSSL 3.0 sends a certificate instead of a bare key, and spends more than half of its time on locks, lookups of algorithms and memory";
    let whole = c::program(&c::HANDSHAKE, Median, &HANDSHAKES.to_string(), "ns per handshake");
    let peers = vec![
        Peer::new(openssl::handshake(seconds), 0.8, 1.3, parts),
        Peer::new(whole, 0.3, 1.1, library),
    ];
    Check::new("cpu.tls", "step=handshake", "cost", peers)
}

/// TCP connections whose ends are on the same CPU or on two.
pub fn connect(cpus: &str) -> Check {
    let ports = "connect() of both, each stamped; costof's client has bound its socket to a port, the C program's connect() chooses one";
    let server = if cpus == "same" { CPU } else { NEXT_CPU };
    let arguments = format!("{CONNECTIONS} {server}");
    let tool = c::program(&c::CONNECT, Median, &arguments, "ns to connect");
    let peers = vec![Peer::new(tool, 0.9, 1.1, ports)];
    let axes = format!("cpus={cpus} wake=awake");
    let check = Check::new("net.connect", axes, "latency", peers);
    if cpus == "same" { check } else { check.on_two_cpus() }
}

/// A child process that exits at once.
pub fn vfork(seconds: u32) -> Check {
    let loops = "stress-ng counts a loop that also reads its clock and checks whether its time is over; costof stamps each vfork and wait by itself";
    let peers = vec![Peer::new(stress_ng::vfork(seconds), 0.6, 1.05, loops)];
    let axes = "how=vfork exec=no resident=0";
    Check::new("os.process", axes, "latency", peers)
}

fn memory_latency(effort: Effort) -> Check {
    let BeyondCaches { mib, lacks } = BeyondCaches::at_least(effort.memory_mib);
    let pages = "lat_mem_rd goes to another page with each load, always in the same random order of pages, so \
         that it has a TLB miss each time and page tables stay in caches; where huge pages are given unasked \
         (transparent_hugepage=always) its memory may lie on them";
    let axes = format!("size={mib}MiB pages=4KiB pattern=random stride=64");
    let peers = vec![Peer::new(lmbench::memory_latency(mib), 0.75, 1.25, pages)];
    Check { lacks, ..Check::new("memory.latency", axes, "cost", peers) }
}

/// Operation `op`, which is `read`, `write` or `copy`, on more memory than the caches hold.
pub fn main_memory(op: &'static str, effort: Effort) -> Check {
    let BeyondCaches { mib, lacks } = BeyondCaches::at_least(effort.memory_mib);
    let memrate = effort.memrate_seconds;
    let peers = match op {
        "copy" => vec![Peer::new(
            mbw::copy(mib, COPIES),
            0.9,
            1.9,
            "mbw copies by the C library's memcpy, costof by the fastest of its loops, which may write past \
             the caches where memcpy does not, or does so later; mbw's number is the median of 20 copies, \
             each long enough to hold interruptions, which is compared with costof's mean",
        )],
        op => {
            let (tool, widths) = match op {
                "read" => (
                    stress_ng::reads(mib, memrate),
                    "the best of the widths that stress-ng reads in, by the compiler's loops",
                ),
                _ => (
                    stress_ng::writes(mib, memrate),
                    "the best of the widths that stress-ng writes in through the caches, by the compiler's \
                     loops",
                ),
            };
            let sysbench = sysbench::memory(op, mib, effort.seconds);
            vec![Peer::new(sysbench, 0.9, 1.4, VECTORS), Peer::new(tool, 0.85, 1.25, widths)]
        }
    };
    Check { lacks, ..bandwidth(op, mib, peers) }
}

/// Reads, writes or copies of so much memory.
pub fn bandwidth(op: &str, mib: u64, peers: Vec<Peer>) -> Check {
    let axes = format!("op={op} size={mib}MiB threads=1 pages=4KiB");
    Check::new("memory.bandwidth", axes, "throughput", peers)
}

/// A way to read a file that costof and fio share.
pub struct FileRead {
    /// costof's axes.
    pub axes: &'static str,
    /// The metric of costof that fio's number is compared with.
    pub metric: &'static str,
    /// fio's options.
    pub fio: &'static str,
    /// The expected ratio.
    pub expected: Band,
    /// How the definitions differ.
    pub differs: &'static str,
}

/// Reads from the page cache, and from the device.
pub const FILE_READS: [FileRead; 2] = [
    FileRead {
        axes: "cache=warm pattern=random block=4KiB engine=pread depth=1 size=64MiB",
        metric: "cost",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=0 --invalidate=0",
        expected: Band::new(0.4, 1.0),
        differs: FIO_KEEPS_BOOKS,
    },
    FileRead {
        axes: "cache=direct pattern=random block=4KiB engine=pread depth=1 size=64MiB",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=psync --direct=1",
        expected: Band::new(0.8, 1.2),
        differs: FIO_SAME_READS,
    },
];

/// The check for a way to read a file.
pub fn file_read(read: &FileRead, effort: Effort) -> Check {
    let tool = fio::read(fio::Read {
        options: read.fio,
        bytes: FILE_BYTES,
        seconds: effort.fio_seconds,
        wanted: match read.metric {
            "throughput" => Wanted::Throughput,
            _ => Wanted::Latency,
        },
    });
    let peer = Peer { tool, expected: read.expected, differs: read.differs };
    Check::new("file.read", read.axes, read.metric, vec![peer])
}

/// Blocks of 8 KiB that `writers` threads make durable by fdatasync.
pub fn fdatasync(writers: u32, effort: Effort) -> Check {
    let fio = fio::commits(writers, SYNC_BYTES, effort.fio_seconds);
    let parts = "threads that each write 8 KiB over a part of one file and call fdatasync; a device is in other moods at other times, and fio draws places in its part, costof writes one after the other";
    let mut peers = vec![Peer::new(fio, 0.8, 1.25, parts)];
    if writers == 1 {
        let same = "8 KiB written over the same place of a file, then fdatasync; costof goes on to the next place";
        peers.push(Peer::new(pg_test_fsync::fdatasync(effort.seconds), 0.8, 1.25, same));
    }
    let axes = format!("call=fdatasync where=overwrite block=8KiB writers={writers}");
    Check::new("file.sync", axes, "latency", peers)
}

/// Round trips of 56 bytes `over` TCP or UDP; both peers `wait` by `spin` or `block`.
pub fn round_trip(over: &str, wait: &str, wake: &str, effort: Effort) -> Check {
    let tool = sockperf::ping_pong(over, wait == "spin", MESSAGE_BYTES, effort.seconds);
    let whole =
        "whole round trips of both; sockperf stamps each of them and does bookkeeping in between";
    let axes = format!("over={over} size={MESSAGE_BYTES} wait={wait} cpus=cross wake={wake}");
    let peers = vec![Peer::new(tool, 0.85, 1.1, whole)];
    Check::new("net.rtt", axes, "latency", peers).on_two_cpus()
}

fn ping() -> Check {
    let pauses = "ping pauses 2 ms between requests, while caches lose their content, and prints whole microseconds of so short a time; costof sends the next request at once";
    let tool = ping::loopback(MESSAGE_BYTES, PINGS);
    let axes = format!("size={MESSAGE_BYTES} wait=block");
    let peers = vec![Peer::new(tool, 0.2, 1.0, pauses)];
    let check = Check::new("net.ping", axes, "latency", peers);
    check.on_two_cpus().kept_awake()
}

/// One TCP connection with writes of 128 KiB.
pub fn tcp_stream(congestion_control: &'static str, effort: Effort) -> Check {
    let start = "both write 128 KiB at a time to one connection and count what arrived; iperf3 leaves out its \
         first second, costof's quick launch the first third of 50 ms, in which a connection may still be slower";
    let tool = iperf3::tcp(congestion_control, effort.seconds);
    let axes = format!("over=tcp size=128KiB flows=1 congestion_control={congestion_control}");
    let peers = vec![Peer::new(tool, 0.85, 1.15, start)];
    Check::new("net.bandwidth", axes, "throughput", peers).on_two_cpus()
}

/// What it costs the sender to copy and send messages of this many KiB, of eight fields.
fn sender(kib: u64) -> Check {
    let shares = "CPU time of the sending thread for 1 KiB, both ends pinned: the same fields, buffer, reads and options of the socket; the C program sends four times as long";
    let arguments = format!("{} 8 200 {NEXT_CPU}", kib << 10);
    let tool = c::program(&c::STREAM, Mean, &arguments, "ns of the sender per KiB");
    let axes = format!("primitive=copy_and_send size={kib}KiB pattern=stream over=tcp fields=8");
    let peers = vec![Peer::new(tool, 0.9, 1.1, shares)];
    Check::new("copy.send", axes, "cpu_sender", peers).on_two_cpus()
}

/// A proxy on another CPU, which receives and sends.
pub fn forward() -> Check {
    let calls =
        "the same calls, windows and options of the sockets; threads of one process, on two CPUs";
    let arguments = format!("{} {FORWARDED} {NEXT_CPU}", 64 << 10);
    let tool = c::program(&c::FORWARD, Median, &arguments, "ns to pass a message on");
    let axes = "by=recv_send size=64KiB cpus=cross wake=awake";
    let check = Check::new("copy.forward", axes, "latency", vec![Peer::new(tool, 0.9, 1.1, calls)]);
    check.on_two_cpus().kept_awake()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_what_is_expected_and_why() {
        for check in checks() {
            assert!(!check.peers.is_empty(), "{}", check.probe);
            for peer in &check.peers {
                let (expected, name) = (peer.expected, peer.tool.name);
                assert!(expected.low < expected.high && expected.low > 0.0);
                assert!(peer.differs.len() > 30, "{name}: {}", peer.differs);
                assert!(peer.tool.server.is_none() || check.cpus == 2, "{name}");
                assert_eq!(peer.tool.source.is_some(), name == c::NAME);
            }
        }
    }
}
