//! A neighbour on the core: whatever it does, intervals cover the cost alone, comparisons raise no false
//! alarms, and what was never alone says so. Larger tables: `examples/neighbours.rs`.

pub(crate) mod simulation;

use costof_measure::compare::{MATTERS, Metrics, compare};
use costof_measure::schedule::needs_more;
use costof_model::comparison::{Comparison, Verdict};
use costof_model::metric::{CoreShare, CoreState, Data, Gauged, Selection};
use costof_model::noise::Grade;
use costof_model::protocol::Report;
use costof_model::rows::PointRow;
use costof_stats::median_interval;
use fastrand::Rng;
use simulation::{
    COST_NS, Core, Neighbour, Pair, Setting, TIMES_SHARED, TRACES, Trace, point_by, point_of,
};

const SEED: u64 = 20_261_123;
const TIME_NS: f64 = 5e6;

fn setting(launches: u32, spread: f64) -> Setting {
    Setting { launches, time_ns: TIME_NS, spread }
}

fn core_of(row: &PointRow) -> CoreShare {
    let primary = row.primary().expect("it has its cost");
    primary.core.expect("a gauge was read")
}

/// Launches beside one neighbour after another.
fn beside_any(
    setting: Setting,
    tries: usize,
    times: impl Fn(usize) -> f64,
) -> impl Iterator<Item = Vec<Report>> {
    let mut random = Rng::with_seed(SEED);
    (0..tries).map(move |at| {
        let core = Core::beside(Neighbour::any(&mut random), random.u64(..));
        setting.launches(&mut random, &core, times(at))
    })
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn intervals_cover_the_cost_alone_whatever_the_neighbour_does() {
    let (mut alone, mut covered) = ([0_u32; 3], [0_u32; 3]);
    for launches in beside_any(setting(12, 0.005), 250, |at| TIMES_SHARED[at % 4]) {
        for (at, count) in [6, 9, 12].into_iter().enumerate() {
            let row = point_of(&launches[..count]).expect("a point");
            if core_of(&row).selection != Selection::Alone {
                assert!(row.warnings.iter().any(|one| one.kind == "core_shared"));
                continue;
            }
            let interval = row.primary().and_then(|cost| cost.ci95);
            let (low, high) = interval.expect("three launches have an interval");
            alone[at] += 1;
            covered[at] += u32::from(low <= COST_NS && COST_NS <= high);
        }
    }
    for at in 0..3 {
        let share = f64::from(covered[at]) / f64::from(alone[at]);
        assert!(alone[at] > 150, "{alone:?} of 250 were alone");
        // 95 %, less what chance makes of 200.
        assert!(share >= 0.92, "{covered:?} of {alone:?}");
    }
}

/// What six launches gave on such cores: how many found the cost alone, and by how much the
/// farthest of these missed it.
fn hunted(tries: u64, times_shared: f64, core: impl Fn(u64) -> Core) -> (u64, f64) {
    let (mut alone, mut farthest) = (0, 0.0_f64);
    for seed in 0..tries {
        let mut random = Rng::with_seed(SEED + seed);
        let launches = setting(6, 0.0).launches(&mut random, &core(seed), times_shared);
        let row = point_of(&launches).expect("a point");
        let missed = row.primary().map_or(f64::NAN, |cost| cost.median / COST_NS - 1.0);
        if core_of(&row).selection == Selection::Alone {
            alone += 1;
            farthest = farthest.max(missed.abs());
        } else {
            assert_eq!(row.grade, Grade::C, "{row:?}");
        }
    }
    (alone, farthest)
}

#[test]
fn a_core_that_is_hardly_ever_alone_gives_the_cost_alone_or_says_that_it_does_not() {
    // Of windows too short for a batch, and of those long enough.
    for window_us in [3.0, 8.0, 30.0, 150.0] {
        for share in [0.03, 0.1, 0.5] {
            for is_uneven in [false, true] {
                let switch = Neighbour::switch(share, 1e3 * window_us, is_uneven);
                let (alone, farthest) = hunted(3, 1.6, |seed| Core::beside(switch, seed));
                let what = format!("{window_us} µs, {share}, {is_uneven}: {alone}, {farthest}");
                assert!(farthest < 0.005, "{what}");
                assert!(alone > 0 || window_us < 30.0, "{what}");
            }
        }
    }
}

#[test]
fn replayed_gauges_of_real_cores_move_no_number() {
    for (share, text) in TRACES {
        let trace = simulation::trace(text);
        let core = |seed| Core::replaying(Trace::clone(&trace), seed);
        let (alone, farthest) = hunted(3, 1.6, core);
        assert!(farthest < 0.005, "{share} %: {alone}, {farthest}");
        assert!(alone >= 2 || share < 10.0, "{share} %: {alone}");
        assert!(alone == 0 || share > 1.0, "{share} %: {alone}");
    }
}

#[test]
fn caches_that_a_neighbour_has_emptied_move_no_number() {
    for window_us in [20.0, 100.0, 1000.0] {
        for share in [0.05, 0.3] {
            let switch = Neighbour::switch(share, 1e3 * window_us, false);
            let core = |seed| Core::beside(switch, seed).refilling_for(4e3);
            let (alone, farthest) = hunted(2, 5.0, core);
            let what = format!("{window_us} µs, {share}: {alone}, {farthest}");
            assert!(farthest < 0.005 && alone > 0, "{what}");
        }
    }
}

#[test]
fn the_gauge_moves_no_number_of_what_does_not_care() {
    let mut moved = Vec::new();
    for mut launches in beside_any(setting(6, 0.005), 100, |_| 1.0) {
        let chosen = point_of(&launches).expect("a point");
        let metrics = launches.iter_mut().flat_map(|launch| &mut launch.metrics);
        metrics.for_each(|metric| metric.gauged = None);
        let all = point_of(&launches).expect("a point");
        let median = |row: &PointRow| row.primary().map_or(f64::NAN, |cost| cost.median);
        moved.push((median(&chosen) / median(&all)).ln());
    }
    let mean = moved.iter().sum::<f64>() / moved.len() as f64;
    assert!(mean.abs() < 0.001, "{mean}");
}

fn comparisons(tries: usize, pair: impl Fn(&mut Rng) -> Pair) -> Vec<Comparison> {
    let mut random = Rng::with_seed(SEED);
    (0..tries).map(|_| pair(&mut random).comparison(&mut random)).collect()
}

/// A neighbour who is hardly ever away.
fn busy(random: &mut Rng) -> Neighbour {
    Neighbour { share: 0.97, ..Neighbour::any(random) }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn neighbours_raise_no_false_alarms() {
    const TRIES: usize = 60;
    type Meet = fn(&mut Rng) -> [Neighbour; 2];
    let cases: [(&str, bool, Meet); 4] = [
        ("the same", false, |random| [Neighbour::any(random); 2]),
        ("each its own", false, |random| [Neighbour::any(random), busy(random)]),
        ("one of them none", false, |random| [busy(random), Neighbour::NONE]),
        ("in turns", true, |random| [Neighbour::any(random); 2]),
    ];
    for (name, in_turns, neighbours) in cases {
        let found = comparisons(TRIES, |random| Pair {
            neighbours: neighbours(random),
            in_turns,
            times: 1.0,
            // As much as makes false alarms, were they not corrected for.
            setting: setting(6, 0.02),
        });
        let is_alarm = |one: &&Comparison| {
            let mut rows = one.rows.iter();
            rows.any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
        };
        let alarms = found.iter().filter(is_alarm).count();
        // Three are one in twenty, seven what chance makes of it.
        assert!(alarms <= 7, "{alarms} of {TRIES}: {name}");
        for row in found.iter().flat_map(|one| &one.rows) {
            let is_alone = row.selection == Selection::Alone;
            assert_eq!(row.core_shared, !is_alone, "{row:?}");
        }
        let mut refused = found.iter().flat_map(|one| &one.refused);
        assert!(refused.all(|one| one.reason.starts_with("the run ")));
    }
}

#[test]
fn five_percent_are_found_though_a_neighbour_is_there_half_of_the_time() {
    for in_turns in [false, true] {
        let found = comparisons(12, |random| Pair {
            neighbours: [(); 2].map(|()| Neighbour {
                share: 0.5,
                visit_ns: 1e7,
                ..Neighbour::any(random)
            }),
            in_turns,
            times: 1.05,
            setting: setting(10, 0.01),
        });
        let rows: Vec<_> = found.iter().flat_map(|one| &one.rows).collect();
        // By chance, one of so many rows may meet somebody in eight of its ten launches.
        let alone = rows.iter().filter(|row| row.selection == Selection::Alone);
        assert!(alone.count() + 2 >= rows.len(), "of {}", rows.len());
        let worse = rows.iter().filter(|row| row.verdict == Verdict::Worse);
        assert!(worse.count() * 10 >= 9 * 48, "of {}", rows.len());
    }
}

#[test]
fn what_was_never_alone_says_so_and_a_run_that_was_is_not_compared_with_it() {
    let always = Neighbour { share: 1.0, gauge: 1.6, ..Neighbour::NONE };
    // Above the floor, and too little to be shared.
    let a_little = Neighbour { gauge: 1.15, ..always };
    for (neighbour, selection) in [(always, Selection::Shared), (a_little, Selection::All)] {
        let core = Core::beside(neighbour, SEED);
        let launches = setting(6, 0.005).launches(&mut Rng::with_seed(SEED), &core, 1.3);
        let row = point_of(&launches).expect("a point");
        assert_eq!(core_of(&row).selection, selection);
        let warning = row.warnings.iter().find(|one| one.kind == "core_shared");
        assert_eq!(warning.map(|one| one.grade), Some(Grade::C));
        assert_eq!(row.grade, Grade::C);
        let beside = |neighbours, in_turns, times| {
            let pair = Pair { neighbours, in_turns, times, setting: setting(6, 0.005) };
            pair.comparison(&mut Rng::with_seed(SEED))
        };
        let with_none = beside([neighbour, Neighbour::NONE], false, 1.0);
        assert!(with_none.rows.is_empty());
        let named = "the run before never";
        for refused in &with_none.refused {
            assert!(refused.reason.contains(named), "{refused:?}");
        }
        // Which of code and neighbour made the difference, only turns tell.
        for (in_turns, verdict) in [(false, Verdict::Differs), (true, Verdict::Worse)] {
            let alike = beside([neighbour; 2], in_turns, 1.1);
            assert_eq!(alike.rows.len(), TIMES_SHARED.len());
            for row in &alike.rows {
                assert_eq!((row.verdict, row.core_shared), (verdict, true), "{row:?}");
                assert_eq!(row.selection, selection);
            }
        }
    }
}

#[test]
fn launches_that_had_the_core_at_other_times_than_their_neighbours_are_compared_in_groups() {
    // Every other launch of one side, and the others of the other side, beside somebody.
    let mut pair = Pair {
        neighbours: [Neighbour::NONE; 2],
        in_turns: true,
        times: 1.05,
        setting: setting(8, 0.005),
    }
    .runs(&mut Rng::with_seed(SEED));
    for (side, run) in pair.iter_mut().enumerate() {
        let launches = run.launches.iter_mut().filter(|launch| launch.launch as usize % 2 == side);
        let points = launches.flat_map(|launch| &mut launch.points);
        for metric in points.flat_map(|point| &mut point.metrics) {
            let samples = metric.data.costs().len();
            metric.gauged = Some(Gauged::Samples(vec![CoreState::Mixed; samples]));
        }
    }
    let [old, new] = &pair;
    let found = compare(old, new, Metrics::Primary, MATTERS);
    assert_eq!(found.rows.len(), TIMES_SHARED.len(), "{:?}", found.refused);
    for row in &found.rows {
        assert_eq!((row.before.1, row.after.1), (4, 4));
        assert_eq!(row.selection, Selection::Alone);
        assert_eq!(row.verdict, Verdict::Worse);
    }
}

#[test]
fn times_have_no_say_in_what_is_selected() {
    let mut random = Rng::with_seed(SEED);
    for launches in beside_any(setting(4, 0.005), 40, |at| TIMES_SHARED[at % 4]) {
        let row = point_of(&launches).expect("a point");
        let mut other = launches.clone();
        for report in &mut other {
            let scale = (0.2 * random.f64()).exp();
            for metric in &mut report.metrics {
                let states = metric.gauged.clone();
                let Data::Samples(samples) = &mut metric.data else {
                    panic!("they are batches");
                };
                let mut costs: Vec<f64> = samples.iter().map(|(n, ns)| ns / *n as f64).collect();
                random.shuffle(&mut costs);
                for ((n, ns), cost) in samples.iter_mut().zip(costs) {
                    *ns = *n as f64 * cost * scale;
                }
                assert_eq!(metric.gauged, states);
            }
        }
        let other = point_of(&other).expect("a point");
        let chosen = |row: &PointRow| {
            let core = core_of(row);
            (core.selection, core.alone, core.shared)
        };
        assert_eq!(chosen(&row), chosen(&other));
    }
}

#[test]
fn launches_that_disagree_more_than_tenfold_give_no_number() {
    let point = |costs: &[f64]| {
        let core = Core::beside(Neighbour::NONE, SEED);
        let launches = costs.iter().map(|cost| core.launch(*cost, 1.0, TIME_NS));
        point_of(&launches.collect::<Vec<_>>()).expect("a point")
    };
    let doubt = |row: &PointRow| {
        let warning = row.warnings.iter().find(|one| one.kind == "disagree");
        warning.map(|warning| (warning.grade, warning.what.clone()))
    };
    let row = point(&[100.0, 110.0, 900.0]);
    let (grade, what) = doubt(&row).expect("they disagree");
    assert!(!row.is_usable() && grade == Grade::D);
    assert!(what.contains("medians reach from"), "{what}");
    assert_eq!(doubt(&point(&[100.0, 110.0, 900.0, 100.0, 100.0, 100.0])), None);
    assert!(doubt(&point(&[100.0, 110.0, 1100.0, 100.0, 100.0, 100.0])).is_some());
    // Without an interval nothing is said of how far they agree.
    assert_eq!(doubt(&point(&[100.0, 2000.0])), None);
}

#[test]
fn launches_whose_floor_was_a_neighbours_are_left_out_or_said() {
    let floors = |floors: &[f64]| {
        let core = Core::beside(Neighbour::NONE, SEED);
        let cost_ns = |floor: f64| if floor > 0.25 { 150.0 } else { 100.0 };
        let launches: Vec<Report> =
            floors.iter().map(|floor| core.launch(cost_ns(*floor), 1.0, TIME_NS)).collect();
        point_by(&launches, floors).expect("a point")
    };
    let few = floors(&[0.21, 0.32, 0.21, 0.21, 0.32]);
    assert_eq!((few.launches, few.grade), (3, Grade::A));
    let most = floors(&[0.21, 0.32, 0.32, 0.21, 0.32]);
    assert_eq!((most.launches, most.grade), (5, Grade::C));
    assert!(most.warnings[0].what.contains("throughout 3 of 5 launches"));
}

#[test]
fn more_launches_where_few_disagree_cost_little_coverage() {
    let mut random = Rng::with_seed(SEED);
    for sigma in [0.02, 0.1, 0.2, 0.5] {
        let covered = (0..2000)
            .filter(|_| {
                let mut medians: Vec<f64> = Vec::new();
                while needs_more(&medians) {
                    medians.push((sigma * simulation::normal(&mut random)).exp());
                }
                median_interval(&medians).is_some_and(|interval| interval.contains(1.0))
            })
            .count();
        assert!(covered > 1850, "{covered} of 2000, by {sigma}");
    }
}
