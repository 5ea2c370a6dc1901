//! From which size on one way of sending beats another.

use crate::finding::{Finding, grade_by_others};
use costof_model::axis::Axes;
use costof_model::metric::Data;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_model::unit::display_bytes;

/// What is compared with what.
const PAIRS: [(&str, &str); 3] = [
    ("one_copy", "two_copy"),
    ("zero_copy", "two_copy"),
    ("zero_copy", "one_copy"),
];
const THROUGHPUT: &str = "throughput";

/// How much faster one way is at a size: a ratio from each launch, which had both.
#[derive(Clone, Debug)]
struct Size {
    bytes: u64,
    faster: Point,
    slower: Point,
    /// The median's interval, by order statistics, and the median.
    low: f64,
    middle: f64,
    high: f64,
}

/// Where ratios of several sizes pass 1 for good.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crossing {
    /// They are above 1 at every size.
    Before,
    /// At so many bytes.
    At(f64),
    /// They are not above 1 at the largest.
    Behind,
}

/// A sentence for each pair on each link, and for each kind of message otherwise; of sizes for which
/// the processors were not free, none.
pub(crate) fn send_crossover(run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (faster, slower) in PAIRS {
        let mut groups: Vec<(Axes, &str, Vec<Size>)> = Vec::new();
        let rows = run.points.iter().filter(|row| {
            row.point.probe == "copy.send"
                && row.axes().find_word("primitive") == Some(faster)
                && grade_by_others(row) <= Grade::B
        });
        for row in rows {
            let other = Point {
                axes: row.axes().clone().with("primitive", slower),
                ..row.point.clone()
            };
            let Some(size) = size(run, row.point.clone(), other) else {
                continue;
            };
            let mut alike = row.axes().clone();
            alike.0.remove("size");
            let link = &*row.point.link;
            let same = |(axes, on, _): &&mut (Axes, &str, Vec<Size>)| *axes == alike && *on == link;
            match groups.iter_mut().find(same) {
                Some((_, _, sizes)) => sizes.push(size),
                None => groups.push((alike, link, vec![size])),
            }
        }
        for (axes, link, mut sizes) in groups {
            sizes.sort_by_key(|size| size.bytes);
            // One size is no answer to from which.
            if sizes.len() > 1 {
                findings.push(said(run, (faster, slower), (&axes, link), &sizes));
            }
        }
    }
    findings
}

fn size(run: &Run, faster: Point, slower: Point) -> Option<Size> {
    let mut ratios: Vec<f64> = run
        .launches
        .iter()
        .filter_map(|launch| {
            let of = |wanted: &Point| {
                let point = launch.points.iter().find(|point| point.point == *wanted)?;
                let metric = point.metrics.iter().find(|own| own.name == THROUGHPUT)?;
                match metric.data {
                    Data::Value(value) if value > 0.0 => Some(value),
                    _ => None,
                }
            };
            Some(of(&faster)? / of(&slower)?)
        })
        .collect();
    // With fewer there is no interval.
    if ratios.len() < 3 {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let last = ratios.len() - 1;
    let left_out = left_out(ratios.len());
    Some(Size {
        bytes: faster.axes.find_number("size")?,
        low: ratios[left_out],
        middle: f64::midpoint(ratios[last / 2], ratios[ratios.len() / 2]),
        high: ratios[last - left_out],
        faster,
        slower,
    })
}

/// How many of so many ratios may be left out at either end, so that the rest holds the median with
/// 95 %; of up to eight, none: then it is 75 % with three and 97 % with six.
fn left_out(ratios: usize) -> usize {
    let mut left_out = 0;
    // The probability that so many or fewer of all lie on one side of the median.
    let mut below = 0.5_f64.powi(ratios as i32);
    let mut term = below;
    loop {
        term *= (ratios - left_out) as f64 / (left_out + 1) as f64;
        below += term;
        if below > 0.025 || left_out + 1 >= ratios / 2 {
            return left_out;
        }
        left_out += 1;
    }
}

/// Where a line through these ratios, both axes logarithmic, passes 1 for the last time.
fn crossing(sizes: &[Size], of: impl Fn(&Size) -> f64) -> Crossing {
    let Some(last) = sizes.iter().rposition(|size| of(size) <= 1.0) else {
        return Crossing::Before;
    };
    let (Some(under), Some(over)) = (sizes.get(last), sizes.get(last + 1)) else {
        return Crossing::Behind;
    };
    let (from, to) = ((under.bytes as f64).ln(), (over.bytes as f64).ln());
    let (below, above) = (of(under).ln(), of(over).ln());
    Crossing::At((from + (to - from) * -below / (above - below)).exp())
}

fn said(
    run: &Run,
    (faster, slower): (&str, &str),
    (axes, link): (&Axes, &str),
    sizes: &[Size],
) -> Finding {
    let (first, last) = (sizes[0].bytes, sizes[sizes.len() - 1].bytes);
    let bytes = |bytes: f64| display_rounded(bytes);
    // What the ratio is at most passes first.
    let early = crossing(sizes, |size| size.high);
    let middle = crossing(sizes, |size| size.middle);
    let late = crossing(sizes, |size| size.low);
    let from = |crossing| match crossing {
        Crossing::At(at) => bytes(at),
        Crossing::Before => format!("{} or less", display_bytes(first)),
        Crossing::Behind => format!("more than {}", display_bytes(last)),
    };
    let verdict = match (early, middle, late) {
        (Crossing::Behind, _, _) => format!("nowhere up to {}", display_bytes(last)),
        (_, _, Crossing::Before) => format!("at every size from {} on", display_bytes(first)),
        (early, Crossing::At(at), late @ Crossing::At(_)) => {
            format!("from {} on ({} to {})", bytes(at), from(early), from(late))
        }
        (early, _, late) => format!(
            "from a size that cannot be told: {} to {}",
            from(early),
            from(late)
        ),
    };
    let around = sizes
        .iter()
        .filter(|size| size.low <= 1.0 && size.high >= 1.0)
        .chain([&sizes[0], &sizes[sizes.len() - 1]]);
    let mut evidence: Vec<Point> = Vec::new();
    for size in around {
        for point in [&size.faster, &size.slower] {
            if !evidence.contains(point) {
                evidence.push(point.clone());
            }
        }
    }
    Finding {
        kind: "send_crossover".into(),
        sentence: format!(
            "{faster} beats {slower} over {link}{} {verdict}",
            otherwise(run, axes)
        ),
        advice: paces(run, (axes, link), &sizes[0].faster),
        evidence,
    }
}

/// What to do where the congestion control was BBR, into a sink: nothing there takes time but the
/// sender, and pacing is most of what it does.
fn paces(run: &Run, (axes, link): (&Axes, &str), point: &Point) -> Option<String> {
    let is_usual = axes.find_word("congestion_control") == Some("default");
    let by_tcp = axes.find_word("over") == Some("tcp");
    let mut ends = run
        .launches
        .iter()
        .filter(|launch| launch.points.iter().any(|other| other.point == *point))
        .flat_map(|launch| launch.noise.ends.values());
    let paced = ends.any(|end| end.congestion_control.as_deref() == Some("bbr"));
    (link == "sink" && by_tcp && is_usual && paced).then(|| {
        "bbr paces what it sends, which takes most of the time here: without it by --set \
         congestion_control=reno"
            .to_owned()
    })
}

/// What is not as usual about the messages.
fn otherwise(run: &Run, axes: &Axes) -> String {
    let Some(probe) = run.probe("copy.send") else {
        return String::new();
    };
    let usual = probe.defaults();
    let others: Vec<String> = probe
        .axes
        .iter()
        .filter(|axis| axis.name != "primitive")
        .filter_map(|axis| {
            let value = axes.0.get(&axis.name)?;
            let differs = usual.0.get(&axis.name) != Some(value);
            differs.then(|| format!("{}={}", axis.name, axis.display(value)))
        })
        .collect();
    match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", others.join(", ")),
    }
}

/// About so many bytes, with two digits.
fn display_rounded(bytes: f64) -> String {
    let kib = bytes / 1024.0;
    match kib {
        1024.0.. => format!("{:.1}MiB", kib / 1024.0),
        10.0.. => format!("{kib:.0}KiB"),
        1.0.. => format!("{kib:.1}KiB"),
        _ => format!("{bytes:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kib: u64, (low, middle, high): (f64, f64, f64)) -> Size {
        let point = Point {
            probe: "copy.send".into(),
            axes: Axes::default().with("size", kib << 10),
            link: "sink".into(),
        };
        Size {
            bytes: kib << 10,
            faster: point.clone(),
            slower: point,
            low,
            middle,
            high,
        }
    }

    fn verdict(sizes: &[Size]) -> String {
        let run = crate::memory_sample::run(&[]);
        let names = ("zero_copy", "two_copy");
        let sentence = said(&run, names, (&Axes::default(), "sink"), sizes).sentence;
        let start = "zero_copy beats two_copy over sink ";
        sentence.strip_prefix(start).unwrap().to_owned()
    }

    #[test]
    fn a_crossing_lies_between_the_sizes_around_it() {
        // Half as fast at 4KiB and twice as fast at 64KiB: as fast in the middle, at 16KiB.
        let sizes = [at(4, (0.5, 0.5, 0.5)), at(64, (2.0, 2.0, 2.0))];
        assert_eq!(verdict(&sizes), "from 16KiB on (16KiB to 16KiB)");
        let sizes = [at(4, (0.25, 0.5, 0.5)), at(64, (2.0, 2.0, 4.0))];
        assert_eq!(verdict(&sizes), "from 16KiB on (10KiB to 25KiB)");
    }

    #[test]
    fn what_never_or_always_is_faster_or_cannot_be_told_is_said() {
        let slow = (0.5, 0.6, 0.7);
        assert_eq!(verdict(&[at(4, slow), at(64, slow)]), "nowhere up to 64KiB");
        let fast = (1.5, 1.6, 1.7);
        let always = [at(4, fast), at(64, fast)];
        assert_eq!(verdict(&always), "at every size from 4KiB on");
        let unsure = (0.9, 1.1, 1.2);
        let sentence = verdict(&[at(4, slow), at(64, unsure)]);
        assert!(
            sentence.starts_with("from a size that cannot be told"),
            "{sentence}"
        );
        assert!(sentence.ends_with("to more than 64KiB"), "{sentence}");
        // A size at which it is faster by chance is no crossing.
        let sizes = [at(4, slow), at(16, fast), at(32, slow), at(64, fast)];
        assert!(verdict(&sizes).starts_with("from 4"), "{}", verdict(&sizes));
    }

    #[test]
    fn ratios_are_left_out_where_the_rest_says_enough() {
        let left_out: Vec<usize> = [3, 5, 6, 8, 9, 12, 15].map(super::left_out).to_vec();
        assert_eq!(left_out, [0, 0, 0, 0, 1, 2, 3]);
    }
}
