//! `costof link`: two named network namespaces, joined, for people to enter.

use crate::cli::LinkCommand;
use crate::error::{Error, wrong};
use costof_lab::host::WorkerCommand;
use costof_lab::link::named::{self, FAR_NAME, NEAR_NAME, Up};
use costof_lab::link::{FAR_ADDRESS, FAR_ADDRESS_V6, NEAR_ADDRESS, NEAR_ADDRESS_V6};
use costof_model::link::Link;
use costof_model::link_report::{LinkReport, Spread, Traffic};
use costof_model::unit::{Unit, display_bytes};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) fn run(command: &LinkCommand) -> Result<ExitCode, Error> {
    let text = match command {
        LinkCommand::Up { link, seed } => up(link, *seed)?,
        LinkCommand::Status => match named::status().map_err(wrong)? {
            Some((up, report)) => status(&up, report.as_ref()),
            None => "no link is up (costof link up makes one)\n".to_owned(),
        },
        LinkCommand::Down => match named::down().map_err(wrong)? {
            true => "the link is down\n".to_owned(),
            false => "no link was up\n".to_owned(),
        },
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn up(link: &Link, seed: u64) -> Result<String, Error> {
    if matches!(link, Link::Loopback | Link::Remote | Link::Sink) {
        return Err(wrong(format!(
            "the link {link} has no two ends to enter (veth, lan, wan, or spelt out)"
        )));
    }
    let holder = WorkerCommand::own_executable(&["hold"])
        .map_err(|error| wrong(format!("cannot open costof's own executable: {error}")))?;
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
        let _ = writeln!(text, "in {seconds:.0} s:");
        for (name, traffic) in [
            ("from the client", &report.up),
            ("to the client", &report.down),
        ] {
            text.push_str(&direction(name, traffic));
        }
        if let Some(relay) = &report.relay {
            let share = relay.cpu_ns / report.duration_ns.max(1.0) * 100.0;
            let real_time = match relay.real_time {
                true => "real-time",
                false => "not real-time, which is not permitted here",
            };
            let _ = writeln!(
                text,
                "  the relay: {share:.1} % of a processor, {real_time}"
            );
        }
    } else if up.emulated_by.as_deref() == Some("netem") {
        let _ = writeln!(
            text,
            "ip netns exec {NEAR_NAME} tc -s qdisc shows what it did to packets from the client"
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
    let seed = match up.emulated_by {
        Some(_) => format!(" with seed {}", up.seed),
        None => String::new(),
    };
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
        "  {name}: {} packets ({}) passed, {} lost on purpose",
        traffic.packets,
        display_bytes(traffic.bytes),
        traffic.lost
    );
    if let Some(drops) = traffic.queue_drops {
        let _ = write!(text, ", {drops} dropped by the queue");
    }
    if traffic.overruns > 0 {
        let _ = write!(
            text,
            ", {} lost because the relay could not keep up",
            traffic.overruns
        );
    }
    for (what, times) in [
        ("held up for", traffic.delay_ns),
        ("later than decided by", traffic.lateness_ns),
    ] {
        if let Some(times) = times {
            let _ = write!(text, "\n    {what} {}", spread(&times));
        }
    }
    text.push('\n');
    text
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
