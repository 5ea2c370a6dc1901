//! The metrics of `copy.send`.

use crate::prelude::*;

pub(super) const METRICS: &[Metric] = metrics! {
    /// payload that arrived, by the receiver's clock, all threads together; on the link sink
    /// payload that was sent, by the sender's clock
    throughput: BytesPerSecond Higher,
    /// messages per second
    rate: Hertz Higher,
    /// the time for 1 KiB, in each of up to 24 windows of equally many KiB
    cost: Nanoseconds Lower,
    /// echo: from just before a message is sent until its whole answer has arrived, by the sender's
    /// clock; trigger: from just before the request is sent until the last message has arrived, by
    /// the receiver's
    latency: Nanoseconds Lower,
    /// CPU time of the sending threads per KiB
    cpu_sender: Nanoseconds Lower,
    /// CPU time of the receiving threads per KiB
    cpu_receiver: Nanoseconds Lower,
    /// CPU time in soft interrupts per KiB, on both ends' CPUs, by the kernel's ticks; includes the
    /// soft interrupts of other processes on these CPUs
    softirq: Nanoseconds Lower,
    /// the possible error of softirq: a tick of /proc/stat on each of these CPUs
    softirq_error: Nanoseconds Lower,
    /// cycles of the sending threads per byte: core cycles where cycles_by_pmu is 1, otherwise
    /// reference cycles of the invariant TSC
    cycles_per_byte: Cycles Lower,
    /// 1 where the CPU's counters count the cycles, in user space and in the kernel, otherwise 0
    /// (costof doctor says why)
    cycles_by_pmu: One Neither,
    /// loads of the sending threads per message that missed the L1 data cache, where the CPU counts
    /// them
    l1d_load_misses: One Lower,
    /// loads of the sending threads per message that missed the L2 cache
    l2_load_misses: One Lower,
    /// loads of the sending threads per message that missed the last-level cache
    llc_load_misses: One Lower,
    /// loads of the sending threads per message that missed the data TLB
    dtlb_load_misses: One Lower,
    /// share of the time for which the sending threads ran: 1 where their CPUs are the bottleneck
    sender_running: One Neither,
    /// the same for the receiving threads
    receiver_running: One Neither,
    /// system calls of the sender per message, including those for completions, and those that receive
    /// answers and requests or wait for them
    system_calls: One Lower,
    /// context switches of the sending threads per message
    context_switches: One Lower,
    /// migrations of the sending threads to another CPU, in all
    migrations: One Lower,
    /// sends that asked for no copy, each completed by the kernel
    asked: One Neither,
    /// share of these that the kernel copied anyway
    copied: One Lower,
    /// share of the messages that were copied because the limit on zero-copy sends was reached
    /// (ENOBUFS)
    fallbacks: One Lower,
    /// from just before a single message is sent until its bytes may be changed: until they are
    /// copied, or the completion has arrived
    reusable: Nanoseconds Lower,
    /// additional time to read an array of three quarters of the L1 data cache, line after line,
    /// after sending messages of 1 MiB together (16 messages at most)
    pollution_l1: Nanoseconds Lower,
    /// the same for the L2 cache
    pollution_l2: Nanoseconds Lower,
    /// the same for the L3 cache, from 2 MiB of its lines; absent where the CPU reports more than
    /// it holds, as on a virtual machine that shares it
    pollution_l3: Nanoseconds Lower,
    /// datagrams that did not arrive, as a share of those sent; a udp_gso message is several
    /// datagrams
    lost: One Lower,
    /// the lost datagrams for which the receiver's socket had no room, as a share of those sent
    lost_in_queue: One Lower,
    /// their number in a launch
    dropped_in_queue: One Lower,
    /// echo over UDP: messages that were not answered, as a share of those sent; latencies of a
    /// window with such a message are discarded
    unanswered: One Lower,
    /// payload that TCP retransmitted, as a share of all that it sent
    retransmissions: One Lower,
};
