//! Figures: panels, notes, and a legend whose entries hide their series.

use crate::document::commands;
use crate::plot::{Figure, Kind, PAGE, drawing, sign};
use maud::{Markup, PreEscaped, html};

/// A legend can hide this many colours.
const COLOURS: usize = 8;

/// Figures side by side, as far as there is room.
pub(crate) fn figures<'a>(figures: impl Iterator<Item = &'a Figure>) -> Markup {
    let mut figures = figures.peekable();
    html! { @if figures.peek().is_some() { div.figures { @for one in figures { (figure(one)) } } } }
}

fn figure(figure: &Figure) -> Markup {
    let mut lines = figure.panels.iter().flat_map(|panel| &panel.lines);
    let has_markers = lines.any(|line| matches!(line.kind, Kind::Joined | Kind::Dots));
    let drawn = html! {
        figure class=[(figure.panels.len() > 1).then_some("many")] id={ "f-" (figure.name) } {
            figcaption {
                @if !figure.folded { b { (figure.title) } }
                @if !figure.about.is_empty() { p.quiet { (figure.about) } }
                @if !figure.left_out.is_empty() {
                    p.quiet { (commands(&format!("Not drawn: {}.", figure.left_out.join("; ")))) }
                }
            }
            @if figure.legend().next().is_some() {
                div.legend {
                    @for (position, name) in figure.legend() {
                        label class={ "s" (position % COLOURS) } {
                            input type="checkbox" checked class={ "k" (position % COLOURS) };
                            @if has_markers { (PreEscaped(sign(position))) } @else { i {} }
                            (name)
                        }
                    }
                }
            }
            div.panels.one[figure.panels.len() == 1] {
                @for panel in &figure.panels {
                    div.panel {
                        @if !panel.title.is_empty() { p.title { (panel.title) } }
                        (PreEscaped(drawing(figure, panel, PAGE)))
                    }
                }
            }
        }
    };
    if figure.folded {
        return html! { details.more { summary { (figure.title) } (drawn) } };
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Dot, Line, Panel, Scale};
    use costof_model::Unit;

    #[test]
    fn a_legend_shows_markers_where_lines_have_them() {
        let legend = |kind| {
            let axis = || Axis::new("", Unit::One, Scale::Linear);
            let line = |series| Line::new(series, kind, [Dot::default()]);
            let panel = Panel::new("", axis(), axis(), vec![line(0), line(1)]);
            let one = Figure {
                series: vec!["a".into(), "b".into()],
                panels: vec![panel],
                ..Figure::default()
            };
            figure(&one).into_string()
        };
        for (kind, sign) in [
            (Kind::Joined, sign(1)),
            (Kind::Dots, sign(1)),
            (Kind::Bars, "<i></i>".to_owned()),
            (Kind::Steps, "<i></i>".to_owned()),
        ] {
            assert!(legend(kind).contains(&format!("{sign}b</label>")), "{kind:?}");
        }
    }
}
