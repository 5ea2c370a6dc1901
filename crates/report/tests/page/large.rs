//! Runs with many points: how long a page becomes. How long making it takes is for the bench to say.

use crate::made::{Made, Point, varied};
use costof_report::page::page;
use serde_json::json;

/// A latency table of a busy machine: two rows of each probe, which says of itself as much as costof's own
/// do in the mean.
fn latency_table(points: u32) -> Made {
    let mut made = Made::default();
    for at in 0..points {
        let probe = format!("layer{}.probe{}", at / 12, at / 2);
        let (name, ns) = if at % 8 < 2 { ("latency", 5e3) } else { ("cost", 80.0) };
        made.add(&Point {
            probe: &probe,
            axes: json!({"kind": format!("kind{}", at % 2)}),
            link: "none",
            measured: (name, "ns", ns * f64::from(1 + at)),
            label: Some("what this row of the table is called"),
        });
        if at % 2 == 0 {
            let text = |letters: usize| "method ".repeat(letters / 7);
            let metric = |name: &str| json!({"name": name, "unit": "ns", "better": "lower", "about": text(80)});
            made.add_row(json!({"type": "probe", "id": probe, "method": 1, "question": text(70),
                "axes": [{"name": "kind", "about": text(30), "domain": {"choice": [
                    {"value": "kind0", "about": ""}, {"value": "kind1", "about": ""}]}}],
                "crossings": [], "metrics": [metric(name), metric("estimated_core_cycles")],
                "how": text(900), "sources": vec![text(90); 3], "predicted_from": text(120), "after": [],
                "needs": [], "roles": ["only"]}));
        }
    }
    made
}

#[test]
fn a_page_stays_light_enough_to_be_sent() {
    for (what, made, points, most) in
        [("the latency table", latency_table(90), 90, 300_000), ("copy", varied(300), 300, 500_000)]
    {
        let page = page(&made.run(), &[]);
        assert!(page.len() < most, "{what}: {} bytes", page.len());
        assert_eq!(page.matches("<tr id=\"p").count(), points);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_page_of_many_points_shows_their_first_thousands_and_says_so() {
    let page = page(&varied(7000).run(), &[]);
    assert!(page.contains("more in"));
    assert!(page.len() < 20_000_000, "{} bytes", page.len());
}
