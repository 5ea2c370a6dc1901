//! Makes a run safe to show to strangers.

use costof_model::{Axis, AxisValue, Domain, Run, Text};
use percent_encoding::percent_decode_str;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Removes host names, addresses, folders and the command line.
pub(crate) fn anonymous(run: &mut Run) {
    run.run.command.clear();
    let mut names = names(run);
    names.extend(without_places(run));
    let secret: HashSet<String> = names.iter().flat_map(|name| parts(name)).collect();
    for row in &mut run.failures {
        row.reason = redacted(&row.reason, &secret);
    }
    let hosts = &mut run.run.plan.hosts;
    for host in [&mut hosts.on, &mut hosts.peer].into_iter().flatten() {
        let kind = host.split_once(':').map(|(kind, _)| kind.len() + 1);
        host.truncate(kind.unwrap_or(host.len()));
    }
    hosts.to = hosts.to.take().map(|_| "a host".to_owned());
    hosts.peer_address = None;
    hosts.remote_costof = None;
    for attempt in &mut run.attempts {
        attempt.boot = None;
        if let Some(peer) = &mut attempt.peer {
            peer.addresses = None;
        }
        for facts in attempt.hosts.values_mut() {
            *facts = facts.anonymous();
        }
    }
}

/// The names of hosts, programs and folders that reasons for failures may contain.
fn names(run: &Run) -> Vec<String> {
    let hosts = &run.run.plan.hosts;
    // `ssh:USER@HOST`
    let of_kinds = [&hosts.on, &hosts.peer].into_iter().flatten();
    let of_kinds = of_kinds.filter_map(|host| Some(host.split_once(':')?.1.to_owned()));
    let facts = run.attempts.iter().flat_map(|attempt| attempt.hosts.values());
    let of_machines = facts.flat_map(|facts| [&facts.host_name, &facts.temporary_folder]);
    let others = [&hosts.to, &hosts.remote_costof].into_iter().chain(of_machines);
    of_kinds.chain(others.flatten().cloned()).collect()
}

/// Replaces folders and URLs in all points, and returns them. A number distinguishes them, so that different points stay
/// different.
fn without_places(run: &mut Run) -> Vec<String> {
    let is_place = |axis: &&Axis| matches!(axis.domain, Domain::Place { .. });
    let axes = run.probes.iter().flat_map(|info| info.axes.iter());
    let axes: Vec<Text> = axes.filter(is_place).map(|axis| axis.name.clone()).collect();
    let planned = run.run.plan.blocks.iter_mut();
    let points = planned
        .flat_map(|block| &mut block.points)
        .chain(run.points.iter_mut().map(|row| &mut row.point))
        .chain(run.predictions.iter_mut().map(|row| &mut row.point))
        .chain(run.failures.iter_mut().map(|row| &mut row.point))
        .chain(
            run.launches
                .iter_mut()
                .flat_map(|row| &mut row.points)
                .map(|measured| &mut measured.point),
        );
    let mut places: Vec<Text> = Vec::new();
    for point in points {
        for (name, value) in &mut *point.axes.0 {
            match value {
                AxisValue::Word(word) if axes.contains(name) && word.contains('/') => {
                    let known = places.iter().position(|place| place == word);
                    let at = known.unwrap_or_else(|| {
                        places.push(word.clone());
                        places.len() - 1
                    });
                    *word = format!("…{}", at + 1).into();
                }
                _ => {}
            }
        }
    }
    run.launches_changed();
    places.iter().map(ToString::to_string).collect()
}

/// The parts of a name by which a text may mention it, without the scheme of a URL, which may be written decoded. Numbers
/// alone name nothing.
fn parts(name: &str) -> Vec<String> {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    let decoded = percent_decode_str(name).decode_utf8_lossy();
    [name, &decoded].into_iter().flat_map(words).map(str::to_owned).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.contains(char::is_alphabetic))
}

/// A reason without the words that have a part of a secret name, or look like paths, URLs or addresses: such a word may be
/// the address of a host name, which appears nowhere else in the run.
fn redacted(reason: &str, secret: &HashSet<String>) -> String {
    let redacted = |word: &str| {
        let around = |c: char| c.is_whitespace() || "(),;`'\"".contains(c);
        let bare = word.trim_end();
        let bare = bare.strip_suffix(':').unwrap_or(bare).trim_matches(around);
        let is_secret = words(bare).any(|part| secret.contains(part))
            || bare.starts_with('/')
            || bare.contains("://")
            || has_address(bare);
        if is_secret { word.replacen(bare, "…", 1) } else { word.to_owned() }
    };
    reason.split_inclusive(char::is_whitespace).map(redacted).collect()
}

/// Whether a word has a numeric address in it: alone, or with a port, a kind of host (`tcp:`), a user, an
/// interface or the length of a network's prefix.
fn has_address(word: &str) -> bool {
    let is_address =
        |text: &str| text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok();
    let is_around = |c: char| !c.is_alphanumeric() && c != '.' && c != ':';
    word.split(is_around).any(|part| {
        let after_kind = part.split_once(':').map(|(_, rest)| rest);
        [Some(part), after_kind].into_iter().flatten().any(|text| {
            let trimmed = text.trim_end_matches(['.', ':']);
            is_address(text) || is_address(trimmed)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_measure::probe;
    use costof_model::{
        Axes, FailureKind, FailureRow, LaunchPoint, LaunchRow, Noise, Placement, Point, State,
        testing,
    };

    const PROBE: &str = "file.remote";

    fn point(path: &str) -> Point {
        let mut axes = Axes::default().with("depth", 1);
        let path = AxisValue::Word(path.to_owned().into());
        axes.0.insert("path".into(), path);
        Point { probe: PROBE.into(), axes, link: "none".into() }
    }

    /// A run of these places with a launch of each, of which the first fails for these reasons.
    fn run(paths: &[&str], reasons: &[&str]) -> Run {
        let points: Vec<Point> = paths.iter().map(|path| point(path)).collect();
        let mut run = testing::planned([points.clone()]);
        let probe = probe::find(costof_probes::TABLE, PROBE).unwrap();
        run.probes.push((*probe.info).clone());
        run.launches = points
            .iter()
            .zip(0..)
            .map(|(point, launch)| LaunchRow {
                block: 0,
                launch,
                of: 2,
                wall_ns: 1.0,
                points: vec![LaunchPoint {
                    point: point.clone(),
                    state: State::Ok,
                    metrics: Vec::new(),
                    allocations: 0,
                }],
                noise: Noise::default(),
                placement: Placement::default(),
                link: None,
            })
            .collect();
        run.failures = reasons
            .iter()
            .map(|reason| FailureRow {
                point: points[0].clone(),
                block: 0,
                launch: None,
                kind: FailureKind::Error,
                reason: (*reason).to_owned(),
            })
            .collect();
        run
    }

    #[test]
    fn points_that_differ_in_their_place_do_so_still_and_have_their_launches() {
        let paths = ["nfs://one/e/f", "unset", "/mounted/f", "nfs://one/e/f"];
        let mut run = run(&paths, &["no answer"]);
        // Asked before, as a table may be.
        assert_eq!(run.launches_of(&point(paths[2])).count(), 1);
        anonymous(&mut run);
        let named = ["…1", "unset", "…2", "…1"].map(point);
        assert_eq!(run.run.plan.blocks[0].points, named);
        let launches = run.launches.iter().map(|row| row.points[0].point.clone());
        assert_eq!(launches.collect::<Vec<_>>(), named);
        assert_eq!(run.failures[0].point, named[0]);
        let numbers =
            |point: &Point| -> Vec<u32> { run.launches_of(point).map(|row| row.launch).collect() };
        assert_eq!(numbers(&named[0]), [0, 3]);
        assert_eq!(numbers(&named[2]), [2]);
        // Nothing is left to be taken out.
        let mut again = run.clone();
        anonymous(&mut again);
        assert_eq!(again, run);
    }

    #[test]
    fn reasons_name_no_address_and_no_path_however_it_is_written() {
        let url = "nfs://files.example/se%63ret/my%20own%2C%zz";
        for (reason, shown) in [
            ("NFS at 10.77.0.1:2049: no answer", "NFS at …: no answer"),
            ("10.77.0.1 runs no NFS version 3", "… runs no NFS version 3"),
            ("the portmapper at [fe80::1%2]:111: it", "the portmapper at …: it"),
            ("at ::1: (fe80::): (::1)", "at …: (…): (…)"),
            ("the worker on tcp:10.0.0.5:7000 closed", "the worker on … closed"),
            ("ssh:10.0.0.5: lost", "…: lost"),
            ("by ssh:2001:67:1::5, root@10.0.0.5.", "by …, …"),
            ("10.0.0.1/24 to fe80::1%eth0", "… to …"),
            ("[fe80::1%eth0]:111, src=10.0.0.5:/x", "…, …"),
            ("folders (/other: there is none, /: not)", "folders (…: there is none, …: not)"),
            ("there is no `my own,%zz`", "there is no `… …`"),
            ("/secret/my own,%zz was removed", "… … was removed"),
            ("write\nnfs://HOST/FILE\tor `/a`", "write\n…\tor `…`"),
            ("at 5 of 10 KiB/s: 1.5 s (12:30)", "at 5 of 10 KiB/s: 1.5 s (12:30)"),
        ] {
            let mut run = run(&[url], &[reason]);
            anonymous(&mut run);
            assert_eq!(run.failures[0].reason, shown, "{reason}");
        }
    }
}
