//! A bill in Prometheus' [text format](https://prometheus.io/docs/instrumenting/exposition_formats/).

use crate::export::prometheus::labels;
use costof_model::priced::Priced;
use std::fmt::Write;

/// Gauges of a process, each for one second, or of a run.
pub fn prometheus(bill: &Priced) -> String {
    let program = &*bill.program;
    let mut text = String::new();
    let mut family = |name: &str, help: &str, values: Vec<(String, f64)>| {
        let _ = writeln!(text, "# HELP costof_bill_{name} {help}\n# TYPE costof_bill_{name} gauge");
        for (labels, value) in values {
            let _ = writeln!(text, "costof_bill_{name}{{{labels}}} {value:?}");
        }
    };
    let per = if bill.per_second { "second" } else { "run" };
    let whole = labels(&[("program", program)]);
    for (name, what, ns) in [
        ("kernel_seconds", "CPU time in the kernel", bill.times.kernel_ns.value),
        ("user_seconds", "CPU time outside the kernel", bill.times.user_ns.value),
        ("itemised_seconds", "CPU time in the kernel that items explain", bill.itemised_ns.value),
    ] {
        // What is too short to be divided has no value of either.
        let is_known = bill.is_divided() || name == "itemised_seconds";
        let values = is_known.then(|| (whole.clone(), ns / 1e9)).into_iter().collect();
        family(name, &format!("{what}, of one {per}."), values);
    }
    let items = |value: fn(&costof_model::priced::PricedItem) -> f64| {
        let item = |item| labels(&[("program", program), ("item", item)]);
        bill.items.iter().map(|it| (item(&it.name), value(it))).collect()
    };
    family("item_count", &format!("How often, in one {per}."), items(|item| item.count));
    let help = format!("What the items cost, of one {per}: count times price.");
    family("item_seconds", &help, items(|item| item.time_ns.value / 1e9));
    text
}
