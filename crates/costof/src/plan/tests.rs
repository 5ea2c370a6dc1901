//! Plans of probes, without measuring them.

use super::cost::{Cost, LAUNCH_OVERHEAD, budget, launch_time};
use super::*;
use crate::cli::{Measuring, Quiet, RunOptions};
use costof_model::facts::{Cache, CacheKind, CpuSet};
use costof_model::plan::Settings;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

fn planned(request: Request<'_>, facts: &Facts, peer_link: Option<Link>) -> Plan {
    let target = Target {
        facts,
        placement: Placement::default(),
        hosts: Hosts::default(),
        peer_link,
    };
    plan(costof_probes::TABLE, &[request], target, &mut |_| true).unwrap()
}

/// The processors between which a run on `cpus` of eight sends a line.
fn pairs(cpus: &[u32], headlines_only: bool) -> Vec<[u64; 2]> {
    let probe = probe::find(costof_probes::TABLE, "sync.core_to_core").unwrap();
    let asked = Request {
        links: vec![Text::Borrowed("loopback")],
        links_asked: false,
        infos: vec![&probe.info],
        headlines_only,
        first_look: false,
        settings: Settings::new(),
        precision: Precision::Quick,
        launches: None,
    };
    let mut facts = Facts::default();
    facts.cpu.online = CpuSet::parse("0-7").unwrap();
    facts.run_cpus = cpus.to_vec();
    let plan = planned(asked, &facts, None);
    let points = plan.points();
    points
        .map(|point| ["from", "to"].map(|axis| point.axes.number(axis)))
        .collect()
}

/// What is planned of `copy.send` without settings: over these links where they are asked for, or
/// to a peer.
fn sends(links_asked: &[&'static str], to_peer: Option<Link>, headlines_only: bool) -> Plan {
    let probe = probe::find(costof_probes::TABLE, "copy.send").unwrap();
    let links = match links_asked {
        [] => &["loopback"],
        asked => asked,
    };
    let asked = Request {
        links: links.iter().copied().map(Text::Borrowed).collect(),
        links_asked: !links_asked.is_empty(),
        infos: vec![&probe.info],
        headlines_only,
        first_look: false,
        settings: Settings::new(),
        precision: Precision::Quick,
        launches: None,
    };
    planned(asked, &Facts::default(), to_peer)
}

/// The links of a plan, each with how many ways of sending it compares at 1 MiB.
fn compared(plan: &Plan) -> Vec<(&str, usize)> {
    let mut links: BTreeMap<&str, usize> = BTreeMap::new();
    let points = plan.points();
    for point in points.filter(|point| point.probe == "copy.send") {
        let is_large = point.axes.number("size") == 1 << 20;
        *links.entry(&point.link).or_default() += usize::from(is_large);
    }
    links.into_iter().collect()
}

#[test]
fn a_probes_own_plan_goes_over_the_links_that_it_names() {
    assert_eq!(
        compared(&sends(&[], None, false)),
        [("loopback", 3), ("sink", 12), ("veth", 3)]
    );
    // And one axis at a time, over each that is asked for.
    assert_eq!(compared(&sends(&["veth"], None, false)), [("veth", 3)]);
    assert_eq!(compared(&sends(&["sink"], None, false)), [("sink", 13)]);
    assert_eq!(compared(&sends(&["wan"], None, false)), [("wan", 1)]);
    let far = sends(&[], Some(Link::Remote), false);
    assert_eq!(compared(&far), [("remote", 3)]);
    assert_eq!(compared(&sends(&[], None, true)), [("loopback", 0)]);
}

#[test]
fn ways_that_are_compared_are_measured_at_what_is_set() {
    let planned = |words: &[(&str, &str)]| {
        let probe = probe::find(costof_probes::TABLE, "copy.send").unwrap();
        let settings = words.iter().map(|(axis, value)| {
            let values = value.split(',').map(str::to_owned).collect();
            ((*axis).to_owned(), values)
        });
        let asked = Request {
            links: vec![Text::Borrowed("loopback")],
            links_asked: false,
            infos: vec![&probe.info],
            headlines_only: false,
            first_look: false,
            settings: settings.collect(),
            precision: Precision::Quick,
            launches: None,
        };
        let plan = planned(asked, &Facts::default(), None);
        let ways = plan.points().map(|point| {
            assert_eq!(point.axes.number("size"), 2048);
            point.axes.word("primitive").to_owned()
        });
        ways.collect::<BTreeSet<_>>().len()
    };
    let size = ("size", "2KiB");
    assert_eq!(planned(&[size]), 9);
    assert_eq!(planned(&[size, ("primitive", "splice,two_copy")]), 2);
}

#[test]
fn a_plan_of_minutes_has_what_its_predictions_build_on() {
    let table = costof_probes::TABLE;
    let probes = |plan: &Plan| {
        let points = plan.points();
        points
            .map(|point| point.probe.clone())
            .collect::<BTreeSet<_>>()
    };
    let plan = sends(&[], None, false);
    let info = &probe::find(table, "copy.send").unwrap().info;
    for before in info.after.iter() {
        assert!(probes(&plan).contains(before), "{before}");
    }
    let level = |id: &str| {
        let mut blocks = plan.blocks.iter();
        blocks
            .find(|block| block.points[0].probe == id)
            .map(|block| block.level)
    };
    assert!(level("os.syscall") < level("copy.send"));
    assert_eq!(probes(&sends(&[], None, true)).len(), 1);
}

#[test]
fn only_what_is_more_than_headlines_takes_longer_than_usual() {
    let table = costof_probes::TABLE;
    let of = |headlines_only| {
        let plan = sends(&[], None, headlines_only);
        budget(table, &plan, Precision::Quick)
    };
    assert_eq!(of(true), Precision::Quick.budget());
    assert!(of(false) > Precision::Quick.budget());
    let cost = Cost::new(table, &sends(&[], None, false), Precision::Quick);
    let planned: usize = cost.links.values().map(|(points, _)| points).sum();
    assert_eq!(planned, cost.points);
    // A line for each of three links, for none, and the whole.
    assert_eq!(cost.sentence().lines().count(), 5);
}

#[test]
fn what_takes_turns_takes_as_long_as_its_pairs() {
    let interleaved = |budget_s| {
        let table = costof_probes::TABLE;
        let cost = Cost {
            launches: Precision::Default.launches(),
            once: Duration::from_secs(1),
            budget: Duration::from_secs(budget_s),
            ..Cost::new(table, &sends(&[], None, true), Precision::Quick)
        };
        let cost = cost.interleaved();
        (cost.launches, cost.time.as_secs())
    };
    // What is cut fits, but for the least.
    assert_eq!(interleaved(20), (20, 20));
    assert_eq!(interleaved(18), (20, 18));
    assert_eq!(interleaved(2), (20, 4));
}

/// What a launch of a probe's defaults takes, as far as measuring goes, in milliseconds.
fn launch_ms(id: &str, settings: &[(&'static str, u64)], precision: Precision) -> u128 {
    let probe = probe::find(costof_probes::TABLE, id).unwrap();
    let mut axes = probe.info.defaults();
    for (axis, value) in settings {
        axes = axes.with(axis, *value);
    }
    let block = Block {
        points: vec![Point {
            probe: probe.info.id.clone(),
            axes,
            link: Text::Borrowed("none"),
        }],
        labels: Vec::new(),
        level: 0,
        rounds: probe.rounds,
    };
    let time = launch_time(costof_probes::TABLE, &block, precision) - LAUNCH_OVERHEAD;
    time.as_millis()
}

#[test]
fn a_launch_takes_what_its_points_take_at_least() {
    assert_eq!(launch_ms("harness.null", &[], Precision::Quick), 14);
    assert_eq!(launch_ms("cpu.hiccup", &[], Precision::Quick), 333);
    assert_eq!(launch_ms("cpu.hiccup", &[], Precision::Full), 333);
    let sleep = [("sleep", 100_000_000)];
    assert_eq!(launch_ms("os.timer", &sleep, Precision::Default), 1600);
    assert_eq!(launch_ms("os.timer", &[], Precision::Full), 140);
}

#[test]
fn a_plan_names_only_processors_of_its_run() {
    assert_eq!(pairs(&[2, 3], false), [[2, 3]]);
    assert_eq!(pairs(&[5, 3, 2], true), [[3, 5]]);
    assert_eq!(pairs(&[5, 3, 2], false), [[3, 5], [2, 5], [2, 3]]);
    assert_eq!(pairs(&[1, 0], false), [[0, 1]]);
    // A row with the reason, and not two.
    assert_eq!(pairs(&[6], false).len(), 1);
}

#[test]
fn a_first_look_is_twenty_rows_of_which_each_is_there() {
    let mut facts = Facts::default();
    facts.cpu.caches = [1, 2, 3]
        .map(|level| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: 1 << (12 + 3 * level),
            ..Cache::default()
        })
        .into();
    let options = RunOptions::new(
        Measuring {
            quick: true,
            ..Measuring::default()
        },
        Quiet::default(),
        None,
    );
    let request = Request::new(costof_probes::TABLE, &options).unwrap();
    let plan = planned(request, &facts, None);
    let labels: Vec<&str> = plan
        .blocks
        .iter()
        .flat_map(|block| block.labels.iter().map(|(_, label)| &**label))
        .collect();
    assert_eq!(plan.points().count(), 20, "{labels:#?}");
    for row in known::ROWS {
        let mut found = plan.points().map(|point| &point.probe);
        assert!(found.any(|probe| *probe == row.0), "{row:?}");
    }
    // What is asked by name is all of it.
    let named = RunOptions {
        probes: vec!["os".to_owned()],
        ..options
    };
    let request = Request::new(costof_probes::TABLE, &named).unwrap();
    assert!(planned(request, &facts, None).points().count() > 20);
}
