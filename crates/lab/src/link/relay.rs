//! The emulation of a link: a thread carries packets between two TUN devices and delays each as its
//! [`Channel`] decides.
//!
//! It sleeps until shortly before a packet is due, and then reads the clock until it is due. The
//! later its last wake-ups were, the earlier it wakes. If a packet wakes it, the packet arrived
//! earlier, by about the mean lateness of its timers. If permitted, it runs before all other
//! threads (`SCHED_FIFO`).

use crate::link::channel::Channel;
use crate::link::ends::{DEVICE, Ends};
use costof_model::LinkReport;
use costof_model::link::Emulation;
use costof_model::link_report::{RelayReport, Traffic};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::poll;
use costof_os::net::tun::Tun;
use costof_os::process::namespace::Namespace;
use costof_os::sched::affinity;
use costof_os::sched::real_time;
use costof_os::sched::timers;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::mem;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Above ordinary threads, below those that the machine itself depends on.
const PRIORITY: u32 = 10;
/// At most this many packets of one direction are read before the other's turn.
const TURN: usize = 16;
/// How long before a packet is due the relay stops sleeping: the minimum and the maximum, in
/// nanoseconds.
const AWAKE_NS: (u64, u64) = (5_000, 200_000);
/// The weight of a wake-up by a timer in their mean.
const WAKE_WEIGHT: f64 = 0.125;
/// When a relay of real-time priority leaves its CPU to others, in nanoseconds without sleep: after
/// the first time if nothing is due soon, and after the second in any case. It then pauses for
/// `PAUSE_NS`. Otherwise an end of the link that shares the CPU would not run while packets arrive
/// continuously.
const ON_END_NS: (u64, u64) = (200_000, 400_000);
const PAUSE_NS: u64 = 20_000;
/// A wait that an event ended counts as a sleep if it took at least this long, in nanoseconds: it
/// takes less if the event had already happened.
const BLOCKED_NS: u64 = 5_000;
/// After this many turns without a pause it checks for requests.
const TURNS: u32 = 64;
/// How long the relay may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A running relay; it runs as long as its process does.
#[derive(Debug)]
// METHOD 17
pub(crate) struct Relay {
    questions: Sender<Question>,
    wake: PipeWriter,
    /// `None` once the thread is known to have ended, and why.
    thread: Option<JoinHandle<io::Error>>,
    ended_by: String,
    /// How many packets each device, near and far, had dropped when the launch began.
    dropped_before: [u64; 2],
}

/// A request to the relaying thread, handled between packets.
type Question = Box<dyn FnOnce(&mut Relaying) + Send>;

impl Relay {
    /// Relays between two devices.
    pub(crate) fn start(
        (near, far): (Tun, Tun),
        up: Emulation,
        down: Emulation,
    ) -> io::Result<Relay> {
        let (woken, wake) = io::pipe()?;
        let (questions, asked) = mpsc::channel();
        let relaying = move || {
            let mut relaying = Relaying::new(near, far, up, down);
            match relaying.relay(&woken, &asked) {
                Ok(never) => match never {},
                Err(error) => error,
            }
        };
        let thread = std::thread::Builder::new().name("costof-relay".to_owned());
        Ok(Relay {
            questions,
            wake,
            thread: Some(thread.spawn(relaying)?),
            ended_by: String::new(),
            dropped_before: [0, 0],
        })
    }

    fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut Relaying) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, answer) = mpsc::channel();
        let question = move |relaying: &mut Relaying| {
            // The requester may have ended.
            let _ = sender.send(question(relaying));
        };
        if self.questions.send(Box::new(question)).is_err() || self.wake.write_all(b"?").is_err() {
            return Err(self.ended());
        }
        let answer = answer.recv_timeout(ANSWER_LIMIT);
        answer.map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.ended(),
            RecvTimeoutError::Timeout => {
                let limit_s = ANSWER_LIMIT.as_secs();
                format!("the relay has not answered for {limit_s} s")
            }
        })
    }

    /// Why the relay no longer answers: a device was removed.
    fn ended(&mut self) -> String {
        if let Some(Ok(error)) = self.thread.take().map(JoinHandle::join) {
            self.ended_by = format!(": {error}");
        }
        format!("the relay has ended{}", self.ended_by)
    }

    /// Starts a launch: uses this seed, counts from zero.
    pub(crate) fn begin(&mut self, seed: u64, ends: &Ends) -> Result<(), String> {
        self.ask(move |relaying| relaying.begin(seed))?;
        self.dropped_before = dropped(ends)?;
        Ok(())
    }

    /// Continues on these CPUs.
    pub(crate) fn run_on(&mut self, cpus: &[usize]) -> Result<(), String> {
        let cpus = cpus.to_vec();
        let pinned = self.ask(move |relaying| {
            relaying.cpus.clear();
            affinity::pin(&cpus)
        })?;
        pinned.map_err(|error| format!("the relay cannot run on its CPUs: {error}"))
    }

    /// What happened since the launch began.
    pub(crate) fn report(&mut self, ends: &Ends) -> Result<LinkReport, String> {
        let mut report = self.ask(Relaying::report)?;
        let dropped = dropped(ends)?;
        // Packets sent at the near end go up.
        report.up.overruns += dropped[0].saturating_sub(self.dropped_before[0]);
        report.down.overruns += dropped[1].saturating_sub(self.dropped_before[1]);
        Ok(report)
    }
}

/// How many packets the devices dropped because the relay did not read them in time. The calling
/// thread is in the far namespace afterwards.
fn dropped(ends: &Ends) -> Result<[u64; 2], String> {
    let of = |end: &Namespace| -> io::Result<u64> {
        end.enter()?;
        let devices = fs::read_to_string("/proc/thread-self/net/dev")?;
        let unknown = || io::Error::other(format!("/proc/net/dev does not list {DEVICE}"));
        sent_and_dropped(&devices).ok_or_else(unknown)
    };
    let both = of(&ends.near).and_then(|near| Ok([near, of(&ends.far)?]));
    both.map_err(|error| format!("cannot read what the link's devices dropped: {error}"))
}

/// How many packets of the link's device were dropped when sent. Source: `dev_seq_printf_stats` of
/// the kernel, the eighth counter of each half.
fn sent_and_dropped(devices: &str) -> Option<u64> {
    let own = devices
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':'))?;
    own.split_whitespace().nth(8 + 3)?.parse().ok()
}

struct Relaying {
    near: Tun,
    far: Tun,
    up: Channel,
    down: Channel,
    real_time: bool,
    cpus: BTreeSet<usize>,
    /// How long before a packet is due it stops sleeping.
    awake_ns: u64,
    /// The mean lateness of its timers.
    wakes_ns: f64,
    /// How long the packet that woke it has waited; zero once it is read.
    waited_ns: u64,
    /// When it last slept.
    slept_ns: u64,
    began_ns: u64,
    cpu_began_ns: u64,
}

impl Relaying {
    fn new(near: Tun, far: Tun, up: Emulation, down: Emulation) -> Relaying {
        // Both improve the emulation if they are permitted; the report says whether they are.
        let _ = timers::set_timer_slack(Some(1));
        Relaying {
            near,
            far,
            up: Channel::new(up),
            down: Channel::new(down),
            real_time: real_time::begin(PRIORITY).is_ok(),
            cpus: BTreeSet::new(),
            awake_ns: AWAKE_NS.1,
            wakes_ns: 0.0,
            waited_ns: 0,
            slept_ns: now(),
            began_ns: now(),
            cpu_began_ns: now_ns(ClockId::ThreadCpu),
        }
    }

    fn relay(&mut self, woken: &PipeReader, asked: &Receiver<Question>) -> io::Result<Infallible> {
        let mut turns = 0;
        loop {
            // Requests must be answered even if packets arrive continuously.
            turns = (turns + 1) % TURNS;
            if turns == 0 {
                self.seen_here();
                self.answer(woken, asked)?;
            }
            if self.real_time && pauses(now(), self.slept_ns, self.next_ns(), self.awake_ns) {
                std::thread::sleep(Duration::from_nanos(PAUSE_NS));
                self.slept_ns = now();
                self.seen_here();
            }
            let waited_ns = &mut self.waited_ns;
            let moved = carry(&self.near, &mut self.up, &self.far, waited_ns)?
                | carry(&self.far, &mut self.down, &self.near, waited_ns)?;
            self.waited_ns = 0;
            if moved {
                continue;
            }
            let sleep_ns = match self.next_ns() {
                Some(next_ns) => {
                    let left_ns = next_ns.saturating_sub(now());
                    if left_ns <= self.awake_ns {
                        std::hint::spin_loop();
                        continue;
                    }
                    Some(left_ns - self.awake_ns)
                }
                None => None,
            };
            if self.sleep(woken, sleep_ns)? {
                self.answer(woken, asked)?;
            }
        }
    }

    /// Sleeps until a packet arrives, a request may have arrived (it then returns true), or this
    /// time has passed.
    fn sleep(&mut self, woken: &PipeReader, sleep_ns: Option<u64>) -> io::Result<bool> {
        let before_ns = now();
        let descriptors = [self.near.as_fd(), self.far.as_fd(), woken.as_fd()];
        let came = poll::wait_for_any(descriptors, sleep_ns)?;
        let blocked_ns = now() - before_ns;
        if !came || blocked_ns >= BLOCKED_NS {
            self.slept_ns = now();
        }
        if came && blocked_ns >= BLOCKED_NS {
            self.waited_ns = (self.wakes_ns as u64).min(blocked_ns);
        }
        if let Some(sleep_ns) = sleep_ns.filter(|_| !came) {
            let late_ns = now().saturating_sub(before_ns + sleep_ns);
            // Adapts at once to later wake-ups, and slowly to earlier ones.
            let usual = self.awake_ns - self.awake_ns / 64;
            self.awake_ns = usual.max(late_ns).clamp(AWAKE_NS.0, AWAKE_NS.1);
            let late_ns = late_ns.min(AWAKE_NS.1) as f64;
            let is_first = self.wakes_ns == 0.0;
            self.wakes_ns += if is_first { 1.0 } else { WAKE_WEIGHT } * (late_ns - self.wakes_ns);
        }
        self.seen_here();
        Ok(came)
    }

    /// When the next packet leaves, in either direction.
    fn next_ns(&self) -> Option<u64> {
        let next = [self.up.next_ns(), self.down.next_ns()];
        next.into_iter().flatten().min()
    }

    /// Notes the CPU that it runs on. Inserts, and so allocates, only if it has not run there
    /// before.
    fn seen_here(&mut self) {
        self.cpus.insert(affinity::current_cpu());
    }

    fn answer(&mut self, mut woken: &PipeReader, asked: &Receiver<Question>) -> io::Result<()> {
        while let Ok(question) = asked.try_recv() {
            question(self);
            let _ = woken.read(&mut [0])?;
        }
        Ok(())
    }

    fn begin(&mut self, seed: u64) {
        // Each direction has its own random numbers, so that neither changes the losses of the
        // other.
        self.up.begin(seed);
        self.down.begin(!seed);
        self.cpus.clear();
        self.began_ns = now();
        self.cpu_began_ns = now_ns(ClockId::ThreadCpu);
    }

    fn report(&mut self) -> LinkReport {
        self.seen_here();
        let duration_ns = (now() - self.began_ns) as f64;
        let counted = |channel: &Channel| Traffic { counted_ns: duration_ns, ..channel.traffic() };
        LinkReport {
            by: "relay".into(),
            duration_ns,
            up: counted(&self.up),
            down: counted(&self.down),
            relay: Some(RelayReport {
                cpu_ns: (now_ns(ClockId::ThreadCpu) - self.cpu_began_ns) as f64,
                real_time: self.real_time,
                cpus: self.cpus.iter().copied().collect(),
            }),
            absent: BTreeMap::new(),
        }
    }
}

/// Takes the packets that have arrived at one end, and sends those that are due at the other.
/// Returns whether there were any. `waited_ns` is how long the first of them has waited.
fn carry(from: &Tun, channel: &mut Channel, to: &Tun, waited_ns: &mut u64) -> io::Result<bool> {
    let mut moved = false;
    for _ in 0..TURN {
        let mut refused = 0;
        while let Some(packet) = channel.leave(now()) {
            refused += u64::from(to.send(packet).is_err());
            moved = true;
        }
        channel.overrun(refused);
        match from.receive(channel.room()) {
            Ok(bytes) => channel.take(now() - mem::take(waited_ns), bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
            Err(error) => {
                let reason = format!("its device {DEVICE} cannot be read, or is gone: {error}");
                return Err(io::Error::new(error.kind(), reason));
            }
        }
        moved = true;
    }
    Ok(moved)
}

/// Whether it is time to leave the CPU to others: long after the last sleep if nothing is due
/// before the relay would be awake again, or after a very long time.
fn pauses(now_ns: u64, slept_ns: u64, next_ns: Option<u64>, awake_ns: u64) -> bool {
    let on_end_ns = now_ns - slept_ns;
    let is_due = next_ns.is_some_and(|next_ns| next_ns <= now_ns + PAUSE_NS + awake_ns);
    on_end_ns > ON_END_NS.1 || (on_end_ns > ON_END_NS.0 && !is_due)
}

fn now() -> u64 {
    now_ns(ClockId::Monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_makes_no_packet_late_unless_there_was_none_for_very_long() {
        let now_ns = 10_000_000;
        let pauses = |on_end_us: u64, due_in_us: Option<u64>| {
            let next_ns = due_in_us.map(|us| now_ns + us * 1_000);
            pauses(now_ns, now_ns - on_end_us * 1_000, next_ns, 100_000)
        };
        assert!(!pauses(150, None));
        assert!(pauses(250, None) && pauses(250, Some(130)));
        // The relay spins until the packet leaves, and would be late.
        assert!(!pauses(250, Some(50)) && !pauses(350, Some(110)));
        assert!(pauses(450, Some(50)));
    }

    #[test]
    fn what_a_device_dropped_is_found_among_the_others() {
        let devices = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:     100       1    0    0    0     0          0         0      100       1    0    5    0
costofx:    100       1    0    0    0     0          0         0      100       1    0    6    0
costof: 5000000   40000    0    3    0     0          0         0  7000000   50000    0   17    0";
        assert_eq!(sent_and_dropped(devices), Some(17));
        assert_eq!(sent_and_dropped("Inter-| Receive"), None);
    }
}
