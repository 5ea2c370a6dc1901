//! A remote procedure call on one scale with the costs beneath it.

use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale};
use crate::rows::Rows;
use costof_findings::ladder::ladders;
use costof_model::Unit;

/// A panel for each link, for the payload that was asked for first; none if the run has no call together with
/// TCP.
fn panels(rows: &Rows<'_>) -> Vec<Panel> {
    let mut links = Vec::new();
    let mut panels = Vec::new();
    for ladder in ladders(rows.run) {
        if links.contains(&ladder.link) {
            continue;
        }
        let dots = ladder.rungs.iter().enumerate().map(|(position, (name, ns))| Dot {
            x: position as f64 + 1.0,
            y: *ns,
            text: format!("{name}: {}", Unit::Nanoseconds.display(*ns)),
            ..Dot::default()
        });
        let names = ladder.rungs.iter().map(|(name, _)| name.clone());
        panels.push(Panel::new(
            &*ladder.payload,
            Axis::new("", Unit::One, Scale::Words(names.collect())),
            Axis::new("time", Unit::Nanoseconds, Scale::Decades),
            vec![Line::new(0, Kind::Dots, dots)],
        ));
        links.push(ladder.link);
    }
    panels
}

/// The figure of a call and what lies below it.
pub(crate) fn ladder(rows: &Rows<'_>) -> Option<Figure> {
    let panels = panels(rows);
    (!panels.is_empty()).then(|| Figure {
        name: "call-ladder".to_owned(),
        title: "A remote procedure call and the layers below it".to_owned(),
        about: "On one logarithmic scale: the payload that was asked for first, over each link."
            .to_owned(),
        series: vec![String::new()],
        panels,
        ..Figure::default()
    })
}
