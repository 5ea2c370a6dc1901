//! The worker: reads commands from standard input, writes answers to standard output, and measures
//! the points of a launch. One worker serves one launch.
//!
//! It writes nothing while a batch runs, and has one thread: a second one would make calls on file
//! descriptors more expensive. A separate process, not on the measured CPUs, reads the commands
//! first. It ends the worker when the input closes, so that nothing keeps running when the
//! controller is gone
//! (docs/decisions/2026-11-23-single-threaded-worker.md).

use crate::clock::{self, Clock};
use crate::counters::{Counters, Counts};
use crate::facts;
use crate::gauge::{self, Gauge};
use crate::link_end;
use crate::look::Looks;
use crate::meter::{Meter, Record};
use crate::noise::Ledger;
use crate::probe::{self, Probe, Role};
use crate::trials;
use crate::turn::{self, NotTaken, Turn};
use costof_model::noise::CoreGauge;
use costof_model::protocol::{
    Answer, ClockSource, Command, Description, LINE_MAX_BYTES, Network, PROTOCOL,
};
use costof_model::{
    ClockInfo, Data, Failure, Launch, LinkEnd, Offers, Point, Report, fail, unsupported,
};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::net::addresses;
use costof_os::process;
use costof_os::process::command_reader::CommandReader;
use costof_os::process::shared_object::restore_environment;
use costof_os::sched::affinity;
use costof_os::sched::usage::{self, Usage};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Stdin, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a guarded worker may take to end after its input has closed.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a worker with `command`. When the worker has ended, or its input has closed, kills
/// everything left of it: what its probes started, and the worker itself, even if it is stopped or
/// hangs. This is for a worker whose controller runs on another machine and cannot do so. The
/// process that started this one may end long before; only input and output count. Returns the exit
/// code, as a shell does for a process that a signal ended.
///
/// # Errors
/// If the worker cannot be started.
pub fn guard(command: &mut std::process::Command) -> io::Result<u8> {
    process::end_group_on_sigterm()?;
    let mut worker = command.process_group(0).spawn()?;
    let group = worker.id();
    std::thread::Builder::new().name("guard".to_owned()).spawn(move || {
        if process::wait_for_hangup().is_ok() {
            std::thread::sleep(GRACE);
            // If the worker has ended meanwhile, so has this process.
            let _ = process::kill_group(group);
        }
    })?;
    let status = worker.wait()?;
    // At once: its process id may soon be another process's.
    let _ = process::kill_group(group);
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Serves commands until the input closes or the launch has ended. `release` is the version of this
/// costof, `table` lists its probes.
///
/// # Errors
/// If standard output cannot be used.
// METHOD 16
pub fn work(table: &[&'static Probe], release: &str) -> io::Result<()> {
    // While there is one thread.
    restore_environment();
    // The kernel sends the parent-death signal when the thread that started this process ends.
    process::die_with_parent()?;
    // Best effort: otherwise the process is named after its file descriptor.
    let _ = process::name(c"costof");
    // Best effort: otherwise the kernel chooses which process to kill when memory runs out.
    let _ = process::be_oom_victim();
    let stop_line = serde_json::to_vec(&Command::Stop)?;
    let reader = CommandReader::start(&stop_line)?;
    Worker {
        table,
        release,
        input: BufReader::new(io::stdin()),
        output: process::private_stdout()?,
        reader,
        turn: None,
        looks: Looks::default(),
    }
    .serve()
}

struct Worker<'a> {
    table: &'a [&'static Probe],
    release: &'a str,
    input: BufReader<Stdin>,
    output: std::fs::File,
    /// It removes [`Command::Stop`] from the input, and ends this process when the input closes.
    reader: CommandReader,
    /// Held until the process ends.
    turn: Option<Turn>,
    looks: Looks,
}

impl Worker<'_> {
    fn serve(mut self) -> io::Result<()> {
        self.answer(&Answer::Hello { protocol: PROTOCOL, costof: self.release.to_owned() })?;
        loop {
            match self.command() {
                Ok(Command::Describe) => {
                    let description = Box::new(self.describe());
                    self.answer(&Answer::Description(description))?;
                }
                Ok(Command::Hold) => {
                    let answer = self.hold();
                    self.answer(&answer)?;
                }
                Ok(Command::Watch) => {
                    let contention = trials::contention();
                    self.answer(&Answer::Watched { contention })?;
                }
                Ok(Command::Look(look)) => {
                    let cpus = self.looks.look(&look);
                    self.answer(&Answer::Looked { cpus })?;
                }
                Ok(Command::Open(launch)) => {
                    // Best effort: a process that blocks in a read hardly disturbs.
                    let _ = self.reader.leave(&launch.cpus);
                    match OpenLaunch::open(self.table, *launch) {
                        Ok(open) => {
                            self.answer(&Answer::Opened)?;
                            return self.launch(open);
                        }
                        Err(failure) => self.answer(&Answer::Failed(failure))?,
                    }
                }
                other => self.refuse(&other)?,
            }
        }
    }

    /// The next command. Without one, the reader is gone. This process then ends together with
    /// whatever a probe started, which would otherwise keep running.
    fn command(&mut self) -> Result<Command, String> {
        let mut line = Vec::new();
        let mut input = (&mut self.input).take(LINE_MAX_BYTES as u64);
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => process::exit_with_group(0),
            Ok(_) => serde_json::from_slice(&line).map_err(|error| error.to_string()),
        }
    }

    fn launch(mut self, mut open: OpenLaunch) -> io::Result<()> {
        let deadline = Duration::from_nanos(open.launch.deadline_ns);
        let deadline = (!deadline.is_zero()).then_some(deadline);
        loop {
            // Between two commands a partner may spin on the CPU that the controller would need.
            process::end_after(deadline)?;
            let command = self.command();
            process::end_after(deadline)?;
            match command {
                Ok(Command::Prepare { point, offers }) => {
                    self.reader.stop().store(false, Ordering::Release);
                    let answer = match open.prepare(point, &offers) {
                        Ok(offers) => Answer::Prepared { offers },
                        Err(failure) => Answer::Failed(failure),
                    };
                    self.answer(&answer)?;
                }
                Ok(Command::Run) => {
                    let answer = match open.run(self.reader.stop()) {
                        Ok(()) => Answer::Ran,
                        Err(failure) => Answer::Failed(failure),
                    };
                    self.answer(&answer)?;
                }
                Ok(Command::Close) => {
                    let closed = open.close();
                    // Reaps the reader: the controller kills what is left of the group, and the
                    // reader would stay a zombie if no init reaps orphans.
                    drop(self.reader);
                    return write(&mut self.output, &closed);
                }
                other => self.refuse(&other)?,
            }
        }
    }

    fn describe(&self) -> Description {
        let facts = facts::gather();
        let clock = ClockInfo {
            // If the cores differ, each launch determines the floor of its own core.
            core_floor: (facts.cpu.core_kinds.is_empty())
                .then(|| gauge::calibrate(&facts.cpu))
                .flatten(),
            ..clock::choose(facts.clock_source.current.as_deref())
        };
        Description {
            costof: self.release.to_owned(),
            build: build(),
            probes: (self.table.iter())
                .map(|probe| (probe.info.id.clone(), probe.info.method))
                .collect(),
            facts: Box::new(facts),
            clock,
            counters: Counters::describe(),
            network: network(),
        }
    }

    fn hold(&mut self) -> Answer {
        if self.turn.is_none() {
            match turn::take() {
                Ok(turn) => self.turn = Some(turn),
                Err(NotTaken::Held(holder)) => return Answer::Busy { holder },
                Err(NotTaken::Unknown(why)) => return Answer::Failed(Failure::error(why)),
            }
        }
        Answer::Held
    }

    fn refuse(&mut self, command: &Result<Command, String>) -> io::Result<()> {
        self.answer(&Answer::Failed(Failure::error(match command {
            Ok(command) => format!("the worker cannot do this now: `{}`", command.name()),
            Err(error) => format!("malformed command: {error}"),
        })))
    }

    fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        write(&mut self.output, answer)
    }
}

fn write(output: &mut std::fs::File, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    output.write_all(&line)
}

/// A launch that has begun.
struct OpenLaunch {
    /// The metric whose batches the counters count.
    primary: &'static str,
    launch: Launch,
    role: Box<dyn Role>,
    clock: Box<dyn Clock>,
    counters: Option<Counters>,
    gauge: Option<Gauge>,
    ledger: Ledger,
    /// Its end of the link before the launch, if there is a link.
    end: Option<LinkEnd>,
    points: Vec<OpenPoint>,
    prepared: Option<usize>,
    /// Whether its role leads.
    leads: bool,
    /// What the gauge showed of its core, if its role does not lead.
    other_core: Option<CoreGauge>,
}

/// An operation that waits does so each time; a thread that waits this often in a round was held up once.
const WAITS_MAX: u64 = 2;

/// The work of this process and of the measuring thread so far.
struct Work {
    process_ns: u64,
    thread_ns: u64,
    usage: Usage,
    children: Usage,
}

impl Work {
    fn now() -> Work {
        Work {
            process_ns: now_ns(ClockId::ProcessCpu),
            thread_ns: now_ns(ClockId::ThreadCpu),
            usage: usage::thread(),
            children: usage::children(),
        }
    }

    /// Whether this thread has done all the work since, but for a hundredth, and hardly ever
    /// gave up its CPU.
    fn was_by_one_thread(&self) -> bool {
        let now = Work::now();
        let thread_ns = now.thread_ns - self.thread_ns;
        let children = now.children.since(&self.children);
        let others_ns = (now.process_ns - self.process_ns).saturating_sub(thread_ns)
            + children.user_ns
            + children.system_ns;
        100 * others_ns <= thread_ns && now.usage.since(&self.usage).voluntary_switches <= WAITS_MAX
    }
}

/// An operation on more memory than this depends on memory beyond the core's own caches, which has a clock of its own.
const CORE_BYTES_MAX: u64 = 4 << 20;

/// A point of a launch that has begun.
#[derive(Default)]
struct OpenPoint {
    record: Record,
    counts: Counts,
    failed: bool,
    /// Whether in some round not one thread did all the work.
    by_several: bool,
}

impl OpenPoint {
    fn report(self) -> Report {
        let counts = self.counts.per_operation();
        let mut report = self.record.into_report(self.failed, counts);
        for metric in &mut report.metrics {
            metric.by_one_thread = !self.by_several && matches!(metric.data, Data::Samples(_));
        }
        report
    }
}

impl OpenLaunch {
    fn open(table: &[&'static Probe], launch: Launch) -> Result<OpenLaunch, Failure> {
        let Some(first) = launch.points.first() else {
            fail!("a launch without points");
        };
        let (id, role) = (&first.probe, &launch.role);
        let Some(probe) = probe::find(table, id) else {
            unsupported!("this worker's costof has no probe {id}");
        };
        let Some(position) = probe.info.roles.iter().position(|own| own == role) else {
            fail!("{id} has no role {role}");
        };
        if let Some(cpu) = launch.cpus.first()
            && let Err(error) = affinity::pin(&[*cpu])
        {
            fail!("cannot run on CPU {cpu}: {error} (choose others by --cpu)");
        }
        let clock = clock::open(&launch.clock)?;
        let role = probe.start(position, &launch)?;
        let blocks = launch.points.iter().any(|point| role.blocks(point));
        let rendezvous = launch.rendezvous.as_ref();
        let end = rendezvous.map(|rendezvous| link_end::at(rendezvous.address));
        let ledger = Ledger::open(&*clock, &launch.cpus, &launch.partners, blocks);
        let leads = position + 1 == probe.info.roles.len();
        // Of what runs on several CPUs, one core's clock says little, and nothing of what waits for a device.
        let is_of_one_core = launch.cpus.len() == 1 && launch.partners.is_empty() && !blocks;
        let is_counter = launch.clock.source == ClockSource::Counter;
        let record = |point: &Point| {
            let counts = is_of_one_core && (probe.memory_bytes)(point) <= CORE_BYTES_MAX;
            Record::counting_cycles((counts && is_counter).then_some(launch.clock.hz))
        };
        let open = |point| OpenPoint { record: record(point), ..OpenPoint::default() };
        Ok(OpenLaunch {
            primary: &probe.info.primary().name,
            points: launch.points.iter().map(open).collect(),
            counters: (!blocks).then(Counters::open).flatten(),
            gauge: Gauge::for_this_core(launch.clock.core_floor),
            launch,
            role,
            clock,
            leads,
            other_core: None,
            ledger,
            end,
            prepared: None,
        })
    }

    fn prepare(&mut self, position: usize, offers: &Offers) -> Result<Offers, Failure> {
        let Some(point) = self.launch.points.get(position) else {
            fail!("the launch has no point {position}");
        };
        self.prepared = Some(position);
        let prepared = self.role.prepare(point, offers);
        self.points[position].failed |= prepared.is_err();
        prepared
    }

    fn run(&mut self, stop: &'static AtomicBool) -> Result<(), Failure> {
        let Some(position) = self.prepared.take() else {
            fail!("no point is prepared");
        };
        let before = self.look();
        let began = self.clock.start();
        let measured = self.measure(position, stop);
        let ns = self.clock.ns(self.clock.end().saturating_sub(began));
        if let (Some(gauge), Some(before), Some(after)) = (&self.gauge, before, self.look()) {
            let core = self.other_core.get_or_insert_default();
            core.floor = gauge.floor;
            core.add(gauge.state(before, after), ns);
        }
        measured
    }

    /// A reading of this core's gauge, for a role that does not lead and so measures nothing.
    fn look(&self) -> Option<f64> {
        let gauge = self.gauge.as_ref().filter(|_| !self.leads);
        gauge.and_then(Gauge::look)
    }

    fn measure(&mut self, position: usize, stop: &'static AtomicBool) -> Result<(), Failure> {
        let point = &self.launch.points[position];
        let open = &mut self.points[position];
        let time_ns = self.launch.point_time_ns as f64 / f64::from(self.launch.rounds.max(1));
        if let Some(counters) = &mut self.counters {
            counters.reset();
        }
        let before = open.record.counted_operations;
        let mut meter = Meter::new(
            &*self.clock,
            time_ns,
            stop,
            self.counters.as_mut(),
            self.primary,
            &mut open.record,
        )
        .gauged(self.gauge.as_ref());
        let work = Work::now();
        let measured = self.role.run(point, &mut meter);
        open.by_several |= !work.was_by_one_thread();
        let measured = measured.and_then(|()| self.role.finish(point, &mut meter));
        open.failed |= measured.is_err();
        let operations = open.record.counted_operations - before;
        if let Some(counters) = &mut self.counters {
            open.counts.add(counters.read(), operations);
        }
        measured
    }

    fn close(self) -> Answer {
        let (mut noise, cpu_ns) = self.ledger.close(&*self.clock);
        if let (Some(before), Some(rendezvous)) = (self.end, &self.launch.rendezvous) {
            let end = link_end::since(&before, link_end::at(rendezvous.address));
            noise.ends.insert(self.launch.role.clone(), end);
        }
        noise.other_core = self.other_core;
        let gauges = self.points.iter().map(|point| point.record.core());
        let read = gauges.filter(|gauge| gauge.floor > 0.0);
        noise.core = read.reduce(CoreGauge::and);
        let points = self.points.into_iter();
        Answer::Closed {
            points: points.map(OpenPoint::report).collect(),
            noise: Box::new(noise),
            cpu_ns,
        }
    }
}

/// The worker's place in the network. What is not known is absent.
fn network() -> Network {
    // `CLIENT-ADDRESS PORT SERVER-ADDRESS PORT`: ssh(1), environment.
    let ssh = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let ssh: Vec<&str> = ssh.split(' ').collect();
    // Link-local addresses carry a device after a `%`, and are useless on other machines.
    let address = |position: usize| -> Option<IpAddr> { ssh.get(position)?.parse().ok() };
    let namespace = std::fs::metadata("/proc/thread-self/ns/net");
    Network {
        namespace: namespace.ok().map(|namespace| namespace.ino()),
        addresses: addresses::reachable().unwrap_or_default(),
        reached_at: address(2),
        reached_from: address(0),
    }
}

/// The value of [`build`] if the executable cannot be read.
pub const UNKNOWN_BUILD: &str = "unknown";

/// A hash of this executable: two workers with the same hash measure alike. [`UNKNOWN_BUILD`] if it cannot be
/// read.
pub fn build() -> String {
    let Ok(bytes) = std::fs::read("/proc/self/exe") else {
        return UNKNOWN_BUILD.to_owned();
    };
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    format!("{:016x}", hasher.finish())
}
