//! What was counted of a command, by the items that have prices.

use costof_model::bill::{Count, CountedCommand, Counts, Distance, End, FaultKind, Item};
use costof_model::priced::Wait;
use costof_model::unit::display_bytes;
use costof_model::word;
use std::collections::BTreeMap;

/// What makes a thread, which is a clone by its call.
const NEW_THREAD: &str = "new thread";
/// The execve that costof makes for the program, and the program's end.
const START: &str = "start of the program";
/// As many as the second cache of a core may hold.
const MANY_PAGES: u64 = (4 << 20) / 4096;
/// The calls whose price depends on what their descriptor is of.
const OF_ANY: [&str; 4] = ["read", "readv", "write", "writev"];

/// What was counted of one item, as the mean of the counted runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tallied {
    pub(super) key: String,
    /// The power of two of its size, of a call that moves bytes.
    pub(super) class: Option<u8>,
    pub(super) count: f64,
    pub(super) errors: f64,
    pub(super) bytes: f64,
}

impl Tallied {
    /// Bytes that one moves.
    pub(super) fn size(&self) -> f64 {
        if self.count > 0.0 { self.bytes / self.count } else { 0.0 }
    }

    /// How many of them did not fail.
    pub(super) fn done(&self) -> f64 {
        (self.count - self.errors).max(0.0)
    }

    /// How often one enters the kernel: events do not.
    pub(super) fn entries(&self) -> f64 {
        let is_event = ["fault", "wake-up", START].iter().any(|event| self.key.starts_with(event));
        let is_event = is_event || matches!(&*self.key, "signal" | "switch" | "preempted");
        if is_event { 0.0 } else { 1.0 }
    }

    /// Such as `read of 64B`, or `read of 64B to 128B` if not all are equal.
    pub(super) fn name(&self) -> String {
        let Some(power) = (self.size() as u64).checked_ilog2() else {
            return self.key.clone();
        };
        let least = 1_u64 << power;
        let name = format!("{} of {}", self.key, display_bytes(least));
        match self.size() == least as f64 {
            true => name,
            false => format!("{name} to {}", display_bytes(least.saturating_mul(2))),
        }
    }
}

/// What was counted of a command, of each item as often as in one of so many runs or seconds.
pub fn tally(command: &CountedCommand, runs: f64) -> Vec<Tallied> {
    let mut items: BTreeMap<(String, Option<u8>), Tallied> = BTreeMap::new();
    for (key, count) in command.counted.iter().flat_map(keyed).filter(|(_, it)| it.count > 0) {
        let size = match &count.item {
            Item::Call { size, .. } => size.map(|class| class.0),
            _ => None,
        };
        let of = items.entry((key.clone(), size)).or_insert_with(|| Tallied {
            key,
            class: size,
            count: 0.0,
            errors: 0.0,
            bytes: 0.0,
        });
        of.count += count.count as f64 / runs;
        of.errors += count.errors as f64 / runs;
        of.bytes += count.bytes as f64 / runs;
    }
    let starts = command.counted.iter().filter(|it| !matches!(it.end, End::Running | End::Ended));
    let others = [("fault", other_faults(command, runs)), (START, starts.count() as f64 / runs)];
    for (key, count) in others.map(|(key, count)| (key.to_owned(), count)) {
        let of = Tallied { key: key.clone(), class: None, count, errors: 0.0, bytes: 0.0 };
        items.extend((count > 0.0).then_some(((key, None), of)));
    }
    items.into_values().collect()
}

/// How many system calls these are.
pub fn calls(items: &[Tallied]) -> f64 {
    items.iter().map(|item| item.entries() * item.count).sum()
}

/// The faults of no known kind. How many there were in all is only known of a running process that was counted, and of a
/// program's timed runs: a counted one starts with faults of costof's own.
fn other_faults(command: &CountedCommand, runs: f64) -> f64 {
    let whole = command.counted.iter().flat_map(|counts| &counts.whole);
    let whole: u64 = whole.filter(|count| is_minor(count)).map(|count| count.count).sum();
    let of_kinds = command.counted.iter().flat_map(Counts::sum).filter(is_fault);
    let of_kinds: u64 = of_kinds.map(|count| count.count).sum();
    let timed: u64 = command.timed.iter().map(|run| run.minor_faults).sum();
    let timed = timed as f64 / command.timed.len().max(1) as f64;
    (timed + (whole as f64 - of_kinds as f64) / runs).max(0.0)
}

fn is_fault(count: &Count) -> bool {
    matches!(count.item, Item::Fault { .. })
}

fn is_minor(count: &Count) -> bool {
    matches!(count.item, Item::Fault { kind: FaultKind::Minor, .. })
}

/// The counts of a run that have prices, each with the name that `prices.toml` has for it. A process that has more than one thread
/// made all but the first one by as many of its clones.
fn keyed(counts: &Counts) -> Vec<(String, Count)> {
    let mut new_threads: BTreeMap<i32, u64> = BTreeMap::new();
    let mut new_pages: BTreeMap<i32, u64> = BTreeMap::new();
    for thread in &counts.threads {
        *new_threads.entry(thread.process).or_default() +=
            u64::from(thread.thread != thread.process);
        let is_new =
            |count: &&Count| matches!(count.item, Item::Fault { kind: FaultKind::FirstWrite, .. });
        let pages: u64 = thread.items.iter().filter(is_new).map(|count| count.count).sum();
        *new_pages.entry(thread.process).or_default() += pages;
    }
    let mut keyed = Vec::new();
    for (thread, count) in
        counts.threads.iter().flat_map(|it| it.items.iter().map(move |count| (it, count)))
    {
        let has_many = new_pages[&thread.process] > MANY_PAGES;
        let Some(key) = key(&count.item, has_many) else { continue };
        let mut count = count.clone();
        if matches!(&*key, "clone" | "clone3") {
            let left = new_threads.entry(thread.process).or_default();
            let made = count.count.saturating_sub(count.errors).min(*left);
            (*left, count.count) = (*left - made, count.count - made);
            keyed.push((NEW_THREAD.to_owned(), Count { count: made, errors: 0, ..count.clone() }));
        }
        keyed.push((key, count));
    }
    keyed
}

/// The name of an item of a process, which may have many new pages.
fn key(item: &Item, has_many: bool) -> Option<String> {
    let name = match item {
        Item::Call { name, of: Some(of), .. } if OF_ANY.contains(&&**name) => {
            return Some(format!("{} {name}", word(of)));
        }
        Item::Call { name, .. } => name,
        Item::Fault { kind, .. } => match kind {
            FaultKind::FirstRead => "fault on a file's page",
            FaultKind::WriteProtected => "fault on a protected page",
            FaultKind::FirstWrite if has_many => "fault on a new page of many",
            FaultKind::FirstWrite => "fault on a new page",
            FaultKind::Minor | FaultKind::Major => return None,
        },
        Item::Wait { .. } => "switch",
        Item::Preempted => "preempted",
        Item::Signal { .. } => "signal",
        // What else wakes a thread does so at no cost of the command's.
        Item::WakeUp { distance, by_itself: true } => match distance {
            Distance::SameCpu => return None,
            Distance::Sibling => "wake-up across a core's threads",
            Distance::SameCache => "wake-up across cores",
            Distance::SameNode => "wake-up across caches",
            Distance::OtherNode => "wake-up across nodes",
        },
        Item::WakeUp { .. } | Item::BlockIo { .. } => return None,
    };
    Some(name.to_owned())
}

/// The reads and writes that a command's threads sent to block devices in one of so many runs or seconds, with their bytes.
pub fn requests(command: &CountedCommand, runs: f64) -> [(f64, f64); 2] {
    let mut requests = [(0.0, 0.0); 2];
    for count in command.counted.iter().flat_map(Counts::sum) {
        if let Item::BlockIo { is_write } = count.item {
            let of = &mut requests[usize::from(is_write)];
            *of = (of.0 + count.count as f64 / runs, of.1 + count.bytes as f64 / runs);
        }
    }
    requests
}

/// What a command waited for in one of so many runs or seconds, the longest first.
pub fn waits(command: &CountedCommand, runs: f64) -> Vec<Wait> {
    let mut waits: BTreeMap<String, Wait> = BTreeMap::new();
    for count in command.counted.iter().flat_map(Counts::sum) {
        let what = match count.item {
            Item::Wait { call: Some(call) } => call,
            Item::Wait { call: None } => "page faults".to_owned(),
            // What was preempted was ready.
            _ => continue,
        };
        let wait = waits.entry(what.clone()).or_insert(Wait { what, count: 0.0, waited_ns: 0.0 });
        wait.count += count.count as f64 / runs;
        wait.waited_ns += count.waited_ns as f64 / runs;
    }
    let mut waits: Vec<Wait> = waits.into_values().filter(|wait| wait.waited_ns > 0.0).collect();
    waits.sort_by(|one, other| other.waited_ns.total_cmp(&one.waited_ns));
    waits
}
