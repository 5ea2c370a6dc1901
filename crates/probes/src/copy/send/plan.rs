//! What is sent without being asked for: on which links, and from where.

use super::PROBE;
use super::describe::{SIZES, STUDY};
use crate::sizes;
use costof_measure::schedule::Precision;
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::point::Planned;
use std::time::Duration;

const KIB: u64 = 1 << 10;
/// The sizes between which ways of sending a cached message cross where nothing is copied after all,
/// close to each other where they do.
const HOT: [u64; 7] = [
    4 * KIB,
    16 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    256 * KIB,
    1024 * KIB,
];
/// Those of messages from beyond the caches, which cross at a quarter of that.
const COLD: [u64; 6] = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 1024 * KIB];
/// The sizes at which several threads send.
const THREADED: [u64; 2] = [4 * KIB, 64 * KIB];

/// With what every run has, all this may take ten minutes, and a minute and a half by a quick one.
pub(super) fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(70),
        Precision::Default => Duration::from_secs(500),
        Precision::Full => Duration::ZERO,
    }
}

/// Beside one axis at a time: the three ways of the study at every size, on every link that this
/// machine makes and to another host; on the sink, where no copy is made later, from cached messages
/// and from a working set beyond the caches, on small pages and on large ones; by several threads
/// between two namespaces; sixteen messages under way at a time; and io_uring with registered buffers,
/// which nothing else has.
pub(super) fn more_points(facts: &Facts) -> Vec<Planned> {
    let default = PROBE.info.defaults();
    let registered = default.clone().with("buffers", "registered");
    let registered = ["uring_send", "uring_zero_copy"]
        .map(|primitive| registered.clone().with("primitive", primitive));
    let mut points = Planned::anywhere(registered.to_vec());
    // What waits for the other end waits less often where more is under way.
    let under_way = default.clone().with("in_flight", 16);
    for pattern in ["echo", "trigger"] {
        points.extend(study(
            under_way.clone().with("pattern", pattern),
            "loopback",
        ));
    }
    for link in ["loopback", "veth", "remote"] {
        for size in SIZES {
            points.extend(study(default.clone().with("size", *size), link));
        }
    }
    let beyond = sizes::beyond(facts);
    // BBR paces, which takes more there than what is compared.
    let unpaced = default.clone().with("congestion_control", "reno");
    let others = SIZES.iter().filter(|size| !HOT.contains(size));
    for size in others {
        points.extend(study(unpaced.clone().with("size", *size), "sink"));
    }
    let crossed = HOT.map(|size| ("hot", size)).into_iter();
    for (source, size) in crossed.chain(COLD.map(|size| ("cold", size))) {
        let from = unpaced.clone().with("source", source).with("size", size);
        let from = match source {
            "cold" => from.with("working_set", beyond),
            _ => from,
        };
        for pages in ["4KiB", "2MiB"] {
            points.extend(study(from.clone().with("pages", pages), "sink"));
        }
    }
    for size in THREADED {
        for threads in [2, 4, 8] {
            let several = default.clone().with("size", size).with("threads", threads);
            points.extend(study(several, "veth"));
        }
    }
    points
}

/// The three ways of the study.
fn study(axes: Axes, link: &'static str) -> [Planned; 3] {
    STUDY.map(|primitive| Planned::over(axes.clone().with("primitive", primitive), link))
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use crate::literal;

    #[test]
    fn no_point_comes_twice_or_cannot_be() {
        let points = more_points(&Facts::default());
        for (position, planned) in points.iter().enumerate() {
            assert!(!points[..position].contains(planned), "{planned:?}");
            let mut point = literal::point(&PROBE, planned.axes.clone());
            point.link = planned.link.unwrap_or("loopback").into();
            assert_eq!(check(&point), Ok(()), "{point}");
        }
    }

    /// Whatever is compared differs in nothing else.
    #[test]
    fn the_ways_of_the_study_come_together() {
        let points = more_points(&Facts::default());
        for planned in points.iter().filter(|planned| planned.link.is_some()) {
            for primitive in STUDY {
                let other = Planned {
                    axes: planned.axes.clone().with("primitive", primitive),
                    ..planned.clone()
                };
                assert!(points.contains(&other), "{planned:?}");
            }
        }
    }
}
