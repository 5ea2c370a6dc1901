//! `copy.send` and `rudp.loss` by hand, as `costof send` sends them: what a user may ask for, and what
//! a machine that listens does for whoever calls it.

use crate::TABLE;
use crate::copy::send::axes::{self as fields, CopySend, Pattern};
use crate::prelude::*;
use crate::rudp::loss::Loss;
use crate::two_ends::{Over, Transfer};
use crate::{copy, rudp};
use costof_measure::probe::find;
use costof_model::protocol::Conditions;
use costof_model::{Axes, AxisValue, Point, ProbeInfo};
use costof_os::net::random_loss;
use std::fmt::Display;

/// Protocols of reliable datagrams: the user's word, and the value of rudp.loss.
const DATAGRAMS: [(&str, Over); 2] = [("rudp", Over::Rudp), ("study-datagrams", Over::Study)];
/// The shortest and the longest time after which the study's protocol may retransmit: a receiver does not
/// wait for a silent sender for ever.
const MIN_RETRY: Duration = Duration::from_millis(1);
const MAX_RETRY: Duration = Duration::from_secs(10);

/// The probe that is measured unless reliable datagrams are sent: copy.send.
pub fn info() -> &'static ProbeInfo {
    &copy::send::PROBE.info
}

/// The probe that sends over this: a value of copy.send's axis `over`, or a protocol of reliable datagrams.
pub fn probe_over(over: &str) -> &'static Probe {
    match protocol(over) {
        Some(_) => &rudp::loss::PROBE,
        None => &copy::send::PROBE,
    }
}

/// The protocol that this word names.
fn protocol(over: &str) -> Option<Over> {
    let found = DATAGRAMS.iter().find(|(word, _)| *word == over);
    found.map(|(_, protocol)| *protocol)
}

/// The value that a word or number names on an axis of the probe that sends over this.
///
/// # Errors
/// A sentence that names the axis, or its values.
pub fn value(over: &str, name: &str, text: &str) -> Result<AxisValue, String> {
    match protocol(over) {
        Some(_) if name == "over" => Ok(AxisValue::Word(over.to_owned().into())),
        None if name == "over" => probe_over(over).info.value(name, text).map_err(|error| {
            let more = DATAGRAMS.map(|(word, _)| word).join(", ");
            format!("{}, {more})", error.trim_end_matches(')'))
        }),
        _ => probe_over(over).info.value(name, text),
    }
}

/// How many messages of the study's protocol the queue of its receiver's socket holds, if that is fewer
/// than the default window: the kernel counts the memory behind a datagram, the next power of two
/// and its own record. `over` is the word that names the protocol, `size` the bytes of a message.
pub fn window_that_fits(over: &str, size: Option<u64>) -> Option<u64> {
    /// `net.core.rmem_default` as the kernel sets it.
    const QUEUE_BYTES: u64 = 212_992;
    const RECORD_BYTES: u64 = 1024;
    let info = &probe_over(over).info;
    let default = |axis: &str| info.axis(axis).ok()?.default().as_number();
    let size = size.or_else(|| default("size"))?;
    let fits = QUEUE_BYTES / ((size + 512).next_power_of_two() + RECORD_BYTES);
    let is_study = protocol(over) == Some(Over::Study);
    (is_study && fits < default("window")?).then_some(fits.max(1))
}

/// The point, over loopback, that these values name; the other axes have their defaults. The value of
/// `over` decides which probe it is. At a Unix socket, `over` is one too unless a value says otherwise.
///
/// # Errors
/// If this cannot be sent to `address` from any machine, with what can be.
pub fn asked(
    address: &dyn Display,
    is_unix: bool,
    values: &[(&str, AxisValue)],
    conditions: Conditions,
) -> Result<Point, String> {
    let over = values.iter().find(|(name, _)| *name == "over");
    let over = over.map_or_else(String::new, |(_, over)| over.to_string());
    let (info, protocol) = (&probe_over(&over).info, protocol(&over));
    if protocol.is_none() && conditions != Conditions::default() {
        return Err("--retry and --drop are for --over rudp and --over study-datagrams".to_owned());
    }
    let mut axes = info.defaults();
    if is_unix && protocol.is_none() {
        axes = axes.with("over", Over::Unix.word());
    }
    for (name, value) in values {
        if let ("over", Some(protocol)) = (*name, protocol) {
            axes = axes.with("over", protocol.word());
            continue;
        }
        let axis = info.axis(name)?;
        axes.0.insert(axis.name.clone(), axis.parse(&value.to_string())?);
    }
    match (is_unix, goes_through_unix(&axes)) {
        (true, false) => {
            return Err(format!(
                "{over} does not go through a Unix socket (an address such as 127.0.0.1:7000, or \
                 --over unix)"
            ));
        }
        (false, true) => {
            return Err(format!(
                "Unix sockets have no address such as {address} (unix:PATH at both ends)"
            ));
        }
        _ => {}
    }
    let point = Point { probe: info.id.clone(), axes, link: Link::Loopback.to_string().into() };
    checked(&point, conditions).map_err(|failure| failure.reason)?;
    Ok(point)
}

/// A worker, the windows of a connection of reliable datagrams, and a socket's queue.
const WORKER_BYTES: u64 = 64 << 20;

fn goes_through_unix(axes: &Axes) -> bool {
    axes.find_word("over") == Some(Over::Unix.word())
}

/// Refuses what cannot be sent on any machine. Returns about how much memory the receiver needs for it.
fn checked(point: &Point, conditions: Conditions) -> Result<u64> {
    if let Some(point) = At::<Loss>::read(point) {
        check_conditions(&point, conditions)?;
        Transfer::from(&point.axes).check()?;
        return Ok(WORKER_BYTES);
    }
    match At::<CopySend>::read(point) {
        Some(point) if conditions == Conditions::default() => {
            fields::check(&point)?;
            Ok(held_bytes(&point))
        }
        _ => {
            fail!("no such point can be sent by hand (use the same release of costof at both ends)")
        }
    }
}

fn check_conditions(loss: &Loss, Conditions { retry_ns, drop }: Conditions) -> Result {
    let retry = retry_ns.map(Duration::from_nanos);
    let reason = if !(0.0..=random_loss::MAX).contains(&drop) {
        "the receiver can drop 0 to 90 % of the datagrams (--drop)"
    } else if DATAGRAMS.iter().all(|(_, protocol)| *protocol != loss.over) {
        "`costof send` sends only rudp and study-datagrams (--over)"
    } else if retry.is_some() && loss.over != Over::Study {
        "rudp retransmits by the round trip that it measures (--over study-datagrams has --retry)"
    } else if retry.is_some_and(|retry| retry < MIN_RETRY) {
        "datagrams can be retransmitted after 1 ms at the earliest (--retry)"
    } else if retry.is_some_and(|retry| retry > MAX_RETRY) {
        "datagrams can be retransmitted after 10 s at the latest (--retry)"
    } else {
        return Ok(());
    };
    Err(Failure::unsupported(reason))
}

/// Only an echo needs messages of the receiver's own.
fn held_bytes(point: &At<CopySend>) -> u64 {
    /// A thread's buffer, its marks, and its bursts where it asks for them.
    const THREAD_BYTES: u64 = 24 << 20;
    if point.pattern == Pattern::Echo {
        return point.memory_bytes();
    }
    // Of each datagram the receiver knows the first word and its place: 24 bytes, for datagrams of
    // 64 or more.
    let first_words = if point.socket().is_datagrams() {
        point.size.saturating_mul(point.shape().count as u64) / 2
    } else {
        0
    };
    (point.threads as u64).saturating_mul(first_words.saturating_add(THREAD_BYTES))
}

/// What a machine that listens does for whoever calls it: the answering end of probes with two ends. Such a
/// role connects to nobody, starts no program and touches no file. Returns about how much memory it needs.
///
/// # Errors
/// If the launch is of anything else.
pub fn allowed(launch: &Launch) -> Result<u64> {
    let Some(first) = launch.points.first() else {
        fail!("a launch without points");
    };
    let probe = find(TABLE, &first.probe);
    let Some(probe) = probe.filter(|probe| probe.info.needs_link()) else {
        unsupported!("only probes with two ends are measured between two terminals");
    };
    let answers = probe.info.roles.len() == 2 && probe.info.roles[0] == launch.role;
    let is_one = |point: &Point| {
        point.probe == probe.info.id
            && probe.info.allows(&point.axes)
            && point.link.parse::<Link>().is_ok()
    };
    if !answers || !launch.points.iter().all(is_one) {
        fail!("no such role or point (use the same release of costof at both ends)");
    }
    let needed = match launch.by_hand {
        Some(_) if launch.points.len() > 1 => fail!("what is sent by hand has one point"),
        Some(by_hand) => checked(first, by_hand.conditions)?,
        None => {
            let held = |point| At::<CopySend>::read(point).map_or(0, |point| held_bytes(&point));
            let needed = |point| held(point).max((probe.memory_bytes)(point));
            launch.points.iter().map(needed).max().unwrap_or(0)
        }
    };
    Ok(needed.max(WORKER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::protocol::ByHand;
    use costof_model::testing::launch_message;

    #[test]
    fn an_address_and_what_carries_messages_go_together() {
        let (ip, unix) = ("127.0.0.1:7000", "unix:/tmp/costof");
        let asked = |address: &str, over: &str, more: &[(&'static str, u64)], drop| {
            let mut values = Vec::new();
            if !over.is_empty() {
                values.push(("over", AxisValue::Word(over.to_owned().into())));
            }
            let more = more.iter();
            values.extend(more.map(|(axis, value)| (*axis, AxisValue::Number(*value))));
            let conditions = Conditions { drop, ..Conditions::default() };
            super::asked(&address, address == unix, &values, conditions)
        };
        let sent = asked(unix, "", &[], 0.0).expect("it can be sent");
        assert_eq!(sent.axes.word("over"), "unix");
        for (over, more) in [("udp", ("threads", 2)), ("rudp", ("window", 8))] {
            assert!(asked(ip, over, &[more], 0.0).is_ok(), "{over}");
        }
        for (address, over, more, drop, says) in [
            (ip, "unix", &[][..], 0.0, "unix:PATH"),
            (unix, "tcp", &[], 0.0, "--over unix"),
            (unix, "rudp", &[], 0.0, "--over unix"),
            (ip, "rudp", &[("threads", 2)], 0.0, "no axis `threads`"),
            (ip, "tcp", &[("window", 8)], 0.0, "no axis `window`"),
            (ip, "tcp", &[], 0.1, "--over rudp"),
            (ip, "study-datagrams", &[("size", 65_500)], 0.0, "65499"),
            (ip, "rudp", &[("size", 2 << 20)], 0.0, "axis size"),
        ] {
            let error = asked(address, over, more, drop).expect_err("it cannot be");
            assert!(error.contains(says), "{error}");
        }
        let error = value("", "primitive", "two_copies").expect_err("no such word");
        assert!(error.contains("copy_and_send"), "{error}");
        assert_eq!(value("rudp", "over", "rudp"), Ok(AxisValue::Word("rudp".into())));
    }

    #[test]
    fn the_default_window_of_the_study_fits_its_receivers_queue() {
        let fits = |over, size| window_that_fits(over, size);
        assert_eq!(fits("study-datagrams", Some(20_000)), Some(6));
        assert_eq!(fits("study-datagrams", Some(65_499)), Some(1));
        // Ten of the default size fit, and the others have flow control.
        assert_eq!(fits("study-datagrams", None), None);
        assert_eq!(fits("rudp", Some(20_000)), None);
        assert_eq!(fits("tcp", Some(20_000)), None);
    }

    /// A launch of the answering end of this probe at its defaults.
    fn launch(probe: &Probe) -> Launch {
        let (axes, link) = (probe.info.defaults(), "loopback".into());
        let point = Point { probe: probe.info.id.clone(), axes, link };
        Launch { role: probe.info.roles[0].clone(), ..launch_message(vec![point]) }
    }

    #[test]
    fn who_listens_answers_and_does_nothing_else() {
        for probe in TABLE {
            let has_two_ends = probe.info.needs_link() && probe.info.roles.len() == 2;
            assert_eq!(allowed(&launch(probe)).is_ok(), has_two_ends, "{}", probe.info.id);
            let leads = probe.info.roles.last().cloned().unwrap_or_default();
            assert!(allowed(&Launch { role: leads, ..launch(probe) }).is_err());
        }
    }

    #[test]
    fn what_a_caller_sends_has_a_probes_axes_and_values() {
        for over in ["tcp", "rudp"] {
            let by_hand = |axes: Axes, conditions| {
                let mut launch = launch(probe_over(over));
                launch.points[0].axes = axes;
                launch.by_hand = Some(ByHand { messages: None, conditions });
                allowed(&launch)
            };
            let (none, defaults) = (Conditions::default(), probe_over(over).info.defaults());
            assert!(by_hand(defaults.clone(), none).is_ok());
            for wrong in [("size", AxisValue::Number(1 << 40)), ("colour", AxisValue::Number(1))] {
                assert!(by_hand(defaults.clone().with(wrong.0, wrong.1), none).is_err(), "{over}");
            }
            let dropping = by_hand(defaults, Conditions { drop: 0.1, ..none });
            assert_eq!(dropping.is_ok(), over == "rudp");
        }
        // What is sent by hand has one point: only that is checked.
        let small = launch(&copy::send::PROBE);
        let mut large = small.points[0].clone();
        for (axis, value) in [("threads", 64), ("size", 16 << 20)] {
            large.axes.0.insert(axis.into(), AxisValue::Number(value));
        }
        let two = vec![small.points[0].clone(), large.clone()];
        let by_hand = Some(ByHand::default());
        assert!(allowed(&Launch { points: two.clone(), by_hand, ..small.clone() }).is_err());
        // The largest of several, and never less than a worker itself takes, or the role by hand.
        let needs = |points, by_hand| {
            allowed(&Launch { points, by_hand, ..small.clone() }).expect("it is allowed")
        };
        assert_eq!(needs(two, None), needs(vec![large.clone()], None));
        assert!(needs(vec![large.clone()], None) >= needs(vec![large], by_hand));
        let mut datagrams = small.points[0].clone();
        datagrams.axes = datagrams.axes.with("over", "udp").with("source", "cold");
        datagrams.axes.0.insert("size".into(), AxisValue::Number(64));
        assert!(needs(vec![datagrams.clone()], None) >= needs(vec![datagrams], by_hand));
        for probe in TABLE {
            let is_little = |bytes| bytes < 64 << 20;
            assert!(!allowed(&launch(probe)).is_ok_and(is_little), "{}", probe.info.id);
        }
        // Memory for the largest messages of many threads.
        let held = |pattern| {
            let sent = CopySend { pattern, threads: 64, size: 64 << 20, ..CopySend::default() };
            held_bytes(&sent.into())
        };
        for pattern in [Pattern::Stream, Pattern::Trigger] {
            assert!(held(pattern) <= 2 << 30, "{pattern:?}");
        }
        assert!(held(Pattern::Echo) > 4 << 30);
    }

    #[test]
    fn conditions_are_those_of_the_protocol() {
        let (second, short) = (Duration::from_secs(1), Duration::from_micros(1));
        let long = Duration::from_secs(11);
        for (over, retry, drop, says) in [
            (Over::Study, Some(second), 0.3, ""),
            (Over::Rudp, None, 0.3, ""),
            (Over::Tcp, None, 0.0, "--over"),
            (Over::Rudp, Some(second), 0.0, "study-datagrams"),
            (Over::Study, Some(short), 0.0, "1 ms"),
            (Over::Study, Some(long), 0.0, "10 s"),
            (Over::Study, None, 0.95, "90 %"),
            (Over::Study, None, -0.1, "90 %"),
        ] {
            let retry_ns = retry.map(|retry| retry.as_nanos() as u64);
            let loss = Loss { over, ..Loss::default() };
            let checked = check_conditions(&loss, Conditions { retry_ns, drop });
            let reason = checked.err().map(|failure| failure.reason).unwrap_or_default();
            assert_eq!(reason.is_empty(), says.is_empty(), "{reason}");
            assert!(reason.contains(says), "{reason}");
        }
    }
}
