//! `costof link`: two named network namespaces, joined, for people to enter.

use crate::error::{Done, Error, bail, wrong};
use crate::session::own_executable;
use crate::terminal::{print, watch_interrupts};
use costof_lab::link::{FAR_ADDRESS, FAR_ADDRESS_V6, Made, NEAR_ADDRESS, NEAR_ADDRESS_V6, Names};
use costof_model::link::named::{LEADING, OTHER};
use costof_model::link_report::{Spread, Traffic};
use costof_model::{Failure, Link, LinkReport, Unit, counted, display_bytes};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often costof checks that the link still works.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often it checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// An interrupt ends no wait for a report: the last one comes after it.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Makes a link, and keeps it until the user interrupts.
pub(crate) fn run(link: &Link, seed: u64) -> Done {
    if matches!(link, Link::Loopback | Link::Remote | Link::Sink) {
        bail!(
            "the link {link} has no namespaces at both ends (use veth, lan, wan, or a spelt-out link)"
        );
    }
    let interrupted = watch_interrupts()?;
    let ended = |reason: String| match interrupted.load(Ordering::Relaxed) {
        true => Error::Interrupted,
        false => Error::Wrong(reason),
    };
    let failed = |failure: Failure| ended(failure.reason);
    let names = Names::take(link).map_err(wrong)?;
    let holder = own_executable(&["hold"])?;
    let mut made = Made::make(link, None, &holder, &interrupted).map_err(failed)?;
    made.begin(seed, &interrupted).map_err(failed)?;
    names.give_to(&made).map_err(ended)?;
    print(format!(
        "the link {link} is up until Ctrl-C\n  {OTHER}  {FAR_ADDRESS}  {FAR_ADDRESS_V6}\n  \
         {LEADING}  {NEAR_ADDRESS}  {NEAR_ADDRESS_V6}\nenter it in another terminal: \
         ip netns exec {LEADING} ping {FAR_ADDRESS}\n"
    ))?;
    let report = loop {
        let until = Instant::now() + CHECK_INTERVAL;
        while Instant::now() < until && !interrupted.load(Ordering::Relaxed) {
            sleep(POLL_INTERVAL);
        }
        let is_last = interrupted.load(Ordering::Relaxed);
        let report = made.report(&NEVER).map_err(|failure| wrong(failure.reason))?;
        if is_last {
            break report;
        }
    };
    print(report.map_or_else(String::new, |report| shown(&report)))
}

/// What the link did.
fn shown(report: &LinkReport) -> String {
    let seconds = report.duration_ns / 1e9;
    let mut text = format!("in {seconds:.0} s:\n");
    text += &direction("from the client", &report.up);
    text += &direction("to the client", &report.down);
    if let Some(relay) = &report.relay {
        let share = relay.cpu_ns / report.duration_ns.max(1.0) * 100.0;
        let real_time = if relay.real_time {
            "real-time"
        } else {
            "not real-time, which is not permitted here"
        };
        text += &format!("  the relay: {share:.1} % of a CPU, {real_time}\n");
    }
    text
}

fn direction(name: &str, traffic: &Traffic) -> String {
    let mut text = format!(
        "  {name}: {} ({}) passed, {} lost as configured",
        counted(traffic.packets, "packet"),
        display_bytes(traffic.bytes),
        traffic.lost
    );
    if let Some(drops) = traffic.queue_drops {
        text += &format!(", {drops} dropped by the queue");
    }
    if traffic.overruns > 0 {
        let overruns = traffic.overruns;
        text += &format!(", {overruns} lost because the relay could not keep up");
    }
    for (what, times) in
        [("delayed by", traffic.delay_ns), ("behind schedule by", traffic.lateness_ns)]
    {
        if let Some(times) = times {
            text += &format!("\n    {what} {}", spread(&times));
        }
    }
    text + "\n"
}

fn spread(times: &Spread) -> String {
    let shown = |ns| Unit::Nanoseconds.display(ns);
    format!(
        "{} in the median, {} at the 99th percentile, {} at most",
        shown(times.p50),
        shown(times.p99),
        shown(times.max)
    )
}
