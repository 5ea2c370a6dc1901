//! `costof link`: two named network namespaces, joined, for people to enter.

use crate::cli::LinkCommand;
use crate::error::{Done, Error, bail, wrong};
use crate::session::own_executable;
use crate::terminal::print;
use costof_lab::link::named::{self, FAR_NAME, NEAR_NAME, Up};
use costof_lab::link::{FAR_ADDRESS, FAR_ADDRESS_V6, NEAR_ADDRESS, NEAR_ADDRESS_V6};
use costof_model::link_report::{Spread, Traffic};
use costof_model::{Link, LinkReport, Unit, counted, display_bytes};

pub(crate) fn run(command: &LinkCommand) -> Done {
    let text = match command {
        LinkCommand::Up { link, seed } => up(link, *seed)?,
        LinkCommand::Status => match named::status().map_err(wrong)? {
            Some((up, report)) => status(&up, report.as_ref()),
            None => "no link is up (costof link up makes one)\n".to_owned(),
        },
        LinkCommand::Down if named::down().map_err(wrong)? => "the link is down\n".to_owned(),
        LinkCommand::Down => "no link was up\n".to_owned(),
    };
    print(text)
}

fn up(link: &Link, seed: u64) -> Result<String, Error> {
    if matches!(link, Link::Loopback | Link::Remote | Link::Sink) {
        bail!(
            "the link {link} has no namespaces at both ends (use veth, lan, wan, or a spelt-out link)"
        );
    }
    let holder = own_executable(&["hold"])?;
    let (up, was_up) = named::up(link, seed, &holder).map_err(wrong)?;
    let already = if was_up { " already" } else { "" };
    Ok(format!(
        "{}{}\nenter it: ip netns exec {NEAR_NAME} ping {FAR_ADDRESS}\n",
        named_link(&up, already),
        ends()
    ))
}

fn status(up: &Up, report: Option<&LinkReport>) -> String {
    let mut text = format!("{}{}", named_link(up, ""), ends());
    if let Some(report) = report {
        let seconds = report.duration_ns / 1e9;
        text += &format!("in {seconds:.0} s:\n");
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
    } else if up.emulated_by.as_deref() == Some("netem") {
        text += &format!(
            "ip netns exec {NEAR_NAME} tc -s qdisc shows what it did to packets from the client\n"
        );
    }
    text
}

fn named_link(up: &Up, already: &str) -> String {
    let by = match (&up.emulated_by, up.pid) {
        (Some(by), Some(pid)) => format!(", by costof's {by} (process {pid})"),
        (Some(by), None) => format!(", by the kernel's {by}"),
        (None, _) => String::new(),
    };
    let emulated = up.emulated_by.as_ref();
    let seed = emulated.map_or_else(String::new, |_| format!(" with seed {}", up.seed));
    format!("the link {} is{already} up{seed}{by}\n", up.link)
}

fn ends() -> String {
    format!(
        "  {FAR_NAME}  {FAR_ADDRESS}  {FAR_ADDRESS_V6}\n  {NEAR_NAME}  {NEAR_ADDRESS}  \
         {NEAR_ADDRESS_V6}\n"
    )
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
