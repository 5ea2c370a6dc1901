//! Finds what will make numbers on this machine worse or missing, and what to do about it.
//!
//! Diagnoses come from facts and from trials that others made; this module looks nothing up by itself. It
//! calls nothing healthy or unhealthy unless a fact or a trial shows it. The limits are chosen so that an
//! ordinary quiet machine passes.
//!
//! Each check is a function in the file of its subject, with its place in the list of topics below.

mod clock;
mod counters;
mod frequency;
mod limits;
mod memory;
mod neighbours;
mod network;
mod permissions;
mod processor;
mod verdict;

#[cfg(test)]
mod tests;

pub use costof_model::facts::{Diagnosis, DiagnosisState};
use costof_model::{Facts, Probed};
use verdict::Verdict;

/// Checks one topic; no verdict if this kind of machine does not have it.
type Check = fn(&Facts, &Probed) -> Option<Verdict>;

/// A topic: who checks it, and what follows if all is good, and if it is not.
struct Topic {
    name: &'static str,
    check: Check,
    good: &'static str,
    effect: &'static str,
}

macro_rules! topics {
    ($($name:literal by $check:path; $(good: $good:literal;)? effect: $effect:literal;)+) => {
        &[$(Topic {
            name: $name,
            check: $check,
            good: concat!($($good)?),
            effect: $effect,
        },)+]
    };
}

/// In the order in which they are shown: first what affects all numbers, last what affects only some. Where a topic
/// was not checked, its effect follows "at worst, ".
const TOPICS: &[Topic] = topics! {
    "clock source" by clock::clock_source;
        good: "programs read the time in user space, in tens of nanoseconds";
        effect: "each clock reading takes microseconds";
    "load" by neighbours::load;
        good: "other programs disturb measurements little";
        effect: "other programs take CPU time, caches and memory bandwidth from what is measured";
    "steal" by neighbours::steal;
        good: "no time is missing";
        effect: "the hypervisor stops this machine for milliseconds at a time: tails and maxima come from the \
                 neighbours, and medians differ between runs";
    "core" by neighbours::core;
        good: "nothing else uses its execution slots";
        effect: "another thread on the core takes execution slots but no CPU time: operations take up to twice as \
                 long meanwhile, and neither load nor steal shows it";
    "CPU limits" by limits::cpu_limits;
        good: "no quota interrupts a measurement";
        effect: "a quota lowers rates and lengthens tails";
    "processors" by limits::processors;
        good: "points that need two CPUs can be measured";
        effect: "points that need a second CPU cannot be measured, and costof's own work disturbs what it measures";
    "hypervisor" by neighbours::hypervisor;
        good: "the costs are those of the hardware";
        effect: "page faults, timers, wake-ups and I/O cost more than on bare metal, and other virtual machines may \
                 share the last-level cache, so that less of it is left than the CPU claims";
    "frequency scaling" by frequency::frequency_scaling;
        good: "the core can reach its full clock";
        effect: "work on the core takes longer than the hardware needs";
    "governor" by frequency::governor;
        good: "the clock stays as high as allowed";
        effect: "the core clock follows the load: short measurements start slowly, and two runs of the same thing \
                 differ";
    "turbo" by frequency::turbo;
        good: "the clock is steady";
        effect: "the core clock depends on the temperature and on how many cores are busy: compare estimated core \
                 cycles rather than nanoseconds";
    "power" by frequency::power;
        good: "clocks are not lowered to save energy";
        effect: "clocks are lowered to save energy";
    "SMT" by processor::smt;
        good: "no core is shared";
        effect: "a program on the other hardware thread of a core takes up to half of the core";
    "idle states" by processor::idle_states;
        good: "waking a CPU is quick";
        effect: "a waiting thread is woken late: round trips and hand-overs have two modes, awake and idle";
    "wake-up cost" by processor::wake_up;
        good: "waiting for another CPU costs little";
        effect: "everything that waits for another CPU pays this: an idle machine looks slower than a busy one";
    "priority" by limits::priority;
        good: "costof is scheduled like any other program";
        effect: "other programs run first: waits and tails are longer";
    "tracer" by limits::tracer;
        effect: "it may stop them at each system call, which then takes a hundred times as long";
    "environment" by limits::environment;
        effect: "starting programs, allocating memory and calling libraries may cost more or less than usual";
    "memory left" by memory::memory_left;
        good: "all sizes of the default plan fit";
        effect: "the largest sizes cannot be measured, and when memory runs short everything is slower";
    "huge pages" by memory::huge_pages;
        good: "both page sizes can be measured";
        effect: "points with 2 MiB pages cannot be measured";
    "locked memory" by memory::locked_memory;
        good: "costof can lock its memory";
        effect: "large rings, registered buffers and zero-copy sends can fail for lack of it";
    "network links" by network::links;
        good: "no link loses or damages packets";
        effect: "each lost packet is sent again after a round trip or after 200 ms, and a link below its speed limits \
                 every transfer";
    "seccomp" by permissions::seccomp;
        good: "no filter makes them slower";
        effect: "every system call costs more, and some may be refused";
    "mitigations" by processor::mitigations;
        good: "entering the kernel costs nothing extra";
        effect: "entering and leaving the kernel, context switches, and indirect calls in the kernel cost more";
    "perf permissions" by counters::software_events;
        good: "costof can tell why a grade is bad";
        effect: "counts of context switches, migrations and page faults are missing, so costof cannot tell why a \
                 grade is bad";
    "hardware counters" by counters::hardware_events;
        good: "cycles, instructions and cache misses help to explain the times";
        effect: "cycles, instructions and cache misses are missing; core cycles are estimated from the core clock \
                 instead";
    "tracepoints" by counters::tracepoints;
        good: "costof counts entries into the kernel";
        effect: "entries into the kernel cannot be counted: only its cost shows that a system call entered the kernel";
    "namespaces" by permissions::namespaces;
        good: "costof can make links on this machine";
        effect: "costof cannot make links on this machine (veth, sink, emulated ones); loopback remains";
    "TUN devices" by permissions::tun;
        good: "costof can emulate links";
        effect: "emulated links (lan, wan, spelt out) need netem instead, which not every kernel has";
    "ICMP" by permissions::icmp;
        good: "net.ping can be measured";
        effect: "net.ping cannot be measured";
    "io_uring" by permissions::io_uring;
        good: "points that use it can be measured";
        effect: "points that use io_uring cannot be measured";
};

/// All diagnoses, in the order of the checks.
pub fn diagnose(facts: &Facts, probed: &Probed) -> Vec<Diagnosis> {
    let checked = TOPICS.iter().filter_map(|topic| {
        let mut diagnosis = (topic.check)(facts, probed)?.diagnosis(topic);
        diagnosis.advice = diagnosis.advice.map(|advice| for_this_user(facts, advice));
        Some(diagnosis)
    });
    checked.collect()
}

/// Adapts advice to this user: root needs no `sudo`, which small systems do not have, and a container cannot
/// change the kernel's settings.
fn for_this_user(facts: &Facts, advice: String) -> String {
    let settings = ["/sys/", "/proc/sys/", "sysctl", "start the kernel"];
    let is_of_host = settings.iter().any(|setting| advice.contains(setting));
    let is_root = facts.inherited.effective_user == Some(0)
        && facts.inherited.initial_user_namespace != Some(false);
    if facts.virtualization.container.is_none() {
        return if is_root { advice.replace("sudo ", "") } else { advice };
    }
    if is_of_host && !advice.contains("on the host") {
        return format!("on the host: {advice}");
    }
    advice
}
