//! What the kernel said of sends that asked for no copy, and why it copied after all.

use crate::finding::Finding;
use crate::memory_latency::facts;
use crate::ratio::{LogRatio, value};
use crate::send_crossover::is_paced;
use costof_model::Text;
use costof_model::link::Link;
use costof_model::link_end::LinkEnd;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::display_bytes;

/// From which share of the sends on all, and up to which none, have been copied: a few of a
/// connection's beginning may be of the other kind.
const ALL: f64 = 0.995;
const NONE: f64 = 0.005;
/// What the processor time is that the kernel's word is held against.
const TIME: &str = "cpu_sender";
/// From which size on copying is most of what a send takes, of a message that is cached, and of one
/// that is not.
const COPIES_SHOW_BYTES: (u64, u64) = (256 << 10, 48 << 10);
/// Below how many times the time of one copy there can have been none.
const LIKE_NO_COPY: f64 = 0.7;

/// What became of the sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Copied,
    NotCopied,
    Both,
    /// For none was there room to go without a copy, so that no completion tells of any.
    NoRoom,
}

/// A sentence for each link, protocol and way of asking, and what the processor time says of it.
pub(crate) fn zero_copy(run: &Run) -> Vec<Finding> {
    let mut groups: Vec<(Fate, Vec<&PointRow>)> = Vec::new();
    for row in run
        .points
        .iter()
        .filter(|row| row.point.probe == "copy.send")
    {
        let Some(fate) = fate(row) else {
            continue;
        };
        let alike = |(known, rows): &&mut (Fate, Vec<&PointRow>)| {
            *known == fate && subject(rows[0]) == subject(row)
        };
        match groups.iter_mut().find(alike) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((fate, vec![row])),
        }
    }
    let said = groups.iter().map(|(fate, rows)| said(run, *fate, rows));
    said.collect()
}

/// None where nobody asked.
fn fate(row: &PointRow) -> Option<Fate> {
    let Some(copied) = row.estimate("copied") else {
        return falls_back(row).then_some(Fate::NoRoom);
    };
    Some(match copied.median {
        copied if copied >= ALL => Fate::Copied,
        copied if copied <= NONE => Fate::NotCopied,
        _ => Fate::Both,
    })
}

/// Whether more than a few messages were copied at once, though the point asks for none to be.
pub(crate) fn falls_back(row: &PointRow) -> bool {
    row.estimate("fallbacks")
        .is_some_and(|fallbacks| fallbacks.median > NONE)
}

/// The link, what goes over it, and who asks.
fn subject(row: &PointRow) -> (&Text, Option<&str>, Option<&str>) {
    let axes = row.axes();
    (
        &row.point.link,
        axes.find_word("over"),
        axes.find_word("primitive"),
    )
}

fn said(run: &Run, fate: Fate, rows: &[&PointRow]) -> Finding {
    let (link, over, primitive) = subject(rows[0]);
    let (over, primitive) = (over.unwrap_or(""), primitive.unwrap_or(""));
    let Sends {
        asked,
        copied: copies,
        counted,
    } = Sends::of(run, rows);
    let sends = format!("{primitive} by {over} over {link}{}", sizes(rows));
    let copied = 100.0 * copies / asked.max(1.0);
    let verdict = match fate {
        Fate::Copied => format!(
            "copied {copied:.0} %: {}, so this measures a deferred copy",
            why_copied(run, rows[0]),
        ),
        Fate::NotCopied => format!(
            "{} of {} sends{counted} not copied",
            thousands(asked - copies.round()),
            thousands(asked),
        ),
        Fate::Both => format!(
            "copied {copied:.0} %, in part: {}",
            why_copied(run, rows[0])
        ),
        Fate::NoRoom => {
            "none was sent without a copy: ENOBUFS, as the socket's memory for options \
                         or that of locked pages had no room, so this measures a copy"
                .to_owned()
        }
    };
    let doubts = [
        time_beside_a_copy(run, rows),
        doubt(run, fate, rows),
        no_room(rows).filter(|_| fate != Fate::NoRoom),
    ];
    let doubts: String = doubts.into_iter().flatten().collect();
    let real = "`costof run copy.send --link sink` measures the sender's half where nothing is copied; between two machines \
                the network card decides";
    let close = "close it (ss --packet --processes names whose it is), and measure again";
    let advice = match (fate, link.parse()) {
        _ if no_room(rows).is_some() => Some(more_room(run)),
        (Fate::NotCopied, _) => None,
        (_, Ok(Link::Loopback | Link::Veth | Link::Emulated { .. })) => Some(real.to_owned()),
        _ => ends(run, rows[0])
            .iter()
            .find_map(|end| sniffed(end))
            .map(|_| close.to_owned()),
    };
    Finding {
        kind: "zero_copy".into(),
        sentence: format!("{sends}: {verdict}{doubts}"),
        advice,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    }
}

/// Sends that asked for no copy, and how many of them the kernel copied.
struct Sends {
    asked: f64,
    copied: f64,
    /// What is counted: a launch says what a round of it had.
    counted: &'static str,
}

impl Sends {
    /// Of all launches; where the run has none, as many as a launch has by the median.
    fn of(run: &Run, rows: &[&PointRow]) -> Sends {
        let launches = run.launches.iter().flat_map(|launch| &launch.points);
        let of_rows = launches.filter(|point| rows.iter().any(|row| row.point == point.point));
        let of_launches: Vec<(f64, f64)> = of_rows
            .filter_map(|point| Some((value(point, "asked")?, value(point, "copied")?)))
            .collect();
        let of_medians = || {
            let rows = rows.iter();
            rows.filter_map(|row| Some((row.median("asked")?, row.median("copied")?)))
                .collect()
        };
        let (sends, counted): (Vec<(f64, f64)>, _) = match of_launches.is_empty() {
            true => (of_medians(), " a launch"),
            false => (of_launches, " in a round of each launch"),
        };
        Sends {
            asked: sends.iter().map(|(asked, _)| asked).sum::<f64>().round(),
            copied: sends.iter().map(|(asked, copied)| asked * copied).sum(),
            counted,
        }
    }
}

/// ` at 4KiB`, or ` at 4KiB to 1MiB`.
fn sizes(rows: &[&PointRow]) -> String {
    let sizes = rows.iter().filter_map(|row| row.axes().find_number("size"));
    match (sizes.clone().min(), sizes.max()) {
        (Some(least), Some(most)) if least < most => {
            format!(" at {} to {}", display_bytes(least), display_bytes(most))
        }
        (Some(only), _) => format!(" at {}", display_bytes(only)),
        _ => String::new(),
    }
}

/// A count with a comma before every three digits.
fn thousands(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How the ends of the link were in the launches of a point.
fn ends<'a>(run: &'a Run, row: &PointRow) -> Vec<&'a LinkEnd> {
    let launches = run
        .launches
        .iter()
        .filter(|launch| launch.points.iter().any(|point| point.point == row.point));
    launches
        .flat_map(|launch| launch.noise.ends.values())
        .collect()
}

/// What makes the kernel copy, as far as the run shows it.
fn why_copied(run: &Run, row: &PointRow) -> String {
    let ends = ends(run, row);
    let mut causes: Vec<String> = Vec::new();
    match row.point.link.parse() {
        Ok(Link::Loopback) => causes.push("the receiver is on this machine (loopback)".to_owned()),
        Ok(Link::Veth) => {
            causes.push("the receiver is on this machine, in another namespace (veth)".to_owned())
        }
        Ok(Link::Emulated { .. }) => {
            causes.push("the packets go through this machine's own emulation".to_owned());
        }
        // Its device is a cable of this machine, and nobody is at its other end.
        Ok(Link::Sink) => {}
        _ => causes.extend(ends.iter().find_map(|end| leads_nowhere_else(end))),
    }
    let of_devices = [sniffed, cannot_gather];
    for cause in of_devices {
        causes.extend(ends.iter().find_map(|end| cause(end)));
    }
    match causes.as_slice() {
        [] => format!(
            "no cause is seen{} (a filter or driver on the way may copy)",
            no_causes(&ends, row)
        ),
        causes => causes.join(", and "),
    }
}

/// Which causes were looked at: what the kernel does not tell of a device is absent.
fn no_causes(ends: &[&LinkEnd], row: &PointRow) -> String {
    let known = |is_known: fn(&LinkEnd) -> bool| {
        let mut ends = ends.iter().filter(|end| end.device.is_some());
        ends.any(|end| is_known(end))
    };
    let is_sink = matches!(row.point.link.parse(), Ok(Link::Sink));
    let looked_at = [
        (!is_sink && known(|_| true), "no local route"),
        (
            !is_sink && known(|end| end.driver.is_some()),
            "no tun or tap device",
        ),
        (known(|end| end.sniffers.is_some()), "no sniffer"),
        (
            known(|end| end.offloads.contains_key("sg")),
            "the device gathers",
        ),
    ];
    let looked_at: Vec<&str> = looked_at
        .iter()
        .filter_map(|(is_known, cause)| is_known.then_some(*cause))
        .collect();
    match looked_at.split_last() {
        None => ", as the run tells nothing of the device".to_owned(),
        Some((only, [])) => format!(": {only}"),
        Some((last, others)) => format!(": {} and {last}", others.join(", ")),
    }
}

/// A device from which packets come back to this machine.
fn leads_nowhere_else(end: &LinkEnd) -> Option<String> {
    let device = end.device.as_deref()?;
    match (device, end.driver.as_deref()) {
        ("lo", _) => Some("the route is local, by lo".to_owned()),
        (_, Some("tun")) => Some(format!(
            "{device} is a tun or tap device, which a program reads"
        )),
        (_, Some("veth")) => Some(format!(
            "{device} is a veth device, so that the receiver may be on this machine"
        )),
        _ => None,
    }
}

fn sniffed(end: &LinkEnd) -> Option<String> {
    let device = end.device.as_deref()?;
    let is_open = end.sniffers.is_some_and(|sniffers| sniffers > 0);
    is_open.then(|| format!("a packet sniffer is open on {device} (tcpdump, AF_PACKET)"))
}

fn cannot_gather(end: &LinkEnd) -> Option<String> {
    let device = end.device.as_deref()?;
    let cannot = end.offloads.get("sg") == Some(&false);
    cannot.then(|| format!("{device} takes packets in one piece only (no scatter-gather)"))
}

/// The share of messages for which the kernel had no room for one more send without a copy.
fn no_room(rows: &[&PointRow]) -> Option<String> {
    let fallbacks = rows.iter().filter_map(|row| row.estimate("fallbacks"));
    let most = fallbacks
        .map(|estimate| estimate.median)
        .fold(0.0, f64::max);
    (most > 0.0).then(|| {
        let percent = 100.0 * most;
        let shown = match percent < 0.1 {
            true => "less than 0.1".to_owned(),
            false => format!("up to {percent:.1}"),
        };
        format!(
            "; {shown} % of the messages were copied at once, as there was no room for one more send \
             without (ENOBUFS)"
        )
    })
}

/// What gives that room.
fn more_room(run: &Run) -> String {
    let facts = facts(run);
    let sysctls = facts.map(|facts| &facts.kernel.sysctls);
    let bytes = sysctls.and_then(|sysctls| sysctls.get("net.core.optmem_max"));
    let here = bytes.map_or_else(String::new, |bytes| format!(", {bytes} B here"));
    let limit = facts.and_then(|facts| facts.inherited.rlimits.locked_memory_bytes?.soft);
    let lifted = facts.is_some_and(|facts| {
        let capabilities = facts.inherited.capabilities.as_ref();
        capabilities.is_some_and(|all| all.iter().any(|have| have == "ipc_lock"))
    });
    let locked = limit.filter(|_| !lifted).map_or_else(String::new, |bytes| {
        format!(
            ", or the limit of locked memory (ulimit -l, {} here)",
            display_bytes(bytes)
        )
    });
    format!("more room by a larger net.core.optmem_max (sysctl{here}){locked}")
}

/// The point that differs in how it sends alone, where that was measured too.
fn beside<'a>(run: &'a Run, row: &PointRow, primitive: &'static str) -> Option<&'a PointRow> {
    let axes = row.axes().clone().with("primitive", primitive);
    let axes = match row.axes().find_word("buffers") {
        Some(_) => axes.with("buffers", "plain"),
        None => axes,
    };
    run.points.iter().find(|other| {
        other.point.probe == row.point.probe
            && other.point.link == row.point.link
            && *other.axes() == axes
    })
}

/// The sender's processor time beside that of two copies where both were measured, least and most:
/// the kernel's word can be wrong both ways.
fn time_beside_a_copy(run: &Run, rows: &[&PointRow]) -> Option<String> {
    let mut ratios: Vec<(f64, u64)> = rows
        .iter()
        .filter_map(|row| {
            let copying = beside(run, row, "two_copy")?;
            let time = |row: &PointRow| Some(row.estimate(TIME)?.median);
            let ratio = time(row)? / time(copying)?;
            Some((ratio, row.axes().find_number("size")?))
        })
        .collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |(ratio, size): &(f64, u64)| format!("{ratio:.2} at {}", display_bytes(*size));
    let shown = match (ratios.first()?, ratios.last()?) {
        (only, _) if ratios.len() == 1 => at(only),
        (least, most) => format!("{} to {}", at(least), at(most)),
    };
    Some(format!(
        "; the sender's processor time is {shown} of that of two copies"
    ))
}

fn copies_show(row: &PointRow) -> u64 {
    match row.axes().find_word("source") {
        Some("cold") => COPIES_SHOW_BYTES.1,
        _ => COPIES_SHOW_BYTES.0,
    }
}

/// What a large message takes says whether it is copied: where that is surely as much as
/// with one copy the word that it was not is doubtful, and where it is far less the other one.
fn doubt(run: &Run, fate: Fate, rows: &[&PointRow]) -> Option<String> {
    let largest = rows
        .iter()
        .filter(|row| row.axes().find_number("size") >= Some(copies_show(row)))
        .filter_map(|row| {
            let copying = beside(run, row, "one_copy")?;
            let ratio = LogRatio::of(run, row, copying, TIME)?;
            Some((row.axes().find_number("size")?, ratio, *row))
        })
        .max_by_key(|(size, ..)| *size);
    let (size, ratio, row) = largest?;
    let [low, middle, high] = [ratio.low, ratio.middle, ratio.high].map(f64::exp);
    let beside = format!(
        "{middle:.2} times ({low:.2} to {high:.2}) what one copy takes at {}",
        display_bytes(size)
    );
    match fate {
        Fate::NotCopied if low > 1.0 && is_paced(run, row) => Some(format!(
            "; that it takes {beside} is bbr's pacing (--set congestion_control=reno)"
        )),
        Fate::NotCopied if low > 1.0 => Some(format!(
            "; doubtful, as it takes the sender {beside}, as a copy does: some drivers copy and say \
             that they did not"
        )),
        Fate::Copied if high < LIKE_NO_COPY => Some(format!(
            "; doubtful, as it takes the sender {beside}: too little for a copy"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, launch, point_row, run};
    use costof_model::axis::Axes;

    fn send(link: &'static str, primitive: &'static str, size: u64, cpu: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", primitive)
            .with("over", "tcp")
            .with("size", size)
            .with("buffers", "plain");
        let mut row = point_row("copy.send", "cpu_sender", axes, cpu, (cpu, cpu));
        row.point.link = link.into();
        row
    }

    fn completed(mut row: PointRow, asked: f64, copied: f64) -> PointRow {
        for (name, value) in [("asked", asked), ("copied", copied)] {
            let mut estimate = row.metrics[0].clone();
            estimate.name = name.into();
            estimate.median = value;
            row.metrics.push(estimate);
        }
        row
    }

    fn sentences(rows: Vec<PointRow>) -> Vec<String> {
        let mut run = run(&CLAIMED);
        run.points = rows;
        let findings = zero_copy(&run);
        findings.into_iter().map(|found| found.sentence).collect()
    }

    #[test]
    fn what_is_copied_says_why_and_what_is_not_says_how_many() {
        let sentences = sentences(vec![
            completed(send("loopback", "zero_copy", 65_536, 150.0), 900.0, 1.0),
            send("loopback", "two_copy", 65_536, 100.0),
            completed(send("sink", "zero_copy", 65_536, 60.0), 127_000.0, 0.0),
            completed(send("sink", "zero_copy", 1 << 20, 50.0), 212.0, 0.0),
            send("sink", "two_copy", 65_536, 120.0),
            send("sink", "two_copy", 1 << 20, 200.0),
        ]);
        assert_eq!(
            sentences,
            [
                "zero_copy by tcp over loopback at 64KiB: copied 100 %: the receiver is on this machine \
                 (loopback), so this measures a deferred copy; the sender's processor time is 1.50 \
                 at 64KiB of that of two copies",
                "zero_copy by tcp over sink at 64KiB to 1MiB: 127,212 of 127,212 sends a launch not copied; the sender's processor \
                 time is 0.25 at 1MiB to 0.50 at 64KiB of that of two copies",
            ]
        );
    }

    #[test]
    fn sends_are_counted_in_all_launches() {
        let mut run = run(&CLAIMED);
        let row = completed(send("sink", "zero_copy", 65_536, 60.0), 900.0, 0.001);
        for (asked, copied) in [(1000.0, 0.001), (2000.0, 0.002)] {
            launch(&mut run, &[(&row, &[("asked", asked), ("copied", copied)])]);
        }
        run.points.push(row);
        assert_eq!(
            zero_copy(&run)[0].sentence,
            "zero_copy by tcp over sink at 64KiB: 2,995 of 3,000 sends in a round of each launch not \
             copied"
        );
    }

    #[test]
    fn a_part_is_called_one_and_what_says_nothing_has_no_sentence() {
        let sentences = sentences(vec![
            completed(send("veth", "uring_zero_copy", 4096, 1.0), 100.0, 0.4),
            send("veth", "one_copy", 4096, 1.0),
        ]);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].contains("copied 40 %, in part: the receiver"),
            "{sentences:?}"
        );
    }

    /// The end of a launch's link that sent this point.
    fn with_end(run: &mut Run, row: &PointRow, end: LinkEnd) {
        run.points.push(row.clone());
        let ok = costof_model::rows::LaunchPoint {
            point: row.point.clone(),
            state: costof_model::rows::State::Ok,
            metrics: Vec::new(),
            allocations: 0,
        };
        run.launches.push(costof_model::rows::LaunchRow {
            block: 0,
            launch: 0,
            of: 1,
            wall_ns: 1e9,
            points: vec![ok],
            noise: costof_model::noise::Noise {
                ends: [("sender".into(), end)].into_iter().collect(),
                ..costof_model::noise::Noise::default()
            },
            placement: costof_model::noise::Placement::default(),
            link: None,
        });
    }

    fn device(name: &str, driver: Option<&str>) -> LinkEnd {
        LinkEnd {
            device: Some(name.to_owned()),
            driver: driver.map(str::to_owned),
            sniffers: Some(0),
            offloads: [("sg".into(), true)].into_iter().collect(),
            ..LinkEnd::default()
        }
    }

    #[test]
    fn causes_are_those_that_are_seen() {
        let sniffed = LinkEnd {
            sniffers: Some(1),
            ..device("costof", Some("veth"))
        };
        let in_one_piece = LinkEnd {
            offloads: [("sg".into(), false)].into_iter().collect(),
            ..device("eth0", Some("8139too"))
        };
        for (link, end, says) in [
            (
                "remote",
                device("lo", None),
                "the route is local, by lo, so",
            ),
            (
                "remote",
                device("tap0", Some("tun")),
                "tap0 is a tun or tap device",
            ),
            (
                "remote",
                device("eth0", Some("veth")),
                "may be on this machine",
            ),
            (
                "remote",
                device("eth0", Some("mlx5_core")),
                "no cause is seen: no local route, no tun or tap device, no sniffer and the device \
                 gathers (a filter",
            ),
            (
                "remote",
                LinkEnd {
                    device: Some("eth0".to_owned()),
                    ..LinkEnd::default()
                },
                "no cause is seen: no local route (a filter",
            ),
            (
                "remote",
                LinkEnd::default(),
                "no cause is seen, as the run tells nothing of the device (a filter",
            ),
            (
                "remote",
                in_one_piece,
                "eth0 takes packets in one piece only",
            ),
            (
                "sink",
                sniffed.clone(),
                "copied 100 %: a packet sniffer is open on costof",
            ),
            (
                "veth",
                sniffed,
                "(veth), and a packet sniffer is open on costof (tcpdump, AF_PACKET), so",
            ),
        ] {
            let mut run = run(&CLAIMED);
            let row = completed(send(link, "zero_copy", 65_536, 60.0), 10.0, 1.0);
            with_end(&mut run, &row, end);
            let Finding {
                sentence, advice, ..
            } = zero_copy(&run).remove(0);
            assert!(sentence.contains(says), "{sentence}");
            let closes = advice.is_some_and(|advice| advice.starts_with("close it"));
            assert_eq!(closes, link == "sink", "{sentence}");
        }
    }

    #[test]
    fn the_flag_is_held_against_processor_time() {
        let times = |link, zero, copied| {
            let rows = vec![
                completed(send(link, "zero_copy", 1 << 20, zero), 10.0, copied),
                send(link, "one_copy", 1 << 20, 100.0),
            ];
            sentences(rows).remove(0)
        };
        assert!(!times("sink", 50.0, 0.0).contains("doubtful"));
        assert!(!times("loopback", 110.0, 1.0).contains("doubtful"));
        assert!(times("sink", 120.0, 0.0).ends_with(
            "; doubtful, as it takes the sender 1.20 times (1.20 to 1.20) what one copy takes at 1MiB, \
             as a copy does: some drivers copy and say that they did not"
        ));
        assert!(times("loopback", 50.0, 1.0).contains("too little for a copy"));
    }

    #[test]
    fn sends_for_which_there_is_no_room_name_what_gives_it() {
        let mut row = completed(send("sink", "zero_copy", 65_536, 60.0), 10.0, 0.0);
        let mut fallbacks = row.metrics[0].clone();
        (fallbacks.name, fallbacks.median) = ("fallbacks".into(), 0.25);
        row.metrics.push(fallbacks);
        let mut run = run(&CLAIMED);
        run.points.push(row);
        let facts = run.attempts[0].hosts.get_mut("only").unwrap();
        let sysctls = &mut facts.kernel.sysctls;
        sysctls.insert("net.core.optmem_max".to_owned(), "131072".to_owned());
        let found = zero_copy(&run).remove(0);
        assert!(found.sentence.contains("up to 25.0 %"), "{found:?}");
        assert_eq!(
            found.advice.as_deref(),
            Some("more room by a larger net.core.optmem_max (sysctl, 131072 B here)")
        );
    }

    #[test]
    fn where_there_is_room_for_none_that_is_said_though_nothing_was_completed() {
        let mut row = send("sink", "zero_copy", 65_536, 60.0);
        let mut fallbacks = row.metrics[0].clone();
        (fallbacks.name, fallbacks.median) = ("fallbacks".into(), 1.0);
        row.metrics.push(fallbacks);
        let mut run = run(&CLAIMED);
        run.points.push(row);
        let found = zero_copy(&run).remove(0);
        assert_eq!(
            found.sentence,
            "zero_copy by tcp over sink at 64KiB: none was sent without a copy: ENOBUFS, as the \
             socket's memory for options or that of locked pages had no room, so this measures a copy"
        );
        assert!(found.advice.unwrap().starts_with("more room by"));
        run.points[0].metrics[1].median = 0.0;
        assert_eq!(zero_copy(&run), []);
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        let shown = [0.0, 999.0, 1000.0, 127_212.0, 1_234_567.0].map(thousands);
        assert_eq!(shown, ["0", "999", "1,000", "127,212", "1,234,567"]);
    }
}
