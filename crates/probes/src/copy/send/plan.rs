//! The points of the plan: links, sizes and ways of sending.

use super::axes::{Buffers, CopySend, Pattern, Primitive, SIZES, Source};
use crate::prelude::*;
use crate::two_ends::CongestionControl;

const STUDY: [Primitive; 3] = [Primitive::CopyAndSend, Primitive::Sendmsg, Primitive::MsgZerocopy];

/// Sizes of cached messages where the kernel copies in the end. They are close together around the
/// crossover of the ways of sending.
const HOT: [u64; 7] = sizes::kib([4, 16, 32, 64, 128, 256, 1024]);
/// Sizes of uncached messages, whose crossover is at a quarter of that.
const COLD: [u64; 6] = sizes::kib([4, 8, 16, 32, 64, 1024]);
const THREADED: [u64; 2] = sizes::kib([4, 64]);

/// Besides one axis at a time: the three ways of the study at every size, on every link that this
/// machine can make and to another host; on the sink, where the kernel never copies, from cached
/// messages and from a working set larger than the caches, with small pages and with large ones; by
/// several threads between two namespaces; with sixteen messages in flight; and io_uring with
/// registered buffers.
pub(super) fn more_points(facts: &Facts) -> Vec<Planned> {
    let default = CopySend::default;
    let registered = [Primitive::IoUringSend, Primitive::IoUringSendZc].map(|primitive| CopySend {
        primitive,
        buffers: Buffers::Registered,
        ..default()
    });
    let mut points = Planned::all(registered);
    let mut study = |link, point: CopySend| points.extend(study(&point, link));
    // With more in flight, an end that waits for the other one waits less often.
    for pattern in [Pattern::Echo, Pattern::Trigger] {
        let in_flight = 16;
        study("loopback", CopySend { pattern, in_flight, ..default() });
    }
    for link in ["loopback", "veth", "remote"] {
        for &size in SIZES {
            study(link, CopySend { size, ..default() });
        }
    }
    // BBR's pacing costs more on the sink than what is compared.
    let congestion_control = CongestionControl::Reno;
    let unpaced = |size| CopySend { size, congestion_control, ..default() };
    for &size in SIZES.iter().filter(|size| !HOT.contains(size)) {
        study("sink", unpaced(size));
    }
    let cold = COLD.map(|size| CopySend {
        source: Source::Cold,
        working_set: sizes::beyond(facts),
        ..unpaced(size)
    });
    for from in HOT.map(unpaced).into_iter().chain(cold) {
        for &pages in Pages::ALL {
            study("sink", CopySend { pages, ..from.clone() });
        }
    }
    for size in THREADED {
        for threads in [2, 4, 8] {
            study("veth", CopySend { size, threads, ..default() });
        }
    }
    points
}

fn study(point: &CopySend, link: &'static str) -> [Planned; 3] {
    STUDY.map(|primitive| {
        let axes = CopySend { primitive, ..point.clone() };
        Planned::over(axes.into(), link)
    })
}

#[cfg(test)]
mod tests {
    use super::super::axes::check;
    use super::*;

    #[test]
    fn no_point_comes_twice_or_cannot_be() {
        let points = more_points(&Facts::default());
        for (position, planned) in points.iter().enumerate() {
            assert!(!points[..position].contains(planned), "{planned:?}");
            let axes = CopySend::read(&planned.axes).expect("it is a point of the probe");
            let link = planned.link.unwrap_or("loopback").into();
            assert_eq!(check(&At { axes, link }), Ok(()), "{planned:?}");
        }
    }

    #[test]
    fn the_ways_of_the_study_come_together() {
        let points = more_points(&Facts::default());
        for planned in points.iter().filter(|planned| planned.link.is_some()) {
            for primitive in STUDY {
                let other = Planned {
                    axes: planned.axes.clone().with("primitive", primitive.word()),
                    ..planned.clone()
                };
                assert!(points.contains(&other), "{planned:?}");
            }
        }
    }
}
