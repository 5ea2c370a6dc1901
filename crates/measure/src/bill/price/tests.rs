use super::*;
use costof_model::TimedRun;
use costof_model::bill::{Count, CountedCommand, Counts, Distance, FaultKind, Item};
use costof_model::bill::{End, Means, SizeClass, ThreadCounts};
use costof_model::priced::Wait;
use costof_model::testing::probe_info;

const LIST: &str = r#"
entry = "enter"

[[price]]
items = ["read"]
class = "files"
cost = [["1B", "small"], ["4KiB", "page"]]
copies = true

[[price]]
items = ["fork"]
class = "processes"
cost = [["0B", "process"]]
of = 2
entries = 1
less = [[1, "small"]]

[[price]]
items = ["fault on a new page"]
class = "faults"
cost = [["0B", "page_fault"]]

[[saving]]
what = "larger reads"
items = ["read"]
below = "4KiB"
merged = "4KiB"
assumes = "they lie next to each other"

[[saving]]
what = "another way"
items = ["fork"]
now = "process"
cost = "small"
waits = true
assumes = "nothing"
"#;

fn list() -> PriceList {
    let infos = ["enter", "small", "page", "process", "page_fault"].map(probe_info);
    PriceList::parse(LIST, &infos.iter().collect::<Vec<_>>()).unwrap()
}

/// Each row's median and how far its interval reaches to both sides.
fn values(list: &PriceList, known: &[(&str, f64, f64)]) -> Values {
    list.values(|row| {
        let (_, ns, off) = known.iter().find(|(name, ..)| *name == row.point.probe)?;
        Some(Value::Measured(*ns, Some((ns - off, ns + off))))
    })
}

const ALL: [(&str, f64, f64); 5] = [
    ("enter", 100.0, 3.0),
    ("small", 150.0, 4.0),
    ("page", 1000.0, 0.0),
    ("process", 50_000.0, 0.0),
    ("page_fault", 500.0, 10.0),
];

fn item(key: &str, count: f64, bytes: f64) -> Tallied {
    Tallied { key: key.to_owned(), class: None, count, errors: 0.0, bytes }
}

#[test]
fn an_item_costs_what_its_row_says_and_is_divided_by_class() {
    let list = list();
    let values = values(&list, &ALL);
    let items = [item("read", 10.0, 10.0)];
    let (priced, classes, all) = list.items(&items, &values).unwrap();
    assert_eq!(priced[0].name, "read of 1B");
    assert_eq!(priced[0].each_ns, Estimate { value: 150.0, low: 146.0, high: 154.0 });
    assert_eq!((all.value, all.low, all.high), (1500.0, 1460.0, 1540.0));
    let by_class = |class| classes.iter().find(|of| of.class == class).map(|of| of.time_ns.value);
    assert_eq!(by_class(Class::Entry), Some(1000.0));
    assert_eq!(by_class(Class::Files), Some(500.0));
    assert_eq!(by_class(Class::Copies), None, "the first size copies nothing");
}

#[test]
fn a_price_may_be_off_elsewhere() {
    let list = list();
    let known = values(&list, &[("enter", 100.0, 0.0)]);
    let values = list.in_a_program(&known);
    let (_, _, all) = list.items(&[item("getppid", 10.0, 0.0)], &values).unwrap();
    assert_eq!((all.value, all.low, all.high), (1000.0, 900.0, 1100.0));
}

#[test]
fn sizes_lie_on_a_line_and_grow_in_proportion_beyond_the_last() {
    let list = list();
    let values = values(&list, &ALL);
    let cost = |bytes: f64| {
        let (priced, ..) = list.items(&[item("read", 2.0, 2.0 * bytes)], &values).unwrap();
        priced[0].each_ns.value
    };
    assert_eq!([1.0, 4096.0, 8192.0].map(cost), [150.0, 1000.0, 2000.0]);
    let half = cost(f64::midpoint(1.0, 4096.0));
    assert!((half - 575.0).abs() < 1e-9, "{half}");
    let (_, classes, all) = list.items(&[item("read", 1.0, 8192.0)], &values).unwrap();
    let copies = classes.iter().find(|of| of.class == Class::Copies).unwrap();
    assert_eq!((copies.time_ns.value, copies.bytes), (1850.0, 8192.0));
    let sum: f64 = classes.iter().map(|of| of.time_ns.value).sum();
    assert!((sum - all.value).abs() < 1e-9);
}

#[test]
fn what_else_is_in_a_row_is_taken_off() {
    let list = list();
    // Half of 50 µs, of which one entry of its own and one of another call, and a small read that is counted too.
    let (priced, ..) = list.items(&[item("fork", 1.0, 0.0)], &values(&list, &ALL)).unwrap();
    assert_eq!(priced[0].each_ns.value, 25_000.0 - 100.0 - 150.0);
    // Of what it is not known what it costs, it stays in.
    let known = values(&list, &[ALL[0], ALL[3]]);
    let (priced, ..) = list.items(&[item("fork", 1.0, 0.0)], &known).unwrap();
    assert_eq!((priced[0].class, priced[0].each_ns.value), (Some(Class::Processes), 24_900.0));
}

#[test]
fn a_call_that_failed_costs_its_entry() {
    let list = list();
    let forks = Tallied { errors: 3.0, ..item("fork", 4.0, 0.0) };
    let (priced, classes, all) =
        list.items(std::slice::from_ref(&forks), &values(&list, &ALL)).unwrap();
    assert_eq!(all.value, 3.0 * 100.0 + 25_000.0 - 100.0 - 150.0);
    assert_eq!((priced[0].count, priced[0].errors), (4.0, 3.0));
    let entries = classes.iter().find(|of| of.class == Class::Entry).unwrap();
    assert_eq!(entries.time_ns.value, 400.0);
    let savings = list.savings(&[forks], &values(&list, &ALL), (1.0, 1e9));
    assert!(savings.is_empty(), "one of them saves little: {savings:?}");
}

#[test]
fn an_unknown_price_is_the_entry_of_a_call_and_nothing_of_anything_else() {
    let list = list();
    let values = values(&list, &ALL[..2]);
    let items = [
        item("ioctl", 4.0, 0.0),
        item("fork", 1.0, 0.0),
        item("fault on a new page", 3.0, 0.0),
        item("switch", 5.0, 0.0),
    ];
    let (priced, classes, all) = list.items(&items, &values).unwrap();
    assert_eq!(all.value, 500.0);
    assert_eq!(classes.len(), 1);
    assert!(priced.iter().all(|item| item.class.is_none()), "{priced:?}");
    let none = list.values(|_| None);
    assert!(list.items(&items, &none).unwrap_err().contains("enter"));
}

#[test]
fn a_row_that_items_share_counts_once_in_the_interval() {
    let list = list();
    let values = values(&list, &ALL);
    let items = [item("ioctl", 1.0, 0.0), item("brk", 1.0, 0.0)];
    let (.., all) = list.items(&items, &values).unwrap();
    assert_eq!((all.low, all.high), (194.0, 206.0));
    let items = [item("ioctl", 1.0, 0.0), item("fault on a new page", 1.0, 0.0)];
    let (.., all) = list.items(&items, &values).unwrap();
    assert!((all.high - 600.0 - 3.0_f64.hypot(10.0)).abs() < 1e-9, "{all:?}");
}

#[test]
fn predicted_rows_are_all_at_their_worst_ends_at_once() {
    let list = list();
    let values = list.values(|_| Some(Value::Predicted(100.0, 400.0)));
    let items = [item("ioctl", 1.0, 0.0), item("fault on a new page", 1.0, 0.0)];
    let (.., all) = list.items(&items, &values).unwrap();
    assert_eq!((all.value, all.low, all.high), (400.0, 200.0, 800.0));
}

#[test]
fn a_saving_is_shown_if_it_is_certain_and_large_enough() {
    let list = list();
    let values = values(&list, &ALL);
    let items = [item("read", 4096.0, 4096.0), item("fork", 1.0, 0.0)];
    let savings = list.savings(&items, &values, (0.5e6, 0.5e6));
    let saved: Vec<_> = savings.iter().map(|it| (&*it.what, it.saves_ns.value)).collect();
    assert_eq!(saved, [("larger reads", 4096.0 * 150.0 - 1000.0), ("another way", 49_850.0)]);
    assert!(savings[1].is_waiting && savings[0].of == "4,096 × read");
    // No more waiting is saved than there is.
    let hardly_waits = list.savings(&items, &values, (1e5, 20_000.0));
    assert_eq!(hardly_waits[1].saves_ns, Estimate::exact(20_000.0));
    let large = list.savings(&items, &values, (1e8, 0.0));
    assert!(large.is_empty(), "{large:?}");
    // Reads that are large already save nothing.
    assert!(list.savings(&[item("read", 1.0, 8192.0)], &values, (1.0, 0.0)).is_empty());
    // Nor is anything known where the larger ones have no price, which is measured then.
    let small = self::values(&list, &ALL[..2]);
    let reads = [item("read", 4096.0, 4096.0)];
    assert!(list.savings(&reads, &small, (1.0, 0.0)).is_empty());
    let missing = list.missing(&reads, &small, 1e6);
    assert!(missing.iter().any(|point| point.probe == "page"), "{missing:?}");
    let predicted = list.values(|_| Some(Value::Predicted(100.0, 101.0)));
    assert!(list.savings(&items, &predicted, (1.0, 1.0)).is_empty());
    let uncertain = [("small", 150.0, 149.0), ("page", 1000.0, 900_000.0)];
    let uncertain = self::values(&list, &uncertain);
    assert!(list.savings(&[item("read", 4096.0, 4096.0)], &uncertain, (1.0, 0.0)).is_empty());
}

#[test]
fn what_has_no_measured_price_is_measured_in_the_order_of_what_it_may_cost() {
    let list = list();
    let values = list.values(|row| {
        (row.point.probe == "enter").then_some(Value::Measured(100.0, Some((99.0, 101.0))))
    });
    let items = [item("fault on a new page", 1000.0, 0.0), item("fork", 3000.0, 0.0)];
    let missing = list.missing(&items, &values, 4e6);
    let names: Vec<&str> = missing.iter().map(|point| &*point.probe).collect();
    assert_eq!(names[2..], ["page_fault"]);
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(list.missing(&items, &values, 1e12).is_empty(), "too little to matter");
    let needed = list.needed(&items);
    assert!(names.iter().all(|name| needed.iter().any(|point| point.probe == *name)), "{needed:?}");
    let forks = list.missing(&[item("fork", 100.0, 0.0)], &values, 1e8);
    assert_eq!(forks.len(), 2, "a fork takes longer than other calls: {forks:?}");
}

#[test]
fn another_machine_is_compared_by_the_items_that_both_price() {
    let list = list();
    let here = values(&list, &ALL);
    let there = values(&list, &[("enter", 50.0, 0.0)]);
    let items = [item("ioctl", 10.0, 0.0), item("fault on a new page", 1.0, 0.0)];
    let names = || ("m".to_owned(), "f".to_owned());
    let found = list.elsewhere(&items, (&here, &there), 4000.0, names()).unwrap();
    assert_eq!((found.ratio.value, found.share), (0.5, 0.25));
    assert!((found.ratio.high - 0.5 - 0.5 * 0.03).abs() < 1e-9, "{found:?}");
    assert_eq!(found.less_ns, [(Class::Entry, 500.0)]);
    let short = list.elsewhere(&items, (&here, &there), 0.0, names()).unwrap();
    assert_eq!(short.share, 1.0);
    let nothing = list.values(|_| None);
    assert_eq!(list.elsewhere(&items, (&here, &nothing), 1.0, names()), None);
    let predicted = list.values(|_| Some(Value::Predicted(100.0, 400.0)));
    for pair in [(&here, &predicted), (&predicted, &here)] {
        assert_eq!(list.elsewhere(&items, pair, 1.0, names()), None, "not measured");
    }
}

#[test]
fn runs_are_averaged_and_known_kinds_are_taken_off_the_kernels_own_count() {
    let fault = |kind, count| Count {
        item: Item::Fault { kind, in_kernel: false },
        count,
        errors: 0,
        bytes: 0,
        waited_ns: 0,
    };
    let read = |count, bytes| Count {
        item: Item::Call { name: "read".to_owned(), size: SizeClass::new(bytes / count), of: None },
        count,
        errors: 1,
        bytes,
        waited_ns: 0,
    };
    let wait = Count {
        item: Item::Wait { call: Some("poll".to_owned()) },
        count: 2,
        errors: 0,
        bytes: 0,
        waited_ns: 600,
    };
    let run = |items: Vec<Count>| Counts {
        means: Means::Ebpf,
        not_counted: vec![],
        threads: vec![ThreadCounts { process: 1, thread: 1, name: "p".to_owned(), items }],
        whole: vec![],
        wall_ns: 1,
        user_ns: 1,
        system_ns: 1,
        end: End::Exited(0),
    };
    let preempted = Count { item: Item::Preempted, count: 4, ..wait.clone() };
    let block_io = Item::BlockIo { is_write: true };
    let write = Count { item: block_io, count: 3, bytes: 12288, waited_ns: 0, ..wait.clone() };
    let first = run(vec![read(4, 256), fault(FaultKind::FirstRead, 7), wait, preempted, write]);
    let timed = [9, 11].map(|minor_faults| TimedRun { minor_faults, ..TimedRun::default() });
    let mut command = CountedCommand {
        command: "p".to_owned(),
        timed: timed.into(),
        counted: vec![first, run(vec![read(2, 128)])],
    };
    let tally = |command: &CountedCommand| super::tally(command, 2.0);
    let of_program = tally(&command);
    // A running process has them in the counted stretches alone.
    command.timed.clear();
    command.counted.iter_mut().for_each(|run| run.whole = vec![fault(FaultKind::Minor, 10)]);
    let tally = tally(&command);
    assert_eq!(of_program, tally);
    let of = |key: &str| tally.iter().find(|item| item.key == key).unwrap();
    assert_eq!((of("read").count, of("read").bytes, of("read").errors), (3.0, 192.0, 1.0));
    assert_eq!(of("read").name(), "read of 64B");
    assert_eq!(of("fault on a file's page").count, 3.5);
    assert_eq!(of("fault").count, 6.5, "3 and 10 are of no known kind");
    assert_eq!((of("switch").count, of("preempted").count), (1.0, 2.0));
    assert_eq!(requests(&command, 2.0), [(0.0, 0.0), (1.5, 6144.0)]);
    let waits = waits(&command, 2.0);
    assert_eq!(waits, [Wait { what: "poll".to_owned(), count: 1.0, waited_ns: 300.0 }]);
}

#[test]
fn a_clone_makes_a_thread_of_its_process_or_a_process() {
    let thread = |process, thread, clones: u64, errors| {
        let item = Item::Call { name: "clone3".to_owned(), size: None, of: None };
        let count = Count { item, count: clones, errors, bytes: 0, waited_ns: 0 };
        let items = if clones > 0 { vec![count] } else { vec![] };
        ThreadCounts { process, thread, name: "p".to_owned(), items }
    };
    let counts = Counts {
        means: Means::Ebpf,
        not_counted: vec![],
        // Process 1 made two threads and process 4, one of whose two clones failed; the other made a thread.
        threads: vec![
            thread(1, 1, 1, 0),
            thread(1, 2, 2, 0),
            thread(1, 3, 0, 0),
            thread(4, 4, 2, 1),
            thread(4, 5, 0, 0),
        ],
        whole: vec![],
        wall_ns: 1,
        user_ns: 1,
        system_ns: 1,
        end: End::Exited(0),
    };
    let command = CountedCommand { command: "p".to_owned(), timed: vec![], counted: vec![counts] };
    let tally: Vec<_> =
        tally(&command, 1.0).into_iter().map(|item| (item.key, item.count, item.errors)).collect();
    let expected =
        [("clone3", 2.0, 1.0), ("new thread", 3.0, 0.0), ("start of the program", 1.0, 0.0)];
    assert_eq!(tally, expected.map(|(key, count, errors)| (key.to_owned(), count, errors)));
}

#[test]
fn a_process_with_many_new_pages_pays_for_memory_and_wake_ups_go_by_distance() {
    let count = |item, count| Count { item, count, errors: 0, bytes: 0, waited_ns: 0 };
    let new_pages =
        |pages| count(Item::Fault { kind: FaultKind::FirstWrite, in_kernel: false }, pages);
    let wake_up = |distance, by_itself| count(Item::WakeUp { distance, by_itself }, 1);
    let thread =
        |process, items| ThreadCounts { process, thread: process, name: "p".to_owned(), items };
    let wake_ups = vec![
        wake_up(Distance::SameCache, true),
        wake_up(Distance::SameCache, false),
        wake_up(Distance::SameCpu, true),
        wake_up(Distance::OtherNode, true),
        new_pages(600),
    ];
    let counts = Counts {
        means: Means::Ebpf,
        not_counted: vec![],
        threads: vec![
            thread(1, wake_ups),
            thread(2, vec![new_pages(600)]),
            thread(3, vec![new_pages(2000)]),
        ],
        whole: vec![],
        wall_ns: 1,
        user_ns: 1,
        system_ns: 1,
        end: End::Running,
    };
    let command = CountedCommand { command: "p".to_owned(), timed: vec![], counted: vec![counts] };
    let all = tally(&command, 1.0);
    let tally: Vec<_> = all.iter().map(|item| (&*item.key, item.count)).collect();
    let expected = [
        ("fault on a new page", 1200.0),
        ("fault on a new page of many", 2000.0),
        ("wake-up across cores", 1.0),
        ("wake-up across nodes", 1.0),
    ];
    assert_eq!(tally, expected);
    assert_eq!(calls(&all), 0.0, "none is a system call");
}
