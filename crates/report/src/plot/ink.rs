//! Colours as names that become classes. Light mode, dark mode and paper each define a colour for every
//! class. A class name never comes from a run.

/// The colours of a file of its own: on white, as in a paper.
pub(crate) const STYLE: &str = "text{font:12px Helvetica,Arial,sans-serif;fill:#222}\
.e{text-anchor:end}.m{text-anchor:middle}.b{font-weight:bold}\
path{fill:none;stroke:var(--c)}.f{fill:var(--c);stroke:none}.d{stroke-width:6.4px;stroke-linecap:round}\
.axis{--c:#555}.grid{--c:#ddd}.mark{--c:#666}text.mark{fill:#555}\
.s0{--c:#0060a8}.s1{--c:#d1520a}.s2{--c:#0a7d55}.s3{--c:#b34a8e}.s4{--c:#a87a00}.s5{--c:#2f95c4}\
.s6{--c:#6b52b5}.s7{--c:#555}.level{--c:#5b90c3}.rim{--c:#fff;stroke-width:3.5px}.ink{--c:#222}\
.h0{--c:#6699c9}.h1{--c:#5989b7}.h2{--c:#4b78a6}.h3{--c:#3e6894}.h4{--c:#305782}.h5{--c:#234770}\
.h6{--c:#15365f}.h7{--c:#08264d}";

pub(super) const AXIS: &str = "axis";
pub(super) const GRID: &str = "grid";
pub(super) const MARK: &str = "mark";
/// The class of bars if there is only one series.
pub(super) const LEVEL: &str = "level";
/// The number of colours; later series differ in shape only.
const COLOURS: usize = 8;
/// How many shades the cells have.
const SHADES: usize = 8;

/// The class of a series.
pub(super) fn series(position: usize) -> String {
    format!("s{}", position % COLOURS)
}

/// The class of the bars of a series; if it is the only one, a class on which its intervals remain visible.
pub(super) fn bars(position: usize, series: usize) -> String {
    match series {
        0 | 1 => LEVEL.to_owned(),
        _ => self::series(position),
    }
}

/// The classes of the markers of a series.
pub(super) fn markers(position: usize) -> String {
    format!("{} {}", series(position), shape(position))
}

/// The class of a series' markers without their colour: dots or filled shapes.
pub(super) fn shape(position: usize) -> &'static str {
    if position.is_multiple_of(4) { "d" } else { "f" }
}

/// The class of a heat from 0 to 1.
pub(super) fn shade(heat: f64) -> String {
    format!("h{}", ((heat * SHADES as f64) as usize).min(SHADES - 1))
}
