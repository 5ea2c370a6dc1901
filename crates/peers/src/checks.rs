//! What of costof is held against which tools: data, with the reason why each may differ, since no two
//! programs measure quite the same.

use crate::agreement::Band;
use crate::caches::BeyondCaches;
use crate::tool::Tool;
use crate::tools::fio::{self, Wanted};
use crate::tools::{iperf3, lmbench, mbw, perf, ping, sockperf, stress_ng, sysbench};

/// One point of costof, and the tools that measure the same.
pub struct Check {
    /// The probe.
    pub probe: &'static str,
    /// Values for its axes, as `axis=value` with blanks between; all others are the probe's own.
    pub axes: String,
    /// The metric.
    pub metric: &'static str,
    /// On how many processors both sides run, the measured one first.
    pub processors: usize,
    /// The processors are kept from sleeping meanwhile, for either side: waking one that sleeps may
    /// take longer than all the rest, and differs more.
    pub awake: bool,
    /// Why it cannot be made on this machine; none where it can.
    pub lacks: Option<String>,
    /// The tools.
    pub beside: Vec<Beside>,
}

/// A tool that a point is held against.
pub struct Beside {
    /// The tool.
    pub tool: Tool<'static>,
    /// Where costof's number over the tool's is expected, for the reason that is known.
    pub expected: Band,
    /// How the definitions differ, and what that does.
    pub differs: &'static str,
}

/// More memory than the caches hold, at least.
const LEAST_MIB: u64 = 128;
/// For how long each tool that has to be told works, in seconds.
const SECONDS: u32 = 1;
/// stress-ng goes through a dozen widths in that time, each a few times.
const STRESS_NG_SECONDS: u32 = 2;
const COPIES: u32 = 20;
const ROUND_TRIPS: u32 = 200_000;
const MESSAGE_BYTES: u32 = 56;
const PINGS: u32 = 300;
const FILE_BYTES: u64 = 64 << 20;

/// All of them, in the order in which they are made.
pub fn checks() -> Vec<Check> {
    let BeyondCaches { mib, lacks } = BeyondCaches::at_least(LEAST_MIB);
    let in_memory = |check: Check| Check {
        lacks: lacks.clone(),
        ..check
    };
    vec![
        one(
            "os.syscall",
            "call=getppid",
            "cost",
            vec![
                Beside {
                    tool: perf::syscall(),
                    expected: Band::new(0.93, 1.07),
                    differs: "the same call through the same C library; perf divides one long time \
                              by 10 million calls",
                },
                Beside {
                    tool: lmbench::syscall(),
                    expected: Band::new(0.9, 1.1),
                    differs: "the same call through the same C library",
                },
            ],
        ),
        one(
            "os.context_switch",
            "between=processes over=pipe cpus=same wake=awake",
            "cost",
            vec![
                Beside {
                    tool: perf::sched_pipe(false, ROUND_TRIPS),
                    expected: Band::new(0.9, 1.1),
                    differs: "perf's token is four bytes, costof's one; half of a round trip each",
                },
                Beside {
                    tool: lmbench::pipe(),
                    expected: Band::new(0.85, 1.15),
                    differs: "half of lat_pipe's round trip of one byte",
                },
            ],
        ),
        one(
            "os.context_switch",
            "between=threads over=pipe cpus=same wake=awake",
            "cost",
            vec![Beside {
                tool: perf::sched_pipe(true, ROUND_TRIPS),
                expected: Band::new(0.9, 1.1),
                differs: "perf's token is four bytes, costof's one; half of a round trip each",
            }],
        ),
        one(
            "os.process",
            "how=vfork exec=no resident=0",
            "latency",
            vec![Beside {
                tool: stress_ng::vfork(SECONDS),
                expected: Band::new(0.6, 1.05),
                differs: "stress-ng counts a loop that also looks at its clock and at whether its \
                          time is over; costof stamps each vfork and wait by itself",
            }],
        ),
        in_memory(one(
            "memory.latency",
            &format!("size={mib}MiB pages=4KiB pattern=random stride=64"),
            "cost",
            vec![Beside {
                tool: lmbench::memory_latency(mib),
                expected: Band::new(0.75, 1.25),
                differs: "lat_mem_rd goes to another page with each load, always in the same random \
                          order of pages, so that it has a TLB miss each time and page tables stay \
                          in caches; where huge pages are given unasked \
                          (transparent_hugepage=always) its memory may lie on them",
            }],
        )),
        in_memory(bandwidth(
            "read",
            mib,
            vec![
                Beside {
                    tool: sysbench::memory("read", mib, SECONDS),
                    expected: Band::new(0.9, 1.4),
                    differs: "sysbench reads words of 8 bytes in one loop, costof takes the fastest \
                              of its loops, with vectors where there are some",
                },
                Beside {
                    tool: stress_ng::reads(mib, STRESS_NG_SECONDS),
                    expected: Band::new(0.85, 1.25),
                    differs: "the best of the widths that stress-ng reads in, by the compiler's \
                              loops",
                },
            ],
        )),
        in_memory(bandwidth(
            "write",
            mib,
            vec![
                Beside {
                    tool: sysbench::memory("write", mib, SECONDS),
                    expected: Band::new(0.9, 1.4),
                    differs: "sysbench writes words of 8 bytes in one loop, costof takes the fastest \
                              of its loops, with vectors where there are some",
                },
                Beside {
                    tool: stress_ng::writes(mib, STRESS_NG_SECONDS),
                    expected: Band::new(0.85, 1.25),
                    differs: "the best of the widths that stress-ng writes in through the caches, by \
                              the compiler's loops",
                },
            ],
        )),
        in_memory(bandwidth(
            "copy",
            mib,
            vec![Beside {
                tool: mbw::copy(mib, COPIES),
                expected: Band::new(0.9, 1.9),
                differs: "mbw copies by the C library's memcpy, costof by the fastest of its loops, \
                          which may write past the caches where memcpy does not, or does so later; \
                          mbw's number is the median of 20 copies, each long enough to hold \
                          interruptions, which is held against costof's mean",
            }],
        )),
        file(
            "cache=warm pattern=random block=4KiB engine=pread depth=1 size=64MiB",
            "cost",
            "--rw=randread --bs=4k --ioengine=psync --direct=0 --invalidate=0",
            Band::new(0.4, 1.0),
            "fio stamps each read twice, draws its place and keeps books of it in between, which the \
             caches feel; costof divides a batch of reads by their number",
        ),
        file(
            "cache=direct pattern=random block=4KiB engine=pread depth=1 size=64MiB",
            "latency",
            "--rw=randread --bs=4k --ioengine=psync --direct=1",
            Band::new(0.8, 1.2),
            "the same reads of a file of the same length in the same folder, stamped one by one; a \
             device's own cache and queues may be in different moods",
        ),
        round_trips("tcp", false),
        round_trips("udp", true),
        Check {
            awake: true,
            processors: 2,
            ..one(
                "net.ping",
                &format!("size={MESSAGE_BYTES} wait=block"),
                "latency",
                vec![Beside {
                    tool: ping::loopback(MESSAGE_BYTES, PINGS),
                    expected: Band::new(0.2, 1.0),
                    differs: "ping pauses 2 ms between requests, in which caches forget, and prints \
                              whole microseconds of so short a time; costof sends the next request \
                              at once",
                }],
            )
        },
        Check {
            processors: 2,
            ..one(
                "net.bandwidth",
                "over=tcp size=128KiB flows=1 congestion_control=cubic",
                "throughput",
                vec![Beside {
                    tool: iperf3::tcp("cubic", SECONDS),
                    expected: Band::new(0.85, 1.15),
                    differs: "both write 128 KiB at a time to one connection and count what arrived; \
                              iperf3 leaves out its first second, costof's quick launch the first \
                              third of 50 ms, in which a connection may still be slower",
                }],
            )
        },
    ]
}

/// On one processor.
fn one(probe: &'static str, axes: &str, metric: &'static str, beside: Vec<Beside>) -> Check {
    Check {
        probe,
        axes: axes.to_owned(),
        metric,
        processors: 1,
        awake: false,
        lacks: None,
        beside,
    }
}

fn bandwidth(operation: &str, mib: u64, beside: Vec<Beside>) -> Check {
    let axes = format!("op={operation} size={mib}MiB threads=1 pages=4KiB kernel=best");
    one("memory.bandwidth", &axes, "throughput", beside)
}

fn file(
    axes: &str,
    metric: &'static str,
    options: &'static str,
    expected: Band,
    differs: &'static str,
) -> Check {
    let tool = fio::read(fio::Read {
        options,
        bytes: FILE_BYTES,
        seconds: SECONDS,
        wanted: Wanted::Latency,
    });
    let beside = Beside {
        tool,
        expected,
        differs,
    };
    one("file.read", axes, metric, vec![beside])
}

fn round_trips(over: &str, spins: bool) -> Check {
    let wait = if spins { "spin" } else { "block" };
    let beside = Beside {
        tool: sockperf::ping_pong(over, spins, MESSAGE_BYTES, SECONDS),
        expected: Band::new(0.85, 1.1),
        differs: "whole round trips of both; sockperf stamps each of them and keeps books of it in \
                  between",
    };
    Check {
        awake: !spins,
        processors: 2,
        ..one(
            "net.rtt",
            &format!("over={over} size={MESSAGE_BYTES} wait={wait} cpus=cross wake=awake"),
            "latency",
            vec![beside],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_what_is_expected_and_why() {
        for check in checks() {
            assert!(!check.beside.is_empty(), "{}", check.probe);
            for Beside {
                tool,
                expected,
                differs,
            } in &check.beside
            {
                assert!(expected.low < expected.high && expected.low > 0.0);
                assert!(differs.len() > 30, "{}: {differs}", tool.name);
                let needs_two = tool.server.is_some();
                assert!(!needs_two || check.processors == 2, "{}", tool.name);
            }
        }
    }
}
