//! What a page shows, and what no run file can make it do.

use super::*;
use costof_model::testing::{probe_info, run_without_facts as run, sized_row};
use costof_model::{Block, PointRow};
use std::collections::HashMap;
use std::process::Command;

#[test]
fn the_digest_is_that_of_the_script() {
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/script.js");
    let Ok(shown) = Command::new("sha256sum").arg(script).output() else {
        eprintln!("skipped: there is no sha256sum here (coreutils)");
        return;
    };
    let shown = String::from_utf8(shown.stdout).unwrap();
    let digits = shown.chars().take(64);
    let mut bits: String =
        digits.map(|digit| format!("{:04b}", digit.to_digit(16).unwrap())).collect();
    assert_eq!(bits.len(), 256, "{shown}");
    bits += "00";
    let letters = bits.as_bytes().chunks(6).map(|six| {
        let value = six.iter().fold(0, |value, bit| 2 * value + usize::from(bit - b'0'));
        char::from(BASE64[value])
    });
    assert_eq!(SCRIPT_SHA256.trim(), letters.chain(['=']).collect::<String>());
}

#[test]
fn a_page_of_nothing_says_so() {
    let page = page(&run(), &[]);
    assert!(page.contains("No point was measured"));
    assert!(page.contains("Every requested point"));
}

/// The colours of a plot's file, by the names that a page has for them.
fn file_colours(name: &str) -> String {
    let class = format!(".{name}{{--c:#");
    let (_, rest) = crate::plot::FILE_STYLE.split_once(&class).unwrap();
    format!("#{}", rest.split('}').next().unwrap())
}

/// The colours of a page in each of its modes: light, dark and print.
fn modes() -> Vec<HashMap<&'static str, &'static str>> {
    let blocks = STYLE.split(":root{").skip(1);
    let declared = blocks.map(|block| {
        let declarations = block.split('}').next().unwrap().split(';');
        let colours = declarations.filter_map(|one| one.trim().strip_prefix("--")?.split_once(':'));
        colours.collect::<HashMap<_, _>>()
    });
    let declared: Vec<HashMap<&str, &str>> = declared.collect();
    let whole = |own: &HashMap<&'static str, &'static str>| {
        let mut colours = declared[0].clone();
        colours.extend(own);
        colours
    };
    declared.iter().map(whole).collect()
}

/// The contrast ratio of two colours, as the Web Content Accessibility Guidelines define it.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| {
        let digits = colour.trim_start_matches('#');
        let each = digits.len() / 3;
        let channels = [0.2126, 0.7152, 0.0722].into_iter().enumerate().map(|(at, weight)| {
            let digits = digits[at * each..(at + 1) * each].repeat(3 - each);
            let value = f64::from(u8::from_str_radix(&digits, 16).unwrap()) / 255.0;
            let linear =
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
            weight * linear
        });
        channels.sum::<f64>() + 0.05
    };
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

#[test]
fn text_and_marks_stand_out_in_every_mode() {
    const TEXT: &str = "ink quiet link mark good fair poor bad";
    const MARKS: &str = "bar dark expect axis mark s0 s1 s2 s3 s4 s5 s6 s7 h0 h1 h2 h3 h4 h5 h6 h7";
    let modes = modes();
    assert_eq!(modes.len(), 3);
    for colours in &modes {
        let is_seen = |names: &str, on: &str, least: f64| {
            for name in names.split(' ') {
                let contrast = contrast(colours[name], colours[on]);
                assert!(
                    contrast >= least,
                    "{name} {} on {on} {}: {contrast:.2}",
                    colours[name],
                    colours[on]
                );
            }
        };
        is_seen(TEXT, "paper", 4.5);
        is_seen(TEXT, "soft", 4.5);
        is_seen(MARKS, "paper", 3.0);
        is_seen("dark", "bar", 3.0);
    }
    for name in MARKS.split(' ').skip(3).chain(["level"]) {
        let contrast = contrast(&file_colours(name), "#fff");
        assert!(contrast >= 3.0, "{name} of a file: {contrast:.2}");
    }
}

#[test]
fn a_run_of_few_probes_begins_with_the_question_its_answer_and_one_plot() {
    let of = |probes: &[&'static str]| {
        let mut run = run();
        for probe in probes {
            let sized = |size| sized_row(*probe, size, size as f64);
            run.points.extend([64, 128, 256].map(sized));
        }
        // A point that only predictions need is not asked for.
        let base = sized_row("a.base", 1, 1.0);
        run.run.plan.blocks.push(Block {
            points: vec![base.point.clone()],
            needed: vec![0],
            ..Block::default()
        });
        run.points.push(PointRow { headline: true, ..base });
        let mut asks = probe_info("a.x");
        asks.question = "What is it?".into();
        run.probes.push(asks);
        let page = page(&run, &[]);
        let (first, rest) = page.split_once("id=\"latency\"").unwrap();
        (first.to_owned(), rest.to_owned())
    };
    let (first, rest) = of(&["a.x"]);
    for part in [
        "<h1>What is it?</h1>",
        "<b>64.0 ns</b>",
        "3 points, from 64.0 ns (a.x) to 256 ns",
        "<b>a.x cost by size</b>",
    ] {
        assert!(first.contains(part), "{part}: {first}");
        assert!(!rest.contains(part), "{part} is there twice");
    }
    let (first, rest) = of(&["a.x", "a.y", "a.z", "a.u"]);
    assert!(
        first.contains("<h1>What things cost here</h1>") && !first.contains("class=\"answer\"")
    );
    assert!(rest.contains("<b>a.x cost by size</b>"));
}
