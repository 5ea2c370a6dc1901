//! What `copy.send` says of itself.

use crate::arenas::PAGES;
use crate::literal::{cost, latency, list, metric, text, word, words};
use crate::net::congestion_control::CONGESTION_CONTROL;
use costof_model::axis::{Axis, Domain};
use costof_model::metric::MetricInfo;
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::{Better, Unit};
use costof_os::delivery::MESSAGE_LEAST_BYTES;

/// The sizes, the default first.
pub(super) const SIZES: &[u64] = &[
    32 << 10,
    64,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    128 << 10,
    1 << 20,
    16 << 20,
];

/// The ways of sending that the study compares.
pub(super) const STUDY: [&str; 3] = ["two_copy", "one_copy", "zero_copy"];

const fn number(
    name: &'static str,
    about: &'static str,
    unit: Unit,
    (low, high): (u64, u64),
    usual: &'static [u64],
) -> Axis {
    Axis {
        name: text(name),
        about: text(about),
        domain: Domain::Number {
            unit,
            low,
            high,
            usual: costof_model::List::Borrowed(usual),
        },
    }
}

const fn ns(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

const fn one(name: &'static str, better: Better, about: &'static str) -> MetricInfo {
    metric(name, Unit::One, better, about)
}

pub(super) const INFO: ProbeInfo = ProbeInfo {
    id: text("copy.send"),
    method: 1,
    question: text("Which way of sending a message of several fields pays here?"),
    axes: list![
        words(
            "primitive",
            "how a message goes into the socket",
            list![
                word(
                    "two_copy",
                    "its fields are copied one behind the other into a buffer, which send(2) copies"
                ),
                word("one_copy", "sendmsg(2), with an iovec entry for each field"),
                word(
                    "zero_copy",
                    "sendmsg(2) with MSG_ZEROCOPY, an entry for each field; completions are reaped after every 32 sends, none is waited for"
                ),
                word(
                    "write_each",
                    "send(2) for each field; over UDP with MSG_MORE, so that a message is a datagram"
                ),
                word(
                    "uring_send",
                    "io_uring: a SENDMSG for all fields, or a linked WRITE_FIXED for each where buffers are registered; one io_uring_enter(2) submits and waits"
                ),
                word(
                    "uring_zero_copy",
                    "io_uring: a SENDMSG_ZC for all fields, a SEND_ZC for a single one, or a linked SEND_ZC for each where buffers are registered"
                ),
                word(
                    "sendfile_memory",
                    "sendfile(2) from a memfd, in which the fields lie one behind the other; putting them there is not measured"
                ),
                word(
                    "sendfile_file",
                    "the same from a file on a disk, which is in the page cache"
                ),
                word(
                    "splice",
                    "vmsplice(2) of all fields into a pipe, and splice(2) from there into the socket; nothing says when they may be changed"
                ),
            ],
        ),
        number(
            "size",
            "bytes of a message; a datagram has 65507 at most",
            Unit::Bytes,
            (MESSAGE_LEAST_BYTES as u64, 16 << 20),
            SIZES,
        ),
        words(
            "pattern",
            "what goes the other way",
            list![
                word(
                    "stream",
                    "nothing: messages go as fast as the socket takes them"
                ),
                word(
                    "echo",
                    "a message of the same size for each, sent in the same way and by the same congestion control; over UDP in windows: all in_flight are sent, and what is not answered within 50 ms and four round trips is lost"
                ),
                word(
                    "trigger",
                    "the receiver asks with 64 B for in_flight messages, and for the next ones when these have come whole; its throughput has the requests' time in it, and nears that of a stream the more it asks for"
                ),
            ],
        ),
        number(
            "in_flight",
            "echo: how many messages may be unanswered at a time; trigger: how many are asked for at once",
            Unit::One,
            (1, 1024),
            &[1],
        ),
        number(
            "threads",
            "how many connections, each with a thread at both ends",
            Unit::One,
            (1, 64),
            &[1, 2, 4, 8],
        ),
        words(
            "source",
            "where the messages are before",
            list![
                word(
                    "hot",
                    "one message that is sent over and over, in the caches if it fits there"
                ),
                word(
                    "cold",
                    "each time another message of a working set, when all others have been sent since; neither its fields nor those of neighbours lie side by side"
                ),
            ],
        ),
        PAGES,
        words(
            "over",
            "what carries them",
            list![
                word("tcp", "TCP"),
                word("udp", "UDP, a datagram for each message, whatever is lost"),
                word(
                    "udp_gso",
                    "UDP, a message at once as datagrams of 1452 B, which packets of 1500 B carry by IPv4 and IPv6, cut up by the kernel or a device (UDP_SEGMENT), and taken in several at a time (UDP_GRO)"
                ),
                word("unix", "Unix stream sockets; both ends on this machine"),
            ],
        ),
        CONGESTION_CONTROL,
        words(
            "nagle",
            "whether TCP holds back what does not fill a packet (RFC 896)",
            list![
                word(
                    "off",
                    "TCP_NODELAY: the end of a message leaves at once, in a packet of its own"
                ),
                word(
                    "on",
                    "as a socket is that nobody asked: it waits for the beginning of the next message, or for an acknowledgement"
                ),
            ],
        ),
        number(
            "fields",
            "separately allocated fields of a message: equal shares, the rest in the last",
            Unit::One,
            (1, MESSAGE_LEAST_BYTES as u64),
            &[8, 1],
        ),
        words(
            "allocate",
            "when two_copy's buffer is allocated",
            list![
                word("once", "before all messages"),
                word("per_message", "for each message, and given back"),
            ],
        ),
        words(
            "buffers",
            "what io_uring knows of the messages before",
            list![
                word("plain", "nothing"),
                word(
                    "registered",
                    "where they are: their pages are pinned once (IORING_REGISTER_BUFFERS)"
                ),
            ],
        ),
        number(
            "working_set",
            "from how much memory cold messages come, all threads together",
            Unit::Bytes,
            (1 << 20, 1 << 40),
            &[128 << 20],
        ),
    ],
    crossings: list![],
    metrics: list![
        metric(
            "throughput",
            Unit::BytesPerSecond,
            Better::Higher,
            "payload that arrived, by the receiver's clock, all threads together; on the link sink what left, by the sender's",
        ),
        metric("rate", Unit::Hertz, Better::Higher, "messages a second"),
        cost("1 KiB of it, in each of up to 24 windows of equally many KiB"),
        latency(
            "echo: from before a message is sent until its answer is there whole, by the sender's clock; trigger: from before the request is sent until the last of the messages is there whole, by the receiver's"
        ),
        ns(
            "cpu_sender",
            "processor time of the sending threads for 1 KiB"
        ),
        ns(
            "cpu_receiver",
            "processor time of the receiving threads for 1 KiB"
        ),
        ns(
            "softirq",
            "of both ends' processors in soft interrupts for 1 KiB, by the kernel's ticks; on these processors others' count too",
        ),
        ns(
            "softirq_error",
            "how far off that may be: a tick of /proc/stat on each of these processors",
        ),
        metric(
            "cycles_per_byte",
            Unit::Cycles,
            Better::Lower,
            "that the sending threads had for a byte: core cycles where cycles_by_pmu is 1, else reference cycles, those of the invariant TSC",
        ),
        one(
            "cycles_by_pmu",
            Better::Neither,
            "1 where the processor's counters tell the cycles, their own and the kernel's half, else 0 (costof doctor says why)"
        ),
        one(
            "l1d_load_misses",
            Better::Lower,
            "loads of the sending threads for a message that missed the first-level data cache, where the processor counts them"
        ),
        one(
            "l2_load_misses",
            Better::Lower,
            "loads of the sending threads for a message that missed the second-level cache"
        ),
        one(
            "llc_load_misses",
            Better::Lower,
            "loads of the sending threads for a message that missed the last-level cache"
        ),
        one(
            "dtlb_load_misses",
            Better::Lower,
            "loads of the sending threads for a message that missed the data TLB"
        ),
        one(
            "sender_running",
            Better::Neither,
            "share of the time for which the sending threads ran: 1 where their processors are what limits"
        ),
        one(
            "receiver_running",
            Better::Neither,
            "the same of the receiving threads"
        ),
        one(
            "system_calls",
            Better::Lower,
            "that the sender made for a message, completions among them"
        ),
        one(
            "context_switches",
            Better::Lower,
            "of the sending threads for a message"
        ),
        one(
            "migrations",
            Better::Lower,
            "how often the sending threads came to another processor, in all"
        ),
        one(
            "asked",
            Better::Neither,
            "sends that asked for no copy, each of which the kernel has completed"
        ),
        one(
            "copied",
            Better::Lower,
            "share of these that the kernel has copied after all"
        ),
        one(
            "fallbacks",
            Better::Lower,
            "share of the messages that were copied as there was no room for one more send without (ENOBUFS)"
        ),
        ns(
            "reusable",
            "from before a single message is sent until its bytes could be changed: until they are copied, or the completion has come"
        ),
        ns(
            "pollution_l1",
            "how much longer it takes to read an array of three quarters of the L1 data cache after so many messages as make 1 MiB, 16 at most, than before"
        ),
        ns("pollution_l2", "the same of the L2 cache"),
        ns(
            "pollution_l3",
            "the same of the L3 cache, as far as it is this processor's, told by 4 MiB of its lines"
        ),
        one(
            "lost",
            Better::Lower,
            "datagrams that did not arrive, as a share of those sent; of udp_gso a message is several"
        ),
        one(
            "lost_in_queue",
            Better::Lower,
            "of which the receiver's socket had no room for, as a share of those sent"
        ),
        one(
            "unanswered",
            Better::Lower,
            "echo over UDP: messages whose answers never came, as a share of those sent; of a window with such ones the latencies are left out"
        ),
        one(
            "retransmissions",
            Better::Lower,
            "payload that TCP sent again, as a share of all that it sent"
        ),
    ],
    how: text(
        "One end connects and sends messages of several fields, each field at a place of its own and \
         the list of places made beforehand; the other reads up to 128 KiB at once. Fields begin at \
         a cache line and not at a page, as an allocator has them, so that on small pages a message \
         has more pieces than pages. Thread by thread \
         they run on every second of the run's processors, so that the ends share none where there \
         are enough. Each end notes every quarter of a millisecond how far it is and its threads' \
         processor time (CLOCK_THREAD_CPUTIME_ID); the first third is left out. With --full a stream to a \
         receiver goes on for six times as long as the precision asks for, 0.3 s a round and not 0.05: \
         the first tenths of a second of a connection may be slower than what follows, and count for \
         most of a shorter stream. Into a sink, where nothing receives, it does not. Ways of sending the \
         same message take turns in one launch, in random order, twice, and once in a quick run. Every message holds other \
         bytes, which follow from its number; whoever receives messages or answers compares a word of \
         each piece, and the whole last piece. An echo of several messages that are more than 64 KiB, with \
         1 KiB for each besides, would have both ends wait for each other: there the sender's socket does \
         not block, and where it takes nothing it reads answers and waits by poll(2). Completions of \
         MSG_ZEROCOPY and IORING_OP_SEND_ZC say whether the kernel \
         copied after all, and processor time says what that took. On the link sink the sender's half \
         alone is there: what leaves is dropped, and a thread on another processor acknowledges it. \
         A congestion control that paces, as BBR does, is there most of what sending takes, so that \
         congestion_control=reno, which every kernel and user has, tells more; it is chosen before the \
         connection begins, since one that BBR has begun stays paced. \
         When a message's bytes could be changed is seen at nine single messages beforehand, three where they are larger than 1 MiB, and what \
         sending threw out of the sender's caches at arrays that had filled them; a first connection has \
         these before its stream, and they count for no other metric.",
    ),
    sources: list![
        text(
            "Network I/O primitives, three course reports, 2026: a message of 8 fields, sent with two copies, one and none"
        ),
        text(
            "Linux Documentation/networking/msg_zerocopy.rst; W. de Bruijn, E. Dumazet, sendmsg copy avoidance with MSG_ZEROCOPY, Netdev 2.1, 2017"
        ),
        text("send(2), sendmsg(2), sendfile(2), vmsplice(2), splice(2), io_uring_enter(2); udp(7)"),
    ],
    predicted_from: text(
        "each end's copies as cpu.memcpy and memory.bandwidth measured them, its parts as copy.parts and os.pin, calls as os.syscall, and its share of a packet as net.rtt; BBR's pacing as os.timer; the slower end decides, or both where they share a processor. An echo: net.rtt's round trip and the parts",
    ),
    after: list![
        text("os.syscall"),
        text("memory.bandwidth"),
        text("cpu.memcpy"),
        text("copy.parts"),
        text("os.pin"),
        text("os.timer"),
        text("net.rtt"),
    ],
    needs: list![
        text("primitive=zero_copy: Linux 4.14, for UDP 5.0"),
        text("over=udp_gso: Linux 5.0, and packets of 1500 B or more on the way"),
        text("primitive=uring_send, uring_zero_copy: io_uring, Linux 5.3 and 6.2"),
        text("over=unix: both ends in one network namespace (--link loopback)"),
        text("pages=2MiB: transparent huge pages"),
    ],
    roles: list![text("receiver"), text("sender")],
};
