//! Which pairs the bench compares. Most are those of `costof verify` ([`checks`]); those of the C programs
//! beside this file are the bench's own.

use crate::bench::Bench;
use crate::contest::{Contest, hold};
use crate::error::Result;
use crate::verdict::{COST, Verdict};
use crate::{copy, huge_pages, program};
use clap::Subcommand;
use costof_peers::agreement::Band;
use costof_peers::checks::{self, Check, Effort, FILE_READS, FileRead, Peer};
use costof_peers::tool::{Reading, Statistic, Tool, words};
use costof_peers::tools::c::{CONNECT, FORK};

/// A device is faster in some seconds than in others, so fio reads about as long as costof.
const EFFORT: Effort = Effort { memory_mib: 512, seconds: 2, memrate_seconds: 4, fio_seconds: 4 };
const CHASE_BYTES: u64 = 512 << 20;
const CHILDREN: u32 = 5000;
/// Few enough that ports do not run out: each stays in TIME-WAIT for a minute.
const CONNECTIONS: u32 = 2000;

/// What is compared.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Pairs {
    /// os.syscall call=getppid against `perf bench syscall basic`: at most 1.05 times
    Syscall,
    /// memory.latency in 512 MiB against a chase written independently in C: within 10 %
    Chase,
    /// os.context_switch against `perf bench sched pipe`: at most 1.05 times
    Switch,
    /// os.process against fork and vfork in C: at most 1.05 times
    Process,
    /// os.thread against pthread_create in C: at most 1.05 times
    Thread,
    /// memory.bandwidth against the best of sysbench, mbw and stress-ng: at least 0.95 times
    Bandwidth,
    /// sync.mutex with one thread against a pthread mutex in C: at most 1.05 times
    Mutex,
    /// net.rtt over TCP and UDP against `sockperf ping-pong`: at most 1.05 times
    Rtt,
    /// net.bandwidth over TCP against iperf3: at least 0.95 times
    Net,
    /// net.connect against a loop of connect() in C: at most 1.05 times
    Connect,
    /// copy.send against iperf3 and sockperf, and without a copy against with one: at least 1.4 times
    Copy,
    /// file.read against fio: at most 1.05 times, and at least 0.95 times of its throughput
    Files,
    /// malloc, epoll, a NOP by io_uring and a proxy against C: at most 1.05 times
    Small,
    /// cpu.transform and cpu.tls against OpenSSL: within the range that verify expects
    Crypto,
    /// file.sync call=fdatasync against fio and pg_test_fsync: within the range that verify expects
    Sync,
}

/// Compares these pairs.
pub(crate) fn compare(bench: &Bench, pairs: Pairs) -> Result<Vec<Verdict>> {
    bench.introduce(&format!("{pairs:?} on CPU {}", bench.cpu));
    let mut verdicts = match pairs {
        Pairs::Files => files(bench)?,
        _ => hold(bench, contests(bench, pairs)?)?,
    };
    if matches!(pairs, Pairs::Copy) {
        verdicts.extend(copy::registered_buffers(bench)?);
    }
    Ok(verdicts)
}

fn contests(bench: &Bench, pairs: Pairs) -> Result<Vec<Contest>> {
    let c = InC { bench };
    Ok(match pairs {
        Pairs::Syscall => vec![Contest::new(checks::syscall())],
        Pairs::Switch => ["processes", "threads"]
            .map(|between| Contest::new(checks::context_switch(between)))
            .into(),
        Pairs::Bandwidth => ["read", "write", "copy"]
            .map(|op| Contest::new(checks::main_memory(op, EFFORT)).rounds(9))
            .into(),
        Pairs::Rtt => [("tcp", "spin"), ("tcp", "block"), ("udp", "spin"), ("udp", "block")]
            .map(|(over, wait)| {
                // An end that spins keeps its CPU awake itself.
                let wake = if wait == "spin" { "awake" } else { "idle" };
                Contest::new(checks::round_trip(over, wait, wake, EFFORT))
            })
            .into(),
        Pairs::Net => {
            ["cubic", "bbr"].map(|control| Contest::new(checks::tcp_stream(control, EFFORT))).into()
        }
        Pairs::Copy => copy::contests(EFFORT),
        Pairs::Chase => {
            let mut seeds = fastrand::Rng::new();
            let mut chase = c.peer("chase.c", include_str!("chase.c"), "", "ns per load");
            chase.tool.arguments =
                Box::new(move || Ok(words(&format!("{CHASE_BYTES} 64 {} 2", seeds.u64(..)))));
            let axes = format!("size={CHASE_BYTES} pages=4KiB pattern=random stride=64");
            vec![Contest {
                band: Band::new(0.9, 1.1),
                rounds: 9,
                ..Contest::new(Check::new("memory.latency", axes, "cost", vec![chase]))
            }]
        }
        Pairs::Process => {
            let fork = |how: &str, more: Vec<Peer>| {
                let arguments = format!("{how} {CHILDREN}");
                let mut peers = vec![c.peer("fork.c", FORK.text, &arguments, "ns until it ended")];
                peers.extend(more);
                let axes = format!("how={how} exec=no resident=0");
                Contest::new(Check::new("os.process", axes, "latency", peers))
            };
            vec![fork("fork", Vec::new()), fork("vfork", checks::vfork(EFFORT.seconds).peers)]
        }
        Pairs::Thread => {
            let source = include_str!("thread.c");
            let peers = vec![c.peer("thread.c", source, "20000", "ns until it was joined")];
            let axes = "how=pthread cpus=same";
            vec![Contest::new(Check::new("os.thread", axes, "latency", peers))]
        }
        Pairs::Mutex => ["pthread", "std"]
            .map(|kind| {
                // Batches of 10,000 locks each: about half a second.
                let peer = c.peer("mutex.c", include_str!("mutex.c"), "10000", "ns per lock");
                let axes = format!("kind={kind} threads=1");
                Contest::new(Check::new("sync.mutex", axes, "cost", vec![peer]))
            })
            .into(),
        Pairs::Connect => {
            let [_, other] = bench.two_cpus()?;
            let arguments = format!("{CONNECTIONS} {other}");
            let peers = vec![c.peer("connect.c", CONNECT.text, &arguments, "ns to connect")];
            let axes = "cpus=cross wake=idle";
            let check = Check::new("net.connect", axes, "latency", peers);
            vec![Contest::new(check.on_two_cpus())]
        }
        Pairs::Small => {
            let small =
                [checks::malloc(1), checks::malloc(1000), checks::epoll(1), checks::epoll(1000)];
            let more = [checks::nop(1), checks::nop(32), checks::forward()];
            small.into_iter().chain(more).map(Contest::new).collect()
        }
        Pairs::Crypto => {
            let transformations = checks::transformations(EFFORT.seconds).into_iter();
            transformations
                .chain([checks::handshake(EFFORT.seconds)])
                .map(as_verify_expects)
                .collect()
        }
        Pairs::Sync => {
            [1, 4].map(|writers| as_verify_expects(checks::fdatasync(writers, EFFORT))).into()
        }
        Pairs::Files => Vec::new(),
    })
}

/// Other code for the same, which need not be as fast.
fn as_verify_expects(check: Check) -> Contest {
    Contest { band: check.peers[0].expected, ..Contest::new(check) }
}

/// The C programs of this bench, which give medians of short stretches.
struct InC<'a> {
    bench: &'a Bench,
}

impl InC<'_> {
    /// Compiled from `source`; its number stands before these words. A tool that is absent where there is
    /// no C compiler.
    fn peer(
        &self,
        name: &'static str,
        source: &'static str,
        arguments: &str,
        before: &'static str,
    ) -> Peer {
        let program = program::in_c(name, source).build(self.bench).unwrap_or_else(|why| {
            println!("{name} is left out: {why}");
            name.into()
        });
        let read = Reading::Before(before, 1.0);
        let tool = Tool { program, ..Tool::simple(name, Statistic::Median, arguments, read) };
        Peer::new(tool, COST.low, COST.high, "")
    }
}

/// Beside [`FILE_READS`]. For large blocks both sides use huge pages: a device needs the address of each contiguous
/// stretch of memory, and the placement of 4 KiB pages differs between processes. With 4 KiB pages, fio alone differs
/// twofold between starts.
const MORE_READS: [FileRead; 2] = [
    FileRead {
        axes: "cache=direct pattern=random block=4KiB engine=io_uring depth=1 size=64MiB",
        metric: "latency",
        fio: "--rw=randread --bs=4k --ioengine=io_uring --iodepth=1 --direct=1",
        expected: COST,
        differs: "",
    },
    FileRead {
        axes: "cache=direct pattern=sequential block=1MiB engine=pread depth=1 pages=2MiB size=64MiB",
        metric: "throughput",
        fio: "--rw=read --bs=1m --ioengine=psync --direct=1 --iomem=mmaphuge",
        expected: COST,
        differs: "",
    },
];

/// Where fio gets no huge pages, which an administrator has to reserve first, what is read into them is left out.
fn files(bench: &Bench) -> Result<Vec<Verdict>> {
    let huge_pages = huge_pages::Reserved::new();
    let may_read = |read: &&FileRead| huge_pages.is_ok() || !read.fio.contains("mmaphuge");
    let reads = FILE_READS.iter().chain(&MORE_READS).filter(may_read);
    let contests = reads.map(|read| {
        let check = checks::file_read(read, EFFORT);
        // Where the device decides.
        let rounds = if check.metric == "cost" { 15 } else { 31 };
        // A device that has just been written to answers unevenly for a while, as fio's seconds hardly
        // show and the few milliseconds of a quick launch would.
        Contest::new(check).rounds(rounds).full()
    });
    let mut verdicts = hold(bench, contests.collect())?;
    if let Err(error) = huge_pages {
        println!("{error}: what is read into them is left out");
        verdicts.push(Verdict::Undecided(error.to_string()));
    }
    Ok(verdicts)
}
