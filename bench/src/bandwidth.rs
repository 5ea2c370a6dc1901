//! `memory.bandwidth` in main memory beside sysbench, mbw and stress-ng, one
//! thread each, in the same amount of memory on 4 KiB pages.
//!
//! All count each byte once: a byte that is read, a byte that is written, a byte
//! that is copied (though that is read and written).

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, number_before, words};
use crate::error::Result;
use crate::machine;
use crate::verdict::Verdict;
use costof_measure::statistics::quantile::median;

const MIB: f64 = 1024.0 * 1024.0;
/// What is read or written over and over, at least.
const LEAST_MIB: u64 = 512;
/// The same over the last cache.
const LAST_CACHES: u64 = 4;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let size_mib = size_mib();
    let contest = |operation: &str, peers| {
        let axes = words(&format!(
            "op={operation} size={size_mib}MiB threads=1 pages=4KiB kernel=best"
        ));
        Contest {
            rounds: 9,
            ..Contest::throughput("memory.bandwidth", axes, peers)
        }
    };
    let contests = vec![
        contest(
            "read",
            vec![sysbench("read", size_mib), memrate(size_mib, best_reading)],
        ),
        contest(
            "write",
            vec![sysbench("write", size_mib), memrate(size_mib, best_writing)],
        ),
        contest("copy", vec![mbw(size_mib)]),
    ];
    contest::hold(
        bench,
        &format!("memory.bandwidth in {size_mib} MiB beside sysbench, mbw and stress-ng"),
        contests,
    )
}

/// A power of two, which sysbench asks for.
fn size_mib() -> u64 {
    let last_mib = machine::last_cache_bytes().unwrap_or(0) >> 20;
    LEAST_MIB.max(LAST_CACHES * last_mib).next_power_of_two()
}

/// Words, one after the other, in one block.
fn sysbench(operation: &'static str, size_mib: u64) -> Peer<'static> {
    Peer {
        name: "sysbench",
        says: Says::Mean,
        program: Program::Installed("sysbench"),
        arguments: Box::new(move || {
            words(&format!(
                "memory --memory-block-size={size_mib}M --memory-total-size=1T \
                 --memory-oper={operation} --memory-access-mode=seq --threads=1 --time=2 run"
            ))
        }),
        read: |output| {
            let line = output.lines().find(|line| line.contains("transferred"))?;
            let rate = line.rsplit_once('(')?.1;
            Some(MIB * number_before(rate, "MiB/sec)")?)
        },
    }
}

/// The C library's memcpy, between two arrays of this size.
fn mbw(size_mib: u64) -> Peer<'static> {
    Peer {
        name: "mbw",
        // A median, but each copy lasts long enough to hold interruptions.
        says: Says::Mean,
        program: Program::Installed("mbw"),
        arguments: Box::new(move || words(&format!("-q -n 20 -t0 {size_mib}"))),
        read: |output| {
            let copies: Vec<f64> = output
                .lines()
                .filter(|line| !line.starts_with("AVG"))
                .filter_map(|line| number_before(line, "MiB/s"))
                .collect();
            Some(MIB * median(&copies)?)
        },
    }
}

/// Loads or stores of several widths; the best of them.
fn memrate(size_mib: u64, read: fn(&str) -> Option<f64>) -> Peer<'static> {
    Peer {
        name: "stress-ng",
        says: Says::Mean,
        program: Program::Installed("stress-ng"),
        arguments: Box::new(move || {
            words(&format!(
                "--memrate 1 --memrate-bytes {size_mib}M --timeout 4 --metrics \
                 --log-file /dev/stdout"
            ))
        }),
        read,
    }
}

fn best_reading(output: &str) -> Option<f64> {
    best_method(output, |method| method.starts_with("read"))
}

/// Through the caches, as costof's `op=write`: neither by non-temporal stores nor
/// by memset, for which the C library may use them.
fn best_writing(output: &str) -> Option<f64> {
    best_method(output, |method| {
        method.starts_with("write") && !method.ends_with("nt")
    })
}

/// From lines as `stress-ng: metrc: [7] memrate  27938.94 read1024 MB per sec (…)`,
/// where an MB is 2^20 bytes.
fn best_method(output: &str, counts: fn(&str) -> bool) -> Option<f64> {
    output
        .lines()
        .filter_map(|line| {
            let words = line.split_once(" memrate ")?.1;
            let mut words = words.split_once(" MB per sec")?.0.split_whitespace();
            let rate: f64 = words.next()?.parse().ok()?;
            counts(words.next()?).then_some(MIB * rate)
        })
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysbenchs_output_is_read() {
        let read = sysbench("read", 512).read;
        let output = "Total operations: 16 (  115.46 per second)\n\n\
                      4096.00 MiB transferred (29556.80 MiB/sec)\n";
        assert_eq!(read(output), Some(29556.80 * MIB));
        assert_eq!(read("Total operations: 16"), None);
    }

    #[test]
    fn mbws_output_is_read() {
        let output = "0\tMethod: MEMCPY\tElapsed: 0.01820\tMiB: 256.00000\tCopy: 14068.253 MiB/s\n\
                      1\tMethod: MEMCPY\tElapsed: 0.01808\tMiB: 256.00000\tCopy: 14158.509 MiB/s\n\
                      2\tMethod: MEMCPY\tElapsed: 0.01810\tMiB: 256.00000\tCopy: 14139.740 MiB/s\n\
                      AVG\tMethod: MEMCPY\tElapsed: 0.01813\tMiB: 256.00000\tCopy: 99999.0 MiB/s\n";
        assert_eq!((mbw(512).read)(output), Some(14139.740 * MIB));
        assert_eq!((mbw(512).read)("Long uses 8 bytes."), None);
    }

    #[test]
    fn stress_ngs_output_is_read() {
        let output = "\
            stress-ng: info:  [20517] memrate: using buffer size of 262144K\n\
            stress-ng: metrc: [20515] memrate              30      8.02      7.88\n\
            stress-ng: metrc: [20515] memrate            24417.47 write64stoq MB per sec (geom)\n\
            stress-ng: metrc: [20515] memrate            25804.30 memset MB per sec (geometic)\n\
            stress-ng: metrc: [20515] memrate            39804.30 write128nt MB per sec (geometic)\n\
            stress-ng: metrc: [20515] memrate            27938.94 read1024 MB per sec (geometic)\n\
            stress-ng: metrc: [20515] memrate             9736.12 read8 MB per sec (geometic)\n";
        assert_eq!(best_reading(output), Some(27938.94 * MIB));
        assert_eq!(best_writing(output), Some(24417.47 * MIB));
        assert_eq!(best_reading("memrate: nothing"), None);
    }
}
