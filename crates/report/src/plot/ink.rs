//! Colours, as names that become classes: light, dark and paper have their own for each.

use kuva::render::color::Color;

/// The colours of a file of its own: on white, as in a paper.
pub(super) const STYLE: &str = "text{font:12px Helvetica,Arial,sans-serif;fill:#222}\
.e{text-anchor:end}.m{text-anchor:middle}.b{font-weight:bold}\
path{fill:none;stroke:var(--c)}circle,.f{fill:var(--c);stroke:none}.bar{opacity:.8}\
.axis{--c:#555}.grid{--c:#ddd}.mark{--c:#666}text.mark{fill:#555}\
.s0{--c:#0060a8}.s1{--c:#d1520a}.s2{--c:#0a7d55}.s3{--c:#b34a8e}.s4{--c:#a87a00}.s5{--c:#2f95c4}\
.s6{--c:#6b52b5}.s7{--c:#555}.ink{--c:#222}\
.h0{--c:#e8f0f8}.h1{--c:#cfe0f0}.h2{--c:#b0cce6}.h3{--c:#8cb4d9}.h4{--c:#6598c8}.h5{--c:#427bb3}\
.h6{--c:#275f99}.h7{--c:#12437a}";

pub(super) const AXIS: &str = "axis";
pub(super) const GRID: &str = "grid";
pub(super) const MARK: &str = "mark";
/// How many series have a colour of their own; those after them have other shapes.
pub(super) const COLOURS: usize = 8;
/// How many shades cells have.
const SHADES: usize = 8;

const SERIES: [&str; COLOURS] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
const BARS: [&str; COLOURS] = [
    "s0 bar", "s1 bar", "s2 bar", "s3 bar", "s4 bar", "s5 bar", "s6 bar", "s7 bar",
];
const INTERVALS: [&str; COLOURS] = [
    "s0 ink", "s1 ink", "s2 ink", "s3 ink", "s4 ink", "s5 ink", "s6 ink", "s7 ink",
];
const CELLS: [&str; SHADES] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"];

pub(super) fn series(position: usize) -> &'static str {
    SERIES[position % COLOURS]
}

/// A bar of a series.
pub(super) fn bar(position: usize) -> &'static str {
    BARS[position % COLOURS]
}

/// The interval of a bar of a series.
pub(super) fn interval(position: usize) -> &'static str {
    INTERVALS[position % COLOURS]
}

/// The shade for a heat from 0 to 1.
pub(super) fn shade(heat: f64) -> &'static str {
    CELLS[((heat * SHADES as f64) as usize).min(SHADES - 1)]
}

/// The class that a colour stands for; none of it comes from a run.
pub(super) fn class(colour: &Color) -> &'static str {
    let Color::Css(name) = colour else {
        return "";
    };
    let known = [
        [AXIS, GRID, MARK].as_slice(),
        &SERIES,
        &BARS,
        &INTERVALS,
        &CELLS,
    ];
    let mut known = known.into_iter().flatten();
    known
        .find(|known| ***known == **name)
        .copied()
        .unwrap_or_default()
}

pub(super) fn is_bar(colour: &Color) -> bool {
    BARS.contains(&class(colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_of_a_run_is_no_class() {
        assert_eq!(class(&Color::from("s3")), "s3");
        assert_eq!(class(&Color::from("s3 bar")), "s3 bar");
        assert_eq!(class(&Color::from("x\" onload=\"y")), "");
    }
}
