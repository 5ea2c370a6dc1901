//! Preformatted text of a probe for `explain`, beyond its description.

/// A text of a probe, with lines of at most [`COLUMNS`].
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// The probe's id.
    pub probe: &'static str,
    /// Its subject.
    pub heading: &'static str,
    /// Its lines.
    pub text: &'static str,
}

/// The widest line of a note: indented by two, it fits a terminal of 80 columns.
pub const COLUMNS: usize = 78;

/// All notes.
pub static NOTES: &[Note] = &[
    Note {
        probe: "copy.send",
        heading: "Where bytes are copied, and who pays",
        text: crate::copy::COPIES,
    },
    Note { probe: "copy.send", heading: "The two copies", text: crate::copy::TWO_COPIES },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLE;

    #[test]
    fn every_note_is_of_a_probe_and_fits() {
        for note in NOTES {
            assert!(TABLE.iter().any(|probe| probe.info.id == note.probe));
            for line in note.text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}");
                assert_eq!(line.trim_end(), line);
            }
        }
    }

    #[test]
    fn copies_are_drawn_for_every_way_of_sending_and_on_every_kind_of_link() {
        let primitive = crate::copy::send::PROBE.info.axis("primitive").unwrap();
        let ways = primitive.defaults();
        let ways = ways.iter().map(|value| primitive.display(value));
        let links = ["loopback", "veth", "sink", "over=unix", "Emulated", "--peer"];
        for wanted in ways.chain(links.map(str::to_owned)) {
            let text = crate::copy::COPIES;
            assert!(text.contains(&wanted), "{wanted} is missing in: {text}");
        }
    }

    #[test]
    fn the_page_about_copies_has_these_as_they_are() {
        let page = include_str!("../../../docs/copies.md");
        for note in NOTES.iter().filter(|note| note.probe == "copy.send") {
            assert!(page.contains(note.text), "docs/copies.md: {}", note.heading);
        }
    }
}
