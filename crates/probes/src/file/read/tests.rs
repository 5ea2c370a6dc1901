use super::conditions::NONE;
use super::*;
use crate::cpu::memcpy::Memcpy;
use crate::file::target_file::ALL;
use crate::file::tests::{alone, measure, measure_if_supported, run, supported, value};
use crate::os::page_fault::{Kind, PageFault};
use crate::testing::{self, measured, measured_call, names};
use costof_model::facts::{DiskKind, Medium};
use costof_model::testing::facts_with_disk;
use costof_model::{Domain, FailureKind};

/// A small file, so that tests take little.
fn small(cache: Cache, pattern: Pattern, block: u64) -> Read {
    Read { size: 4 << 20, ..at(cache, pattern, block) }
}

fn in_folder(axes: Read, folder: &str) -> Read {
    Read { dir: folder.to_owned().into(), ..axes }
}

fn refused(axes: Read) -> String {
    let failure = measure(axes).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
    failure.reason
}

#[test]
fn bytes_come_from_where_the_point_says() {
    for pattern in [Pattern::Random, Pattern::Sequential] {
        for engine in Engine::ALL.iter().copied() {
            for (cache, least, most) in
                [(Cache::Warm, 0.0, NONE), (Cache::Cold, ALL, 2.1), (Cache::Direct, ALL, 1.01)]
            {
                let axes = Read { engine, ..small(cache, pattern, 4096) };
                if (cache, engine) == (Cache::Direct, Engine::Mmap) {
                    assert!(refused(axes).contains("page cache"));
                    continue;
                }
                let Some(report) = measure_if_supported(&axes) else {
                    continue;
                };
                assert_eq!(report.allocations, 0, "{axes:?}");
                if let Some(share) = value(&report, "device_share") {
                    assert!((least..=most).contains(&share), "{axes:?}: {share}");
                }
                assert!(value(&report, "throughput") > Some(0.0), "{axes:?}");
                assert!(value(&report, "cpu") > Some(0.0), "{axes:?}");
            }
        }
    }
}

#[test]
fn small_blocks_are_read_where_the_cache_allows_it() {
    for cache in [Cache::Warm, Cache::Cold] {
        let Some(report) = measure_if_supported(&small(cache, Pattern::Random, 256)) else {
            continue;
        };
        // All of a cold page is read, and only a part of it is requested.
        if let (Cache::Cold, Some(share)) = (cache, value(&report, "device_share")) {
            assert!(share > 4.0, "{share}");
        }
    }
    let reason = refused(small(Cache::Direct, Pattern::Random, 256));
    assert!(reason.contains("256B"), "{reason}");
}

#[test]
fn blocks_go_into_huge_pages_where_they_are_asked_for() {
    for cache in [Cache::Warm, Cache::Direct] {
        let axes = Read { pages: Pages::Huge, ..small(cache, Pattern::Sequential, 1 << 20) };
        if let Some(report) = measure_if_supported(&axes) {
            assert!(value(&report, "throughput") > Some(0.0), "{cache:?}");
        }
    }
}

#[test]
fn several_reads_are_in_flight_by_io_uring_alone() {
    let axes = Read { depth: 8, ..small(Cache::Direct, Pattern::Random, 4096) };
    assert!(refused(axes.clone()).contains("engine=io_uring"));
    let engine = Engine::IoUring;
    if let Some(report) = measure_if_supported(&Read { engine, ..axes }) {
        let names = names(&report);
        assert!(names.contains(&"latency"), "{names:?}");
    }
}

#[test]
fn a_folder_that_will_not_do_is_named_with_the_reason() {
    for (folder, says) in
        [("/no/such/folder", "No such file"), ("/dev/null", "Not a directory"), ("/proc", "/proc")]
    {
        let reason = refused(in_folder(small(Cache::Warm, Pattern::Random, 4096), folder));
        assert!(reason.contains(folder), "{reason}");
        assert!(reason.contains(says), "{reason}");
        assert!(reason.contains("--set dir="), "{reason}");
    }
}

#[test]
fn what_would_fill_a_disk_is_refused_before_it_is_written() {
    let most = PROBE.info.axis("size").unwrap();
    let Domain::Number { high, .. } = most.domain else {
        panic!("a size is a number");
    };
    let reason = refused(Read { size: high, ..at(Cache::Direct, Pattern::Random, 4096) });
    let has_no_folder = reason.contains("no folder");
    assert!(has_no_folder || reason.contains("would fill"), "{reason}");
}

#[test]
fn files_in_memory_are_read_warm_and_nothing_else() {
    let folder = "/dev/shm";
    let facts = costof_measure::facts::storage();
    let storage = facts.storage_of(folder);
    if storage.map(|storage| storage.medium) != Some(Medium::Memory) {
        eprintln!("skipped: {folder} is on no tmpfs");
        return;
    }
    for cache in [Cache::Cold, Cache::Direct] {
        let reason = refused(in_folder(small(cache, Pattern::Random, 4096), folder));
        assert!(reason.contains("in memory alone"), "{reason}");
    }
    let warm = small(Cache::Warm, Pattern::Random, 4096);
    measure_if_supported(&in_folder(warm, folder));
}

#[test]
fn nothing_seeks_where_nothing_turns() {
    let axes = small(Cache::Direct, Pattern::Seek, 4096);
    let Ok(target) = TargetFile::new(&axes.dir) else {
        eprintln!("skipped: no folder on a disk to write to");
        return;
    };
    match target.medium {
        Medium::Rotational => eprintln!("checked less: {} turns", target.name),
        _ => assert!(refused(axes).contains("not a rotational disk")),
    }
}

#[test]
fn a_file_that_gets_shorter_is_a_failure_row() {
    for (cache, engine) in [
        (Cache::Warm, Engine::Pread),
        (Cache::Warm, Engine::IoUring),
        (Cache::Warm, Engine::Mmap),
        (Cache::Cold, Engine::Pread),
    ] {
        let point = At::from(Read { engine, ..small(cache, Pattern::Random, 4096) });
        let _alone = alone();
        let mut role = Reading { random: Rng::with_seed(1), ..Reading::default() };
        if supported(role.prepare(&point, &Offers::new())).is_none() {
            continue;
        }
        let file = role.target.as_ref().unwrap().data.file();
        file.set_len(1 << 20).unwrap();
        let failure = run(&mut role, &point).unwrap_err();
        assert!(failure.reason.contains("shorter"), "{engine:?}: {failure}");
    }
}

#[test]
fn headlines_name_the_disk_and_its_kind() {
    let labels = |facts: &Facts| -> Vec<String> {
        let headlines = Read::headlines(facts).into_iter();
        headlines.map(|headline| headline.label).collect()
    };
    assert_eq!(
        labels(&facts_with_disk(DiskKind::Virtual)),
        [
            "read 4 KiB randomly from vda (virtual)",
            "read 1 MiB sequentially from vda (virtual)",
            "disk seek",
        ]
    );
    assert!(labels(&facts_with_disk(DiskKind::Ssd))[0].ends_with("vda (flash)"));
}

#[test]
fn a_warm_read_is_a_call_and_a_copy_and_a_seek_takes_milliseconds() {
    let mut rows = vec![
        measured_call(syscall::Call::Read, 200.0),
        measured(testing::at::<Memcpy>("size=4KiB"), 50.0),
    ];
    let expect = |axes: Read, kind, rows: &[_]| {
        Read::predict(&At::from(axes), &facts_with_disk(kind), &MeasuredRows::new(rows)).unwrap()
    };
    let warm = expect(at(Cache::Warm, Pattern::Random, 4096), DiskKind::Virtual, &rows);
    assert!(warm.low > 200.0 && warm.high < 2000.0, "{warm:?}");
    assert!(warm.because.contains("for a read"), "{warm:?}");
    let mapped = Read { engine: Engine::Mmap, ..at(Cache::Warm, Pattern::Random, 4096) };
    let mapped = expect(mapped, DiskKind::Virtual, &rows);
    assert!(mapped.high < warm.high && mapped.low >= 50.0, "{mapped:?}");
    let seek = at(Cache::Direct, Pattern::Seek, 4096);
    let seek = expect(seek, DiskKind::Rotational, &rows);
    assert!(seek.low >= 1e6, "{seek:?}");
    // Measurements of the same disk beat what is usual for its kind.
    let major = PageFault { kind: Kind::Major };
    rows.push(measured(major, 60e3));
    let direct = expect(at(Cache::Direct, Pattern::Random, 4096), DiskKind::Virtual, &rows);
    assert!(direct.low >= 30e3 && direct.high <= 90e3, "{direct:?}");
    assert!(direct.because.contains("page fault"), "{direct:?}");
    let cold = expect(at(Cache::Cold, Pattern::Random, 4096), DiskKind::Virtual, &rows);
    assert!(cold.low > direct.low, "{cold:?}");
    let deep =
        Read { engine: Engine::IoUring, depth: 16, ..at(Cache::Direct, Pattern::Random, 4096) };
    assert!(expect(deep, DiskKind::Virtual, &rows).low < direct.low / 8.0);
    let nothing = Read::predict(
        &At::from(at(Cache::Direct, Pattern::Random, 4096)),
        &Facts::default(),
        &MeasuredRows::new(&rows),
    );
    assert_eq!(nothing, None);
}
