//! What `copy.send` says of itself.

use crate::prelude::*;

const fn ns(name: &'static str, about: &'static str) -> Metric {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

const fn one(name: &'static str, better: Better, about: &'static str) -> Metric {
    metric(name, Unit::One, better, about)
}

pub(super) const METRICS: &[Metric] = &[
    metric(
        "throughput",
        Unit::BytesPerSecond,
        Better::Higher,
        "payload that arrived, by the receiver's clock, all threads together; on the link sink what left, by the sender's",
    ),
    metric("rate", Unit::Hertz, Better::Higher, "messages a second"),
    cost("1 KiB of it, in each of up to 24 windows of equally many KiB"),
    latency(
        "echo: from before a message is sent until its answer is there whole, by the sender's clock; trigger: from before the request is sent until the last of the messages is there whole, by the receiver's",
    ),
    ns(
        "cpu_sender",
        "processor time of the sending threads for 1 KiB",
    ),
    ns(
        "cpu_receiver",
        "processor time of the receiving threads for 1 KiB",
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
        "1 where the processor's counters tell the cycles, their own and the kernel's half, else 0 (costof doctor says why)",
    ),
    one(
        "l1d_load_misses",
        Better::Lower,
        "loads of the sending threads for a message that missed the first-level data cache, where the processor counts them",
    ),
    one(
        "l2_load_misses",
        Better::Lower,
        "loads of the sending threads for a message that missed the second-level cache",
    ),
    one(
        "llc_load_misses",
        Better::Lower,
        "loads of the sending threads for a message that missed the last-level cache",
    ),
    one(
        "dtlb_load_misses",
        Better::Lower,
        "loads of the sending threads for a message that missed the data TLB",
    ),
    one(
        "sender_running",
        Better::Neither,
        "share of the time for which the sending threads ran: 1 where their processors are what limits",
    ),
    one(
        "receiver_running",
        Better::Neither,
        "the same of the receiving threads",
    ),
    one(
        "system_calls",
        Better::Lower,
        "that the sender made for a message, completions among them",
    ),
    one(
        "context_switches",
        Better::Lower,
        "of the sending threads for a message",
    ),
    one(
        "migrations",
        Better::Lower,
        "how often the sending threads came to another processor, in all",
    ),
    one(
        "asked",
        Better::Neither,
        "sends that asked for no copy, each of which the kernel has completed",
    ),
    one(
        "copied",
        Better::Lower,
        "share of these that the kernel has copied after all",
    ),
    one(
        "fallbacks",
        Better::Lower,
        "share of the messages that were copied as there was no room for one more send without (ENOBUFS)",
    ),
    ns(
        "reusable",
        "from before a single message is sent until its bytes could be changed: until they are copied, or the completion has come",
    ),
    ns(
        "pollution_l1",
        "how much longer it takes to read an array of three quarters of the L1 data cache after so many messages as make 1 MiB, 16 at most, than before",
    ),
    ns("pollution_l2", "the same of the L2 cache"),
    ns(
        "pollution_l3",
        "the same of the L3 cache, as far as it is this processor's, told by 4 MiB of its lines",
    ),
    one(
        "lost",
        Better::Lower,
        "datagrams that did not arrive, as a share of those sent; of udp_gso a message is several",
    ),
    one(
        "lost_in_queue",
        Better::Lower,
        "of which the receiver's socket had no room for, as a share of those sent",
    ),
    one(
        "unanswered",
        Better::Lower,
        "echo over UDP: messages whose answers never came, as a share of those sent; of a window with such ones the latencies are left out",
    ),
    one(
        "retransmissions",
        Better::Lower,
        "payload that TCP sent again, as a share of all that it sent",
    ),
];

pub(super) const HOW: &str = "One end connects and sends messages of several fields, each field at a place of its own and \
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
 these before its stream, and they count for no other metric.";
