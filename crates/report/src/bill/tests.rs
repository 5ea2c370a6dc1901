use super::*;
use costof_model::priced::{ClassTime, Elsewhere, Saving, Times, Wait};
use std::collections::BTreeMap;

fn estimate(value: f64) -> Estimate {
    Estimate { value, low: 0.95 * value, high: 1.05 * value }
}

fn item(name: &str, class: Option<Class>, count: f64, each: f64) -> PricedItem {
    PricedItem {
        name: name.to_owned(),
        key: (name.to_owned(), None),
        class,
        count,
        errors: 0.0,
        bytes: 0.0,
        each_ns: estimate(each),
        time_ns: estimate(each * count),
    }
}

/// 100 ms in the kernel, of which items explain 70, and 20 ms of user code.
fn bill() -> Priced {
    let class = |class, count, ns| ClassTime { class, count, bytes: 4096.0, time_ns: estimate(ns) };
    Priced {
        program: "dd bs=64".to_owned(),
        machine: "a machine".to_owned(),
        per_second: false,
        runs: 5,
        times: Times {
            wall_ns: estimate(125e6),
            user_ns: estimate(20e6),
            kernel_ns: estimate(100e6),
            is_divided: true,
            waiting_ns: 5e6,
            queue_ns: None,
        },
        way_back_ns: Some(estimate(40.0)),
        counting_slowdown: Some(1.2),
        counted_by: "ebpf".to_owned(),
        not_counted: Vec::new(),
        items: vec![
            item("read of 64B", Some(Class::Files), 600_000.0, 115.0),
            item("ioctl", None, 10.0, 100.0),
        ],
        itemised_ns: estimate(70e6),
        classes: vec![class(Class::Entry, 600_010.0, 60e6), class(Class::Copies, 600_000.0, 10e6)],
        waits: vec![Wait { what: "poll".to_owned(), count: 3.0, waited_ns: 5e6 }],
        requests: [(0.0, 0.0), (1500.4, 6e6)],
        savings: Vec::new(),
        elsewhere: Vec::new(),
        prices_of: "a machine".to_owned(),
        prices: BTreeMap::from([("os.syscall".to_owned(), "predicted".to_owned())]),
    }
}

fn first(bill: &Priced) -> String {
    text(bill, false, 400).lines().next().unwrap().to_owned()
}

#[test]
fn the_first_line_says_where_the_time_goes() {
    let line = first(&bill());
    assert!(line.starts_with("`dd bs=64` spends 80 % of 125 ms in the kernel, most of it on entering the kernel: 600,010 times, 60.0 ms (57.0–63.0)."), "{line}");
    let mut user = bill();
    user.times.user_ns = estimate(900e6);
    assert!(first(&user).contains("in its own code; the kernel takes 10.0 %"), "{}", first(&user));
    let mut waits = bill();
    waits.times.waiting_ns = 1e9;
    assert!(
        first(&waits).contains("waits for 89 % of 1.12 s, most of it in poll"),
        "{}",
        first(&waits)
    );
    // Poll is the longest wait, but of much.
    waits.waits.push(Wait { what: "read".to_owned(), count: 9.0, waited_ns: 4e6 });
    waits.waits.push(Wait { what: "futex".to_owned(), count: 9.0, waited_ns: 4e6 });
    assert!(first(&waits).ends_with(", first of all in poll."), "{}", first(&waits));
    let mut unknown = bill();
    unknown.itemised_ns = estimate(1e6);
    unknown.classes.truncate(1);
    unknown.classes[0].time_ns = estimate(1e6);
    assert!(
        first(&unknown).contains("only their entry has a price: ioctl (10)"),
        "{}",
        first(&unknown)
    );
    assert!(first(&unknown).contains("most of it where no item has a price"));
    // More than the largest class, but not most.
    unknown.itemised_ns = estimate(60e6);
    assert!(first(&unknown).contains("first of all where no item"), "{}", first(&unknown));
    // The items rule out what the kernel's ticks say.
    let mut wrong = bill();
    (wrong.times.kernel_ns, wrong.times.user_ns) = (estimate(20e6), estimate(200e6));
    assert!(
        first(&wrong)
            .contains("its items take 70.0 ms (66.5–73.5) in the kernel, more than the 20.0 ms"),
        "{}",
        first(&wrong)
    );
    assert!(bar(&wrong).contains("kernel or user code, not itemised"), "{}", bar(&wrong));
    let mut process = bill();
    process.per_second = true;
    assert!(first(&process).contains("80 % of each second's 125 ms"));
}

#[test]
fn the_sum_is_checked_against_the_kernels_time_and_never_made_to_fit() {
    let text = text(&bill(), false, 400);
    assert!(text.contains("Itemised: 70 % (66–74) of 100 ms (95–105) of kernel time; not itemised: 30.0 ms; only their entry has a price: ioctl (10)."), "{text}");
    let mut bill = bill();
    bill.itemised_ns = estimate(97e6);
    assert!(check(&bill).ends_with("the prices explain it."), "{}", check(&bill));
    bill.itemised_ns = estimate(200e6);
    assert!(check(&bill).contains("200 %") && check(&bill).contains("more than there was"));
    let bar = self::bar(&bill);
    assert_eq!(bar.lines().next().unwrap().chars().count(), BAR);
    // Nearly all, but it may as well be half or twice.
    bill.itemised_ns = Estimate { value: 97e6, low: 20e6, high: 300e6 };
    assert!(check(&bill).ends_with("so uncertain that it says little."), "{}", check(&bill));
    bill.times.kernel_ns = Estimate::exact(0.0);
    assert_eq!(check(&bill), "The kernel's time is too short to be measured.");
}

#[test]
fn savings_and_other_machines_are_named_with_what_has_to_hold() {
    let text = |bill: &Priced| self::text(bill, false, 400);
    assert!(text(&bill()).contains("Nothing that costof has a price for"));
    let mut bill = bill();
    bill.savings.push(Saving {
        what: "io_uring".to_owned(),
        of: "600000 × read".to_owned(),
        assumes: "they wait".to_owned(),
        saves_ns: estimate(40e6),
        is_waiting: false,
    });
    bill.elsewhere.push(Elsewhere {
        machine: "m7g".to_owned(),
        from: "m7g.jsonl".to_owned(),
        ratio: Estimate { value: 0.82, low: 0.8, high: 0.85 },
        share: 0.7,
        less_ns: vec![(Class::Faults, 12e6), (Class::Entry, -1e6)],
    });
    let text = text(&bill);
    assert!(
        text.contains(
            "io_uring: 40.0 ms (38.0–42.0) less CPU time, of 600000 × read, if they wait"
        ),
        "{text}"
    );
    assert!(text.contains("at the prices of m7g (m7g.jsonl), what 70 % of the kernel's time go to takes 18 % less (15–20): page faults 12.0 ms less"), "{text}");
    let mut same = bill.elsewhere[0].clone();
    same.ratio = Estimate { value: 1.01, low: 0.9, high: 1.1 };
    let same = there(&bill, &same);
    assert!(same.contains("1 % more (may be the same)"), "{same}");
}

#[test]
fn notes_say_what_is_predicted_not_counted_and_how_much_counting_took() {
    let mut bill = bill();
    bill.not_counted.push("faults: no right".to_owned());
    bill.times.queue_ns = Some(50e6);
    let doubtful = "doubtful, measured, grade D (a run)".to_owned();
    bill.prices.insert("os.mmap".to_owned(), doubtful);
    bill.prices_of = "another".to_owned();
    bill.items.push(item("signal", None, 7.0, 0.0));
    let text = text(&bill, true, 400);
    for what in [
        "counting took 20 % more CPU time",
        "not counted: faults: no right",
        "only predicted: os.syscall",
        "ready for 50.0 ms while other programs had its CPU",
        "poll 5.00 ms (3 times)",
        "requests to block devices: 1,500, 5.72 MiB written",
        "at least 100 ns",
        "grade D): os.mmap",
        "prices of another; it ran on a machine",
        "only their entry has a price: ioctl (10); without a price: signal (7)",
        "no price",
    ] {
        assert!(text.contains(what), "{what}: {text}");
    }
}

#[test]
fn too_short_a_time_is_not_divided() {
    let mut bill = bill();
    bill.times.is_divided = false;
    bill.times.kernel_ns = Estimate { value: 0.0, low: 0.0, high: 120e6 };
    bill.times.user_ns = Estimate { value: 120e6, low: 0.0, high: 120e6 };
    let text = text(&bill, false, 400);
    let answer = "`dd bs=64` runs for 96 % of 125 ms, too short to divide between kernel and user code: `--budget 20s`.";
    assert!(text.starts_with(answer), "{text}");
    assert!(!text.contains("user code 9") && !text.contains("of kernel time"), "{text}");
    assert!(text.contains("kernel or user code, not itemised"), "{text}");
    assert!(!prometheus(&bill).contains("kernel_seconds{"));
    assert!(diff(&bill, &bill, 400).contains("too short to divide"));
    bill.per_second = true;
    assert!(first(&bill).ends_with("`--for 60s`."), "{}", first(&bill));
    bill.times.waiting_ns = 1e9;
    assert!(first(&bill).contains("waits for"), "{}", first(&bill));
}

#[test]
fn a_file_with_impossible_times_is_shown_without_a_panic() {
    let mut bill = bill();
    bill.times.user_ns = Estimate::exact(-99e6);
    bill.times.waiting_ns = -5e6;
    let text = text(&bill, true, 400);
    let drawn = text.lines().find(|line| line.starts_with('█')).unwrap();
    assert!(drawn.chars().count() <= 3 * BAR, "{text}");
    assert!(self::page(&bill).contains("class=\"bill\""));
}

#[test]
fn a_page_draws_each_part_as_wide_as_it_is_long() {
    let mut bill = bill();
    bill.program = "<b>".to_owned();
    let page = page(&bill);
    assert!(
        page.contains(r#"style="width:48.00%" title="entering the kernel: 60.0 ms""#),
        "{page}"
    );
    assert!(!page.contains("<b>&"), "escaped");
    // What is more than the kernel's time does not leave the bar.
    bill.itemised_ns = estimate(200e6);
    assert!(self::page(&bill).contains(r#"width:28.80%" title="entering the kernel"#));
}

#[test]
fn prometheus_has_base_units_and_escaped_names() {
    let mut bill = bill();
    bill.program = "a \"b\"".to_owned();
    let text = prometheus(&bill);
    assert!(text.contains("costof_bill_kernel_seconds{program=\"a \\\"b\\\"\"} 0.1\n"), "{text}");
    assert!(text.contains("costof_bill_item_count{program=\"a \\\"b\\\"\",item=\"ioctl\"} 10.0\n"));
    let helps = text.lines().filter(|line| line.starts_with("# HELP")).count();
    assert_eq!(helps, 5);
}

#[test]
fn two_bills_differ_in_counts_and_these_explain_the_time() {
    let before = bill();
    let mut after = bill();
    after.times.kernel_ns = estimate(172e6);
    after.times.user_ns = before.times.user_ns;
    after.items[0].count = 1_200_000.0;
    let text = diff(&before, &after, 400);
    let line = text.lines().next().unwrap();
    assert!(line.starts_with("The kernel's time is 72.0 ms longer, user code is as long: read of 64B, 600,000 → 1,200,000 times, explains +69.0 ms"), "{line}");
    assert!(
        text.contains("Counts explain +69.0 ms")
            && text.contains("nothing that is certain remains"),
        "{text}"
    );
    assert!(!text.contains("ioctl"), "its count is the same: {text}");
    let same = diff(&before, &before, 400);
    assert!(
        same.contains("did not change significantly") && same.contains("no count changed"),
        "{same}"
    );
    let json = diff_json(&before, &after);
    assert_eq!(json["items"][0]["after"], 1_200_000.0);
    // An item is the same under another name, by what it is of.
    after.items[0].name = "read of 64B to 128B".to_owned();
    let renamed = diff(&before, &after, 400);
    assert!(renamed.contains("600,000") && renamed.contains("1,200,000"), "{renamed}");
    let unlike = diff(&before, &Priced { machine: "m7g".to_owned(), ..after.clone() }, 4000);
    assert!(unlike.contains("on two machines (a machine and m7g)"), "{unlike}");
    let less = diff(&after, &before, 400);
    assert!(less.contains("72.0 ms shorter") && less.contains("−69.0 ms"), "{less}");
}
