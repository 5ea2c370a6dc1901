//! Curves like those of real memory, and their levels.

use crate::tests::{
    REAL_BUSY, REAL_HUGE_PAGES, REAL_SMALL_PAGES, REAL_TAKEN, Step, staircase, step,
};
use costof_stats::changepoints::{half_way, levels};

/// Uniform on [0, 1), by seed (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Almost normal, with variance 1: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Adds scatter, and moves this share of the points by 40 %.
fn noisy(curve: &[(f64, f64)], sd: f64, outliers: f64, random: &mut Random) -> Vec<(f64, f64)> {
    let mut noise = || {
        let outlier = if random.uniform() < outliers { 1.4 } else { 1.0 };
        outlier * (sd * random.normal()).exp()
    };
    curve.iter().map(|&(size, cost)| (size, cost * noise())).collect()
}

/// First size, last size and cost of each level.
fn found(curve: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    levels(curve)
        .iter()
        .map(|level| (curve[level.first].0, curve[level.last].0, level.cost))
        .collect()
}

fn steps_found(curve: &[(f64, f64)]) -> Vec<f64> {
    let levels = levels(curve);
    levels.windows(2).map(|pair| half_way(curve, &pair[0], &pair[1])).collect()
}

fn is_near(one: f64, other: f64, share: f64) -> bool {
    (one / other).ln().abs() <= (1.0 + share).ln()
}

/// Staircases like those of machines: a name, and the steps.
fn machines() -> Vec<(&'static str, Vec<Step>)> {
    let first = || step(2.2, 56.0, 0.3);
    vec![
        ("no cache at all", vec![]),
        ("one step", vec![step(12.0, 1024.0, 1.5)]),
        ("two steps", vec![step(3.0, 56.0, 0.5), step(100.0, 4096.0, 2.0)]),
        ("three caches, soft", vec![first(), step(9.0, 1200.0, 2.5), step(130.0, 34_000.0, 2.5)]),
        ("third cache gone", vec![first(), step(130.0, 2500.0, 2.5)]),
        ("third cache small", vec![first(), step(9.0, 1100.0, 1.0), step(130.0, 7000.0, 1.5)]),
        (
            "three caches and a TLB",
            vec![
                first(),
                step(1.5, 400.0, 1.0),
                step(9.0, 2400.0, 1.0),
                step(130.0, 34_000.0, 2.5),
            ],
        ),
    ]
}

#[test]
fn a_clean_staircase_has_its_steps_where_they_were_put() {
    for (name, steps) in machines() {
        let curve = staircase(0.9, &steps);
        let found = steps_found(&curve);
        assert_eq!(found.len(), steps.len(), "{name}: {found:?}");
        for (found, step) in found.iter().zip(&steps) {
            assert!(is_near(*found, step.size, 0.1), "{name}: {found}");
        }
    }
}

#[test]
fn scatter_and_outliers_hide_and_add_few_steps() {
    let mut random = Random(1);
    for (sd, outliers) in [(0.01, 0.0), (0.03, 0.0), (0.05, 0.0), (0.02, 0.03)] {
        let (mut right, mut near, mut all) = (0, 0, 0);
        for (_, steps) in machines() {
            let clean = staircase(0.9, &steps);
            for _ in 0..5 {
                let found = steps_found(&noisy(&clean, sd, outliers, &mut random));
                all += 1;
                if found.len() == steps.len() {
                    right += 1;
                    let mut pairs = found.iter().zip(&steps);
                    near += u32::from(pairs.all(|(found, step)| is_near(*found, step.size, 0.25)));
                }
            }
        }
        let wanted = if outliers > 0.0 { 0.9 } else { 0.95 };
        let share = f64::from(right) / f64::from(all);
        assert!(share >= wanted, "sd {sd}, outliers {outliers}: {right} of {all}");
        assert!(near * 100 >= right * 97, "sd {sd}: {near} of {right} near");
    }
}

#[test]
fn the_levels_of_real_curves_are_those_that_one_sees() {
    let curves = [
        (
            &REAL_SMALL_PAGES[..],
            [(16., 40., 0.885), (64., 384., 3.1), (2048., 12288., 12.), (65536., 524_288., 147.)],
            [55., 1200., 34_000.],
        ),
        (
            &REAL_HUGE_PAGES[..],
            [(16., 40., 0.886), (64., 384., 3.1), (2048., 16384., 12.1), (65536., 524_288., 137.)],
            [55., 1200., 36_000.],
        ),
        (
            &REAL_BUSY[..],
            [
                (16., 48., 0.882),
                (64., 512., 3.09),
                (1536., 16384., 12.05),
                (32768., 262_144., 141.5),
            ],
            [55., 1200., 28_000.],
        ),
    ];
    for (curve, by_eye, half_way) in curves {
        assert_eq!(found(curve), by_eye);
        let steps = steps_found(curve);
        for (step, by_eye) in steps.iter().zip(half_way) {
            assert!(is_near(*step, by_eye, 0.1), "{steps:?}");
        }
    }
}

#[test]
fn a_cache_that_another_program_takes_is_no_level() {
    assert_eq!(
        found(&REAL_TAKEN),
        [(16., 48., 0.8935), (64., 384., 3.11), (2560., 131_072., 147.)]
    );
    assert!(is_near(steps_found(&REAL_TAKEN)[1], 2200., 0.1));
}
