//! Which pairs the bench compares. Most are those of `costof verify` ([`checks`]); `contests.toml` has the bench's own,
//! some of which are with the C programs beside this file.

use crate::bench::Bench;
use crate::contest::{Contest, hold};
use crate::error::Result;
use crate::verdict::Verdict;
use crate::{copy, huge_pages, program};
use clap::Subcommand;
use costof_peers::agreement::Band;
use costof_peers::checks::{self, Check, Effort};

/// A device is faster in some seconds than in others, so fio reads about as long as costof.
const EFFORT: Effort = Effort { memory_mib: 512, seconds: 2, memrate_seconds: 4, fio_seconds: 4 };
/// The sources of this bench's C programs, which give medians of short stretches.
const IN_C: [(&str, &str); 3] = [
    ("chase.c", include_str!("chase.c")),
    ("thread.c", include_str!("thread.c")),
    ("mutex.c", include_str!("mutex.c")),
];

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

/// The check whose point begins like this: the bench's own, or that of `costof verify`.
pub(crate) fn check(point: &str, effort: Effort) -> Check {
    let own = checks::read(include_str!("contests.toml"), effort);
    let mut all = own.into_iter().chain(checks::checks(effort));
    all.find(|check| check.point().starts_with(point)).expect("the bench asks for what there is")
}

fn contests(bench: &Bench, pairs: Pairs) -> Result<Vec<Contest>> {
    let contests = |points: &[&str]| -> Vec<Contest> {
        let checks = points.iter().map(|point| compiled(check(point, EFFORT), bench));
        checks.map(Contest::new).collect()
    };
    let as_verify_expects = |points: &[&str]| -> Vec<Contest> {
        points.iter().map(|point| as_verify_expects(check(point, EFFORT))).collect()
    };
    let rounds = |contests: Vec<Contest>| contests.into_iter().map(|one| one.rounds(9)).collect();
    Ok(match pairs {
        Pairs::Syscall => contests(&["os.syscall"]),
        Pairs::Switch => {
            contests(&["os.context_switch between=processes", "os.context_switch between=threads"])
        }
        Pairs::Bandwidth => rounds(contests(&[
            "memory.bandwidth op=read",
            "memory.bandwidth op=write",
            "memory.bandwidth op=copy",
        ])),
        Pairs::Rtt => contests(&[
            "net.rtt over=tcp size=56 wait=spin",
            "net.rtt over=tcp size=56 wait=block",
            "net.rtt over=udp size=56 wait=spin",
            "net.rtt over=udp size=56 wait=block",
        ]),
        Pairs::Net => contests(&[
            "net.bandwidth over=tcp size=128KiB flows=1 congestion_control=cubic",
            "net.bandwidth over=tcp size=128KiB flows=1 congestion_control=bbr",
        ]),
        Pairs::Copy => copy::contests(EFFORT),
        Pairs::Chase => {
            let chase = contests(&["memory.latency size=536870912"]).into_iter();
            let chase = chase.map(|chase| Contest { band: Band::new(0.9, 1.1), ..chase });
            rounds(chase.collect())
        }
        Pairs::Process => contests(&["os.process how=fork", "os.process how=vfork"]),
        Pairs::Thread => contests(&["os.thread"]),
        Pairs::Mutex => contests(&["sync.mutex kind=pthread", "sync.mutex kind=std"]),
        Pairs::Connect => contests(&["net.connect cpus=cross wake=idle"]),
        Pairs::Small => contests(&[
            "memory.malloc size=64 allocator=libc burst=1 ",
            "memory.malloc size=64 allocator=libc burst=1000",
            "os.wait by=epoll descriptors=1 ",
            "os.wait by=epoll descriptors=1000",
            "os.io_uring operation=nop how=ring batch=1",
            "os.io_uring operation=nop how=ring batch=32",
            "copy.forward",
        ]),
        Pairs::Crypto => as_verify_expects(&[
            "cpu.transform by=sha256",
            "cpu.transform by=aes_128_gcm",
            "cpu.transform by=chacha20_poly1305",
            "cpu.tls",
        ]),
        Pairs::Sync => as_verify_expects(&[
            "file.sync call=fdatasync where=overwrite block=8KiB writers=1",
            "file.sync call=fdatasync where=overwrite block=8KiB writers=4",
        ]),
        Pairs::Files => Vec::new(),
    })
}

/// Other code for the same, which need not be as fast.
fn as_verify_expects(check: Check) -> Contest {
    Contest { band: check.peers[0].expected, ..Contest::new(check) }
}

/// The check with its C programs compiled. Where there is no C compiler, they are absent.
fn compiled(mut check: Check, bench: &Bench) -> Check {
    for peer in &mut check.peers {
        if let Some((name, source)) = IN_C.iter().find(|(name, _)| *name == peer.tool) {
            match program::in_c(name, source).build(bench) {
                Ok(program) => peer.program = Some(program),
                Err(why) => println!("{name} is left out: {why}"),
            }
        }
    }
    check
}

/// Reads that are compared with fio's. Where fio gets no huge pages, which an administrator has to reserve first, what
/// is read into them is left out.
fn files(bench: &Bench) -> Result<Vec<Verdict>> {
    let huge_pages = huge_pages::Reserved::new();
    let reads = [
        "file.read cache=warm",
        "file.read cache=direct pattern=random block=4KiB engine=pread",
        "file.read cache=direct pattern=random block=4KiB engine=io_uring",
        "file.read cache=direct pattern=sequential",
    ];
    let checks = reads.into_iter().map(|point| check(point, EFFORT));
    let checks = checks.filter(|check| huge_pages.is_ok() || !check.axes.contains("pages=2MiB"));
    let contests = checks.map(|check| {
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
