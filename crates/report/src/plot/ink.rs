//! Colours, as names that become classes: light, dark and paper have their own for each. A class never
//! comes from a run.

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
const COLOURS: usize = 8;
/// How many shades cells have.
const SHADES: usize = 8;

/// The class of a series.
pub(super) fn series(position: usize) -> String {
    format!("s{}", position % COLOURS)
}

/// The class for a heat from 0 to 1.
pub(super) fn shade(heat: f64) -> String {
    format!("h{}", ((heat * SHADES as f64) as usize).min(SHADES - 1))
}
