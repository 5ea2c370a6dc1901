//! The metrics of `copy.send`.

use crate::prelude::*;

pub(super) const METRICS: &[Metric] = metrics! {
    /// payload that arrived, by the receiver's clock, all threads together; on the link sink what
    /// left, by the sender's
    throughput: BytesPerSecond Higher,
    /// messages a second
    rate: Hertz Higher,
    /// 1 KiB of it, in each of up to 24 windows of equally many KiB
    cost: Nanoseconds Lower,
    /// echo: from before a message is sent until its answer is there whole, by the sender's clock;
    /// trigger: from before the request is sent until the last of the messages is there whole, by
    /// the receiver's
    latency: Nanoseconds Lower,
    /// CPU time of the sending threads for 1 KiB
    cpu_sender: Nanoseconds Lower,
    /// CPU time of the receiving threads for 1 KiB
    cpu_receiver: Nanoseconds Lower,
    /// of both ends' CPUs in soft interrupts for 1 KiB, by the kernel's ticks; on these
    /// CPUs others' count too
    softirq: Nanoseconds Lower,
    /// how far off that may be: a tick of /proc/stat on each of these CPUs
    softirq_error: Nanoseconds Lower,
    /// that the sending threads had for a byte: core cycles where cycles_by_pmu is 1, else
    /// reference cycles, those of the invariant TSC
    cycles_per_byte: Cycles Lower,
    /// 1 where the CPU's counters count the cycles, in user space and in the kernel, else 0
    /// (costof doctor says why)
    cycles_by_pmu: One Neither,
    /// loads of the sending threads for a message that missed the first-level data cache, where the
    /// CPU counts them
    l1d_load_misses: One Lower,
    /// loads of the sending threads for a message that missed the second-level cache
    l2_load_misses: One Lower,
    /// loads of the sending threads for a message that missed the last-level cache
    llc_load_misses: One Lower,
    /// loads of the sending threads for a message that missed the data TLB
    dtlb_load_misses: One Lower,
    /// share of the time for which the sending threads ran: 1 where their CPUs are what
    /// limits
    sender_running: One Neither,
    /// the same of the receiving threads
    receiver_running: One Neither,
    /// that the sender made for a message, completions among them
    system_calls: One Lower,
    /// of the sending threads for a message
    context_switches: One Lower,
    /// how often the sending threads came to another CPU, in all
    migrations: One Lower,
    /// sends that asked for no copy, each of which the kernel has completed
    asked: One Neither,
    /// share of these that the kernel has copied after all
    copied: One Lower,
    /// share of the messages that were copied as there was no room for one more send without
    /// (ENOBUFS)
    fallbacks: One Lower,
    /// from before a single message is sent until its bytes could be changed: until they are
    /// copied, or the completion has come
    reusable: Nanoseconds Lower,
    /// how much longer it takes to read an array of three quarters of the L1 data cache, line after
    /// line, after so many messages as make 1 MiB, 16 at most, than after none
    pollution_l1: Nanoseconds Lower,
    /// the same of the L2 cache
    pollution_l2: Nanoseconds Lower,
    /// the same of the L3 cache, from 2 MiB of its lines; absent where the CPU claims more than it
    /// holds, as where a virtual machine shares it
    pollution_l3: Nanoseconds Lower,
    /// datagrams that did not arrive, as a share of those sent; of udp_gso a message is several
    lost: One Lower,
    /// of which the receiver's socket had no room for, as a share of those sent
    lost_in_queue: One Lower,
    /// how many those are in a launch
    dropped_in_queue: One Lower,
    /// echo over UDP: messages whose answers never came, as a share of those sent; of a window with
    /// such ones the latencies are left out
    unanswered: One Lower,
    /// payload that TCP sent again, as a share of all that it sent
    retransmissions: One Lower,
};
