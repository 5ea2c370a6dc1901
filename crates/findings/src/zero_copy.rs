//! What the kernel reported about sends that asked for no copy, and why it copied after all.

use crate::interval::value;
use crate::naming::varying;
use crate::pairs::{any_same_but, ends};
use crate::sends::{MORE_ROOM, NONE, PROBE, falls_back, is_paced, link_ends};
use crate::text::{self, bytes, maybe, percent, range, span, times, whole};
use crate::{Finding, Interval, Kind};
use costof_model::unit::grouped;
use costof_model::{Link, LinkEnd, PointRow, Run, Select};

/// From this share on, all sends count as copied: a few at the beginning of a connection may not be.
const ALL: f64 = 0.995;
/// The CPU time to compare with the kernel's report.
const TIME: &str = "cpu_sender";
/// From this size on, copying is most of the cost of a send: for messages in the cache, and for others.
const COPIES_SHOW_BYTES: u64 = 256 << 10;
const COLD_COPIES_SHOW_BYTES: u64 = 48 << 10;
/// A CPU time below this share of the time of one copy means that there was no copy.
const LIKE_NO_COPY: f64 = 0.7;

/// What happened to the sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Copied,
    NotCopied,
    Both,
    /// The kernel had room for none of them without a copy, so completions say nothing.
    NoRoom,
}

/// A finding for each link, protocol and way of asking, with what the CPU time says about it. It uses all
/// rows, since the kernel's report is the same on a busy machine.
pub(crate) fn zero_copy(run: &Run) -> Vec<Finding> {
    let groups = run.select_any(PROBE).group_with(|row| {
        let subject = (&*row.point.link, row.word("over"), row.word("primitive"));
        Some((fate(row)?, subject))
    });
    let found = groups.iter().map(|((fate, subject), rows)| finding(run, *fate, *subject, rows));
    found.collect()
}

/// None if no send asked for no copy.
fn fate(row: &PointRow) -> Option<Fate> {
    match row.counted("copied") {
        None => falls_back(row).then_some(Fate::NoRoom),
        Some(copied) if copied >= ALL => Some(Fate::Copied),
        Some(copied) if copied <= NONE => Some(Fate::NotCopied),
        Some(_) => Some(Fate::Both),
    }
}

fn finding(
    run: &Run,
    fate: Fate,
    (link, over, primitive): (&str, Option<&str>, Option<&str>),
    rows: &Select<'_>,
) -> Finding {
    let Sends { asked, copied, counted } = sends(run, rows);
    let (causes, share) = (causes(run, rows[0]), percent(copied / asked.max(1.0)));
    let verdict = match fate {
        Fate::Copied => format!("copied {share} %: {causes}, so this measures a deferred copy"),
        Fate::NotCopied => {
            let [spared, asked] =
                [asked - copied.round(), asked].map(|count| grouped(&whole(count)));
            format!("{spared} of {asked} sends{counted} not copied")
        }
        Fate::Both => format!("copied {share} %, in part: {causes}"),
        Fate::NoRoom => "none was sent without a copy, so this measures a copy (ENOBUFS: the socket's memory for \
                         options, or that of locked pages, was used up)"
            .to_owned(),
    };
    let sizes = rows.clone().by_number("size");
    let (smallest, largest) =
        (sizes.first().map(|(size, _)| *size), sizes.last().map(|(size, _)| *size));
    let no_room = no_room(rows);
    let fallbacks = maybe(no_room.as_ref().filter(|_| fate != Fate::NoRoom), |share| {
        format!(
            "; the kernel copied {share} % of the messages at once, because it had no room for another uncopied \
             send (ENOBUFS)"
        )
    });
    let sentence = format!(
        "{primitive} by {over} over {link}{smallest}{largest}: {verdict}{cpu_time}{doubt}{fallbacks}",
        primitive = primitive.unwrap_or(""),
        over = over.unwrap_or(""),
        link = text::link(link),
        smallest = maybe(smallest, |size| format!(" at {}", bytes(size))),
        largest =
            maybe(largest.filter(|_| largest != smallest), |size| format!(" to {}", bytes(size))),
        cpu_time = time_of_two_copies(run, rows),
        doubt = doubt(run, fate, rows).unwrap_or_default(),
    );
    let copies_are_here =
        matches!(link.parse(), Ok(Link::Loopback | Link::Veth | Link::Emulated { .. }));
    let is_sniffed = link_ends(run, rows[0]).any(|end| sniffed(end).is_some());
    let advice = match fate {
        _ if no_room.is_some() => MORE_ROOM.to_owned(),
        Fate::NotCopied => String::new(),
        _ if copies_are_here => {
            "`costof run copy.send --link sink` measures the sender's half where nothing is \
                                 copied; between two machines the network card decides"
                .to_owned()
        }
        _ if is_sniffed => {
            "close it (`ss --packet --processes` names its process), and measure again".to_owned()
        }
        _ => String::new(),
    };
    Finding::new(Kind::ZeroCopy, rows.iter().copied(), sentence).advise(advice)
}

/// How many sends asked for no copy, and how many of them the kernel copied.
struct Sends {
    asked: f64,
    copied: f64,
    /// The name of the counted unit: the counts of a launch are for one of its rounds.
    counted: &'static str,
}

/// The counts of all launches; if the run has no launches, the medians per launch.
fn sends(run: &Run, rows: &Select<'_>) -> Sends {
    let launched = run.launches.iter().flat_map(|launch| &launch.points);
    let launched: Vec<(f64, f64)> = launched
        .filter(|point| rows.iter().any(|row| row.point == point.point))
        .filter_map(|point| Some((value(point, "asked")?, value(point, "copied")?)))
        .collect();
    let (sends, counted): (Vec<(f64, f64)>, _) = if launched.is_empty() {
        let medians = rows.iter();
        let medians =
            medians.filter_map(|row| Some((row.counted("asked")?, row.counted("copied")?)));
        (medians.collect(), " a launch")
    } else {
        (launched, " in a round of each launch")
    };
    Sends {
        asked: sends.iter().map(|(asked, _)| asked).sum::<f64>().round(),
        copied: sends.iter().map(|(asked, copied)| asked * copied).sum(),
        counted,
    }
}

/// Why the kernel copies, as far as the run shows it.
fn causes(run: &Run, row: &PointRow) -> String {
    let ends: Vec<&LinkEnd> = link_ends(run, row).collect();
    let here = |how: &str| Some(format!("the receiver is on this machine{how}"));
    let of_route = match row.point.link.parse() {
        Ok(Link::Loopback) => here(" (loopback)"),
        Ok(Link::Veth) => here(", in another namespace (veth)"),
        Ok(Link::Emulated { .. }) => {
            Some("the packets go through this machine's own emulation".to_owned())
        }
        // Its device is a cable of this machine, and nobody listens at the other end.
        Ok(Link::Sink) => None,
        _ => ends.iter().find_map(|end| leads_nowhere_else(end)),
    };
    let of_devices = [sniffed, cannot_gather]
        .into_iter()
        .filter_map(|cause| ends.iter().find_map(|end| cause(end)));
    let causes: Vec<String> = of_route.into_iter().chain(of_devices).collect();
    match causes.is_empty() {
        true if ends.iter().all(|end| end.device.is_none()) => {
            "the run does not describe the device, so no cause was looked for".to_owned()
        }
        true => "no cause was found (a filter or driver on the way may copy)".to_owned(),
        false => causes.join(", and "),
    }
}

/// Whether the device returns packets to this machine.
fn leads_nowhere_else(end: &LinkEnd) -> Option<String> {
    let device = end.device.as_deref()?;
    match (device, end.driver.as_deref()) {
        ("lo", _) => Some("the route is local (lo)".to_owned()),
        (_, Some("tun")) => Some(format!("{device} is a tun or tap device, which a program reads")),
        (_, Some("veth")) => {
            Some(format!("{device} is a veth device, so that the receiver may be on this machine"))
        }
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
    cannot.then(|| format!("{device} accepts contiguous packets only (no scatter-gather)"))
}

/// The percentage of messages for which the kernel had no room for another send without a copy.
fn no_room(rows: &Select<'_>) -> Option<String> {
    let (_, most) = span(rows.iter().filter_map(|row| row.counted("fallbacks")))?;
    let percent = 100.0 * most;
    let share =
        if percent < 0.1 { "less than 0.1".to_owned() } else { format!("up to {percent:.1}") };
    (most > 0.0).then_some(share)
}

/// The point that differs only in its way of sending, if it was measured.
fn sent_by<'a>(run: &'a Run, row: &PointRow, primitive: &'static str) -> Option<&'a PointRow> {
    let words = [("primitive", primitive), ("buffers", "plain")];
    let has_buffers = row.word("buffers").is_some();
    any_same_but(run, row, if has_buffers { &words } else { &words[..1] })
}

/// The sender's CPU time relative to that of two copies if both were measured: the smallest and the largest
/// ratio. The kernel's report can be wrong in both directions.
fn time_of_two_copies(run: &Run, rows: &Select<'_>) -> String {
    let ratios = rows.iter().copied().filter_map(|row| {
        let copying = sent_by(run, row, "copy_and_send")?;
        let ratio = Interval::log_ratio(run, row, copying, TIME)?.exp();
        Some((ratio.middle, row.number("size")?, row))
    });
    let mut ratios: Vec<(f64, u64, &PointRow)> = ratios.collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let compared: Vec<&PointRow> = ratios.iter().map(|(.., row)| *row).collect();
    let ratios = ends(ratios).into_iter().map(|(ratio, size, row)| {
        let others = varying(run, row, &compared, "size");
        format!("{} at {}{others}", times(ratio), bytes(size))
    });
    let ratios: Vec<String> = ratios.collect();
    let ratios = (!ratios.is_empty()).then(|| ratios.join(" to "));
    maybe(ratios, |ratios| format!("; the sender's CPU time is {ratios} of that of two copies"))
}

/// The CPU time of a large message shows whether it was copied. If the kernel reports no copy and the time is
/// surely as long as with one copy, the report is doubtful; likewise if it reports a copy and the time is far
/// shorter.
fn doubt(run: &Run, fate: Fate, rows: &Select<'_>) -> Option<String> {
    let large_enough = |row: &PointRow| match row.word("source") {
        Some("cold") => COLD_COPIES_SHOW_BYTES,
        _ => COPIES_SHOW_BYTES,
    };
    let by_size = rows.clone().by_number("size").into_iter();
    let large = by_size.filter(|(size, row)| *size >= large_enough(row));
    let compared = large.filter_map(|(size, row)| {
        let copying = sent_by(run, row, "sendmsg")?;
        Some((size, row, Interval::log_ratio(run, row, copying, TIME)?.exp()))
    });
    let (size, row, Interval { low, middle, high }) = compared.last()?;
    let (size, middle, ends) = (bytes(size), times(middle), range((low, high), times));
    let doubtful = format!(
        "; doubtful: at {size} the sender takes {middle} times as long as with one copy ({ends})"
    );
    match fate {
        Fate::NotCopied if low > 1.0 && !is_paced(run, row) => Some(format!(
            "{doubtful}, so it may have copied: some drivers copy and report that they did not"
        )),
        Fate::Copied if high < LIKE_NO_COPY => Some(format!("{doubtful}, too little for a copy")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{
        CLAIMED, RowExt, add_metric, axes, contains, launch, point_row, reads, run,
    };

    fn send(link: &'static str, primitive: &'static str, size: u64, cpu: f64) -> PointRow {
        let axes = axes!(primitive, over = "tcp", size, buffers = "plain");
        point_row("copy.send", "cpu_sender", axes, cpu, (cpu, cpu)).over(link)
    }

    fn completed(mut row: PointRow, asked: f64, copied: f64) -> PointRow {
        for (name, value) in [("asked", asked), ("copied", copied)] {
            add_metric(&mut row, name, value);
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
            completed(send("loopback", "msg_zerocopy", 65_536, 150.0), 900.0, 1.0),
            send("loopback", "copy_and_send", 65_536, 100.0),
            completed(send("sink", "msg_zerocopy", 65_536, 60.0), 127_000.0, 0.0),
            completed(send("sink", "msg_zerocopy", 1 << 20, 50.0), 212.0, 0.0),
            send("sink", "copy_and_send", 65_536, 120.0),
            send("sink", "copy_and_send", 1 << 20, 200.0),
        ]);
        reads!(&sentences);
    }

    #[test]
    fn sends_are_counted_in_all_launches() {
        let mut run = run(&CLAIMED);
        let row = completed(send("sink", "msg_zerocopy", 65_536, 60.0), 900.0, 0.001);
        for (asked, copied) in [(1000.0, 0.001), (2000.0, 0.002)] {
            launch(&mut run, &[(&row, &[("asked", asked), ("copied", copied)])]);
        }
        run.points.push(row);
        reads!(zero_copy(&run));
    }

    #[test]
    fn a_part_is_called_one_and_what_says_nothing_has_no_sentence() {
        let sentences = sentences(vec![
            completed(send("veth", "io_uring_send_zc", 4096, 1.0), 100.0, 0.4),
            send("veth", "sendmsg", 4096, 1.0),
        ]);
        assert_eq!(sentences.len(), 1);
        contains(&sentences[0], "copied 40 %, in part");
    }

    /// Adds the link end of the launch that sent this point.
    fn with_end(run: &mut Run, row: &PointRow, end: LinkEnd) {
        run.points.push(row.clone());
        launch(run, &[(row, &[])]);
        run.launches[0].noise.ends.insert("sender".into(), end);
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
        let sniffed = LinkEnd { sniffers: Some(1), ..device("costof", Some("veth")) };
        let in_one_piece = LinkEnd {
            offloads: [("sg".into(), false)].into_iter().collect(),
            ..device("eth0", Some("8139too"))
        };
        let found = [
            ("remote", device("lo", None)),
            ("remote", device("tap0", Some("tun"))),
            ("remote", device("eth0", Some("veth"))),
            ("remote", device("eth0", Some("mlx5_core"))),
            ("remote", in_one_piece),
            ("sink", sniffed.clone()),
            ("veth", sniffed),
        ]
        .map(|(link, end)| {
            let mut run = run(&CLAIMED);
            let row = completed(send(link, "msg_zerocopy", 65_536, 60.0), 10.0, 1.0);
            with_end(&mut run, &row, end);
            zero_copy(&run).remove(0).with_advice()
        });
        reads!(&found);
    }

    #[test]
    fn the_flag_is_held_against_processor_time() {
        let times = |link, zero, copied| {
            let rows = vec![
                completed(send(link, "msg_zerocopy", 1 << 20, zero), 10.0, copied),
                send(link, "sendmsg", 1 << 20, 100.0),
            ];
            sentences(rows).remove(0)
        };
        assert!(!times("sink", 50.0, 0.0).contains("doubtful"));
        assert!(!times("loopback", 110.0, 1.0).contains("doubtful"));
        let doubtful = times("sink", 120.0, 0.0);
        assert!(doubtful.contains("doubtful") && doubtful.contains("1.20 times"), "{doubtful}");
        assert!(times("loopback", 50.0, 1.0).contains("too little"));
    }

    #[test]
    fn sends_for_which_there_is_no_room_name_what_gives_it() {
        let mut row = completed(send("sink", "msg_zerocopy", 65_536, 60.0), 10.0, 0.0);
        add_metric(&mut row, "fallbacks", 0.25);
        let mut run = run(&CLAIMED);
        run.points.push(row);
        let found = zero_copy(&run).remove(0);
        contains(&found.sentence, "up to 25.0 %");
        assert_eq!(found.advice.as_deref(), Some(MORE_ROOM));
    }

    #[test]
    fn where_there_is_room_for_none_that_is_said_though_nothing_was_completed() {
        let mut row = send("sink", "msg_zerocopy", 65_536, 60.0);
        add_metric(&mut row, "fallbacks", 1.0);
        let mut run = run(&CLAIMED);
        run.points.push(row);
        let found = zero_copy(&run).remove(0);
        reads!([&found.sentence]);
        assert!(found.advice.unwrap().starts_with("raise net.core.optmem_max"));
        run.points[0].metrics[1].median = 0.0;
        assert_eq!(zero_copy(&run), []);
    }
}
