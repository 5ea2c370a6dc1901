//! Plans of probes, without measuring them.

use super::cost::{Cost, LAUNCH_OVERHEAD, budget, fit, launch_time};
use super::*;
use crate::cli::{Chosen, Measuring, RunOptions};
use costof_model::facts::{Cache, CacheKind, NumaNode};
use costof_model::plan::setting;
use costof_model::prediction::Used;
use costof_model::{CpuSet, MeasuredRows, PointRow, Settings, testing};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

fn planned(request: Request, facts: &Facts, peer_link: Option<Link>) -> Plan {
    let target = Target {
        facts,
        placement: Placement::default(),
        hosts: Hosts::default(),
        peer_link,
        earlier: &|_| Vec::new(),
    };
    plan(costof_probes::TABLE, &quick(), &[request], target, &mut |_| true).unwrap()
}

fn quick() -> RunOptions {
    let measuring = Measuring { quick: true, ..Measuring::default() };
    RunOptions::new(measuring, None)
}

/// What is asked of a probe by its name alone, without what predictions build on.
fn request_for(probe: &str) -> Request {
    let probe = probe::find(costof_probes::TABLE, probe).unwrap();
    Request {
        links: vec![Text::Borrowed("loopback")],
        links_asked: false,
        infos: vec![&probe.info],
        headlines_only: false,
        known_only: false,
        settings: Settings::new(),
        left_out: Vec::new(),
        places: Settings::new(),
        with_needed: false,
        fits_budget: true,
        is_first_look: false,
    }
}

/// The processors between which a run on `cpus` of eight sends a line.
fn pairs(cpus: &[u32], headlines_only: bool) -> Vec<[u64; 2]> {
    let asked = Request { headlines_only, ..request_for("sync.core_to_core") };
    let mut facts = Facts::default();
    facts.cpu.online = CpuSet::parse("0-7").unwrap();
    facts.run_cpus = cpus.to_vec();
    let plan = planned(asked, &facts, None);
    let points = plan.points();
    points.map(|point| ["from", "to"].map(|axis| point.axes.number(axis))).collect()
}

/// What is planned of `copy.send` without settings: over these links where they are asked for, or
/// to a peer.
fn sends(links_asked: &[&'static str], to_peer: Option<Link>, headlines_only: bool) -> Plan {
    let links = match links_asked {
        [] => &["loopback"],
        asked => asked,
    };
    let asked = Request {
        links: links.iter().copied().map(Text::Borrowed).collect(),
        links_asked: !links_asked.is_empty(),
        headlines_only,
        ..request_for("copy.send")
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
    assert_eq!(compared(&sends(&[], None, false)), [("loopback", 3), ("sink", 12), ("veth", 3)]);
    // And one axis at a time, over each that is asked for.
    assert_eq!(compared(&sends(&["veth"], None, false)), [("veth", 3)]);
    assert_eq!(compared(&sends(&["sink"], None, false)), [("sink", 13)]);
    assert_eq!(compared(&sends(&["wan"], None, false)), [("wan", 1)]);
    let far = sends(&[], Some(Link::Remote), false);
    assert_eq!(compared(&far), [("remote", 3)]);
    assert_eq!(compared(&sends(&[], None, true)), [("loopback", 0)]);
}

/// The points of a probe alone where these axes have these values.
fn set(probe: &str, words: &[(&str, &str)]) -> Vec<Point> {
    let settings = words.iter().map(|(axis, values)| {
        let values = values.split(',').map(str::to_owned).collect();
        ((*axis).to_owned(), values)
    });
    let asked = Request { settings: settings.collect(), ..request_for(probe) };
    let mut facts = Facts::default();
    facts.cpu.online = CpuSet::parse("0-3").unwrap();
    planned(asked, &facts, None).points().cloned().collect()
}

#[test]
fn what_the_machine_cannot_have_is_planned_only_if_named() {
    let cpu = CpuSet::parse("0").unwrap();
    let size_bytes = 192 << 10;
    let (kind, shared_by) = (CacheKind::Unified, vec![cpu.clone()]);
    let cache = Cache { level: 2, kind, size_bytes, shared_by, ..Cache::default() };
    let mut facts = Facts::default();
    (facts.cpu.online, facts.cpu.caches) = (cpu, vec![cache]);
    let sizes = |settings: Settings| {
        let asked = Request { settings, ..request_for("node.core") };
        let points: Vec<Point> = planned(asked, &facts, None).points().cloned().collect();
        let cached = points.into_iter().filter(|point| point.axes.find_word("work") == Some("l2"));
        let cached: Vec<Point> = cached.collect();
        values(&cached)["size"].clone().into_iter().collect::<Vec<_>>().join(" ")
    };
    // Half of the cache, instead of the default.
    assert_eq!(sizes(Settings::new()), (size_bytes / 2).to_string());
    let named = [("work", "l2"), ("size", "128KiB")];
    let named = named.map(|(axis, value)| (axis.to_owned(), vec![value.to_owned()]));
    assert_eq!(sizes(Settings::from(named)), (128 << 10).to_string());
}

#[test]
fn only_the_bare_quick_run_is_a_first_look() {
    let bare = quick;
    let chosen = |chosen| RunOptions { chosen, ..bare() };
    for (options, is_first_look) in [
        (bare(), true),
        (RunOptions::default(), false),
        (RunOptions { probes: vec!["os.syscall".to_owned()], ..bare() }, false),
        (chosen(Chosen { launches: Some(3), ..Chosen::default() }), false),
        (chosen(Chosen { links: vec!["lan".parse().unwrap()], ..Chosen::default() }), false),
        (
            chosen(Chosen {
                settings: vec![("threads".to_owned(), vec!["1".to_owned()])],
                ..Chosen::default()
            }),
            false,
        ),
    ] {
        let request = Request::new(costof_probes::TABLE, &options).unwrap();
        assert_eq!(request.is_first_look, is_first_look, "{options:?}");
    }
}

/// The values of each axis, and the links, in points.
fn values(points: &[Point]) -> BTreeMap<String, BTreeSet<String>> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for point in points {
        let axes = point.axes.0.iter().map(|(axis, value)| (axis.to_string(), value.to_string()));
        for (axis, value) in axes.chain([("over".to_owned() + " link", point.link.to_string())]) {
            values.entry(axis).or_default().insert(value);
        }
    }
    values
}

#[test]
fn a_plan_at_a_place_has_the_other_values_of_the_plan() {
    let own = request_for("file.read");
    let dir = ("dir".to_owned(), vec!["/data".to_owned()]);
    let there = Request { places: Settings::from([dir]), ..request_for("file.read") };
    let [own, there] = [own, there].map(|asked| {
        let plan = planned(asked, &Facts::default(), None);
        values(&plan.points().cloned().collect::<Vec<_>>())
    });
    assert_eq!(there["dir"], BTreeSet::from(["/data".to_owned()]));
    let other = |values: BTreeMap<_, _>| values.into_iter().filter(|(axis, _)| *axis != "dir");
    assert!(other(own).eq(other(there)));
}

/// The probes of a request by words and settings, and those that are left out; or why it is refused.
fn chosen(probes: &[&str], set: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
    let options = RunOptions {
        probes: probes.iter().map(ToString::to_string).collect(),
        chosen: Chosen {
            settings: set.iter().map(|set| setting(set).unwrap()).collect(),
            ..Chosen::default()
        },
        ..RunOptions::default()
    };
    let request =
        Request::new(costof_probes::TABLE, &options).map_err(|error| error.to_string())?;
    let ids = request.infos.iter().map(|info| info.id.to_string());
    Ok((ids.collect(), request.left_out))
}

#[test]
fn a_probe_that_cannot_have_a_value_is_left_out_unless_it_is_named() {
    let (chosen_ids, left_out) = chosen(&[], &["size=4KiB"]).unwrap();
    assert!(chosen_ids.contains(&"memory.latency".to_owned()), "{chosen_ids:?}");
    assert!(!chosen_ids.contains(&"os.pin".to_owned()), "{chosen_ids:?}");
    assert!(left_out.contains(&"os.pin (size=4KiB)".to_owned()), "{left_out:?}");
    // Axes of one name have other words in other probes.
    for set in ["over=shared_memory", "engine=io_uring", "primitive=splice"] {
        assert!(!chosen(&[], &[set]).unwrap().0.is_empty(), "{set}");
    }
    let (of_layer, left_out) = chosen(&["os"], &["size=4KiB,1MiB"]).unwrap();
    assert!(of_layer.contains(&"os.pin".to_owned()), "{of_layer:?}");
    assert_eq!(left_out, [""; 0]);
    for (probes, set) in [
        (&["os.pin"][..], "size=4KiB"),
        (&["memory.latency", "os.pin"], "size=4KiB"),
        (&["os.pin"], "size=4KiB,1MiB"),
        (&[], "size=4KiBB"),
        (&[], "size=1MiB,many"),
    ] {
        let error = chosen(probes, &[set]).unwrap_err();
        assert!(error.contains("size"), "{probes:?} {set}: {error}");
    }
}

#[test]
fn what_is_set_is_measured_with_the_defaults_of_the_other_axes() {
    assert_eq!(set("copy.send", &[("size", "2KiB")]).len(), 1);
    let two = [("size", "2KiB"), ("primitive", "splice,copy_and_send")];
    assert_eq!(set("copy.send", &two).len(), 2);
}

#[test]
fn ways_of_sending_have_their_old_names_too() {
    let old = ["zero_copy", "splice", "one_copy", "uring_zero_copy"].map(str::to_owned);
    let options = RunOptions {
        probes: vec!["copy.send".to_owned()],
        chosen: Chosen {
            settings: vec![("primitive".to_owned(), old.to_vec())],
            only: true,
            ..Chosen::default()
        },
        ..RunOptions::default()
    };
    let request = Request::new(costof_probes::TABLE, &options).unwrap();
    let plan = planned(request, &Facts::default(), None);
    let points: Vec<Point> = plan.points().cloned().collect();
    let now = ["io_uring_send_zc", "msg_zerocopy", "sendmsg", "splice"].map(str::to_owned);
    assert_eq!(values(&points)["primitive"], now.into());
}

#[test]
fn what_predictions_use_is_measured_with_them_and_before_and_no_more() {
    let points = |probe, settings: &[(&str, &str)], only| {
        let options = RunOptions {
            probes: vec![probe],
            chosen: Chosen {
                settings: settings
                    .iter()
                    .map(|(axis, value)| ((*axis).to_owned(), vec![(*value).to_owned()]))
                    .collect(),
                only,
                ..Chosen::default()
            },
            ..RunOptions::default()
        };
        let request = Request::new(costof_probes::TABLE, &options).unwrap();
        let plan = planned(request, &Facts::default(), None);
        let level = |point: &Point| {
            let mut blocks = plan.blocks.iter();
            let block = blocks.find(|block| block.points.contains(point));
            block.unwrap().level
        };
        let levels: Vec<(String, u32)> =
            plan.points().map(|point| (point.to_string(), level(point))).collect();
        levels
    };
    for (probe, settings, before) in [
        ("harness.null", &[][..], "cpu.clock source=tsc_fenced"),
        ("os.signal", &[], "os.syscall call=getppid threads=1"),
        ("copy.send", &[("size", "2KiB")], "cpu.memcpy"),
        ("copy.send", &[("size", "2KiB")], "net.rtt"),
    ] {
        let probe_points = points(probe.to_owned(), settings, false);
        let is_it = |point: &&(String, u32)| point.0.starts_with(before);
        let (_, level) = probe_points.iter().find(is_it).unwrap_or_else(|| {
            panic!("no {before} in {probe_points:#?}");
        });
        // What was asked stands first and is measured later.
        assert!(probe_points[0].0.starts_with(probe) && probe_points[0].1 > *level);
        let alone = points(probe.to_owned(), settings, true);
        assert!(alone.iter().all(|(point, _)| point.starts_with(probe)));
    }
    let null = points("harness.null".to_owned(), &[], false);
    assert_eq!(null.len(), 2, "{null:#?}");
}

#[test]
fn what_takes_long_to_measure_again_is_taken_from_an_earlier_run() {
    let by_method = |points: &[Point], more: u32| {
        let earlier = points.iter().map(|point| Earlier {
            run: "then".to_owned(),
            row: PointRow {
                point: point.clone(),
                method: more + probe::find(costof_probes::TABLE, &point.probe).unwrap().info.method,
                ..testing::row("", Axes::default(), 1.0)
            },
        });
        earlier.collect::<Vec<_>>()
    };
    for (probe, more, is_known) in [
        ("harness.null", 0, false),
        ("copy.send", 0, true),
        // An older build measured something else.
        ("copy.send", 1, false),
    ] {
        let known = |points: &[Point]| by_method(points, more);
        let asked = Request { with_needed: true, ..request_for(probe) };
        let target = Target {
            facts: &Facts::default(),
            placement: Placement::default(),
            hosts: Hosts::default(),
            peer_link: None,
            earlier: &known,
        };
        let plan = plan(costof_probes::TABLE, &quick(), &[asked], target, &mut |_| true).unwrap();
        let others = plan.points().any(|point| point.probe != probe);
        assert_eq!((plan.earlier.is_empty(), others), (!is_known, !is_known), "{probe}");
    }
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
}

#[test]
fn a_first_look_leaves_out_what_takes_longest_but_no_headline_and_nothing_needed() {
    let table = costof_probes::TABLE;
    let asked = Request { with_needed: true, ..request_for("rudp.loss") };
    let mut plan = planned(asked, &Facts::default(), None);
    let all = plan.clone();
    let needed = |plan: &Plan| plan.needed().cloned().collect::<Vec<_>>();
    assert!(needed(&all).iter().all(|point| point.probe != "rudp.loss"));
    assert!(all.points().any(|point| point.link == "wan"));
    let cut = fit(table, &mut plan, Precision::Quick);
    assert_eq!(cut, all.points().count() - plan.points().count());
    assert!(plan.points().all(|point| point.link != "wan") && cut > 0);
    let labels = |plan: &Plan| plan.blocks.iter().map(|block| block.labels.len()).sum::<usize>();
    assert_eq!((labels(&plan), needed(&plan)), (labels(&all), needed(&all)));
    let cost = Cost::new(table, &plan, Precision::Quick);
    assert!(cost.time <= budget(table, &plan, Precision::Quick));
    assert_eq!(fit(table, &mut plan, Precision::Quick), 0);
}

#[test]
fn a_plan_has_no_value_that_does_not_go_with_another_and_a_quick_one_keeps_its_time() {
    for probe in costof_probes::TABLE {
        for point in planned(request_for(&probe.info.id), &Facts::default(), None).points() {
            assert!((probe.can_exist)(point, &Facts::default()), "{point}");
        }
    }
    let slow = Request {
        links: vec![Text::Borrowed("delay=95ms,loss=30%,rate=100Mbit")],
        links_asked: true,
        ..request_for("net.stream")
    };
    let mut plan = planned(slow, &Facts::default(), None);
    let table = costof_probes::TABLE;
    assert!(fit(table, &mut plan, Precision::Quick) > 0);
    let cost = Cost::new(table, &plan, Precision::Quick);
    assert!(cost.time <= budget(table, &plan, Precision::Quick), "{}", cost.announced());
}

#[test]
fn the_time_that_the_user_sets_bounds_what_is_planned_and_announced() {
    let table = costof_probes::TABLE;
    let mut plan = planned(request_for("rudp.loss"), &Facts::default(), None);
    plan.budget_ns = Some(20_000_000_000);
    let all = plan.points().count();
    let cut = fit(table, &mut plan, Precision::Default);
    assert!(cut > 0 && plan.points().count() == all - cut);
    let cost = Cost::new(table, &plan, Precision::Default);
    assert_eq!(cost.time, Duration::from_secs(20));
}

#[test]
fn what_is_written_to_a_disk_is_in_the_sentence() {
    let large = Request {
        settings: Settings::from([("size".to_owned(), vec!["4GiB".to_owned()])]),
        ..request_for("file.read")
    };
    let plan = planned(large, &Facts::default(), None);
    let cost = Cost::new(costof_probes::TABLE, &plan, Precision::Quick);
    assert!(cost.sentence().contains("up to 4GiB of disk"), "{}", cost.sentence());
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
        points: vec![Point { probe: probe.info.id.clone(), axes, link: Text::Borrowed("none") }],
        rounds: probe.rounds,
        ..Block::default()
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

/// A machine with caches.
fn usual_facts() -> Facts {
    let mut facts = Facts::default();
    facts.cpu.caches = [1, 2, 3]
        .map(|level| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: 1 << (12 + 3 * level),
            ..Cache::default()
        })
        .into();
    facts
}

#[test]
fn the_table_has_what_everybody_asks_in_a_minute() {
    let options = RunOptions::new(Measuring::default(), None);
    let request = Request::new(costof_probes::TABLE, &options).unwrap();
    let plan = planned(request, &usual_facts(), None);
    let blocks = plan.blocks.iter();
    let labels: Vec<&str> =
        blocks.flat_map(|block| block.labels.iter().map(|(_, label)| &**label)).collect();
    for asked in [
        "malloc and free",
        "SHA-256",
        "TLS 1.3 handshake",
        "epoll",
        "io_uring: a NOP",
        "fsync",
        "proxy: 64 KiB passed on",
    ] {
        assert!(labels.iter().any(|label| label.contains(asked)), "{asked}: {labels:#?}");
    }
    assert!(plan.points().count() <= 92, "{labels:#?}");
    let cost = Cost::new(costof_probes::TABLE, &plan, Precision::Default);
    assert!(cost.time <= Duration::from_secs(60), "{}", cost.announced());
}

#[test]
fn a_first_look_is_twenty_rows_of_which_each_is_there() {
    let facts = usual_facts();
    let options = quick();
    let request = Request::new(costof_probes::TABLE, &options).unwrap();
    let plan = planned(request, &facts, None);
    let labels: Vec<&str> = plan
        .blocks
        .iter()
        .flat_map(|block| block.labels.iter().map(|(_, label)| &**label))
        .collect();
    assert_eq!(plan.points().count(), 20, "{labels:#?}");
    for row in known::rows() {
        let mut found = plan.points().map(|point| &point.probe);
        assert!(found.any(|probe| *probe == row.0), "{row:?}");
    }
    // What is asked by name is all of it.
    let named = RunOptions { probes: vec!["os".to_owned()], ..options };
    let request = Request::new(costof_probes::TABLE, &named).unwrap();
    assert!(planned(request, &facts, None).points().count() > 20);
}

#[test]
fn a_prediction_reads_only_the_probes_that_its_own_declares() {
    let table = costof_probes::TABLE;
    let own = |probe: &&'static Probe| (*probe, set(&probe.info.id, &[]));
    let plans: Vec<(&Probe, Vec<Point>)> = table.iter().map(own).collect();
    let rows: Vec<PointRow> = plans
        .iter()
        .flat_map(|(probe, points)| points.iter().map(|point| needed::assumed(probe, point)))
        .collect();
    let (bare, mut virtual_machine) = (Facts::default(), Facts::default());
    virtual_machine.virtualization.virtual_machine = Some(true);
    let mut undeclared: BTreeSet<(&str, String)> = BTreeSet::new();
    // How often cores were shared is known from all rows.
    for (probe, points) in plans.iter().filter(|(probe, _)| probe.info.id != "cpu.neighbour") {
        let (id, after) = (&probe.info.id, &probe.info.after);
        for point in points {
            let used = Used::default();
            for facts in [&bare, &virtual_machine] {
                (probe.predict)(point, facts, &MeasuredRows::noting(&rows, &used));
            }
            let read = used.points().into_iter().map(|read| read.probe);
            let read = read.filter(|read| read != id && !after.contains(read));
            undeclared.extend(read.map(|read| (&**id, read.to_string())));
        }
    }
    assert_eq!(undeclared, BTreeSet::new());
}

/// How many points of each probe of the layer `node` a machine has, in the order of the table.
fn of_whole_nodes(facts: &Facts, headlines_only: bool) -> Vec<usize> {
    let probes = costof_probes::TABLE.iter().filter(|probe| probe.info.layer() == "node");
    let count = |probe: &&Probe| {
        let asked = Request { headlines_only, ..request_for(&probe.info.id) };
        planned(asked, facts, None).points().count()
    };
    probes.map(count).collect()
}

#[test]
fn whole_nodes_are_measured_only_by_name_each_cpu_and_each_memory_node() {
    let node =
        |id, cpus: &str| NumaNode { id, cpus: CpuSet::parse(cpus).unwrap(), ..NumaNode::default() };
    let mut facts = Facts { numa: vec![node(0, "0-3"), node(1, "4-7")], ..Facts::default() };
    facts.cpu.online = CpuSet::parse("0-7").unwrap();
    assert_eq!(of_whole_nodes(&facts, true), [0; 4]);
    // Two things on each CPU; all CPUs, each node with its own memory, and the first with the second's.
    assert_eq!(of_whole_nodes(&facts, false), [16, 4, 3, 1]);
    facts.run_cpus = vec![5, 6];
    assert_eq!(of_whole_nodes(&facts, false), [4, 3, 2, 1]);
    // Where there is one memory node, a row of each probe says so.
    let one = Facts { numa: facts.numa.split_off(1), ..facts };
    assert_eq!(of_whole_nodes(&one, false), [4, 2, 1, 1]);
}
