//! Two stressors of `stress-ng`: `memrate` and `vfork`.

use super::MIB;
use crate::tool::{Reading, Statistic, Tool};

/// `memrate` goes through its memory in some twenty ways, and reports none of those for which the time was
/// too short. With this many MiB for each second it gets through all of them, even on a slow machine.
const MIB_A_SECOND: u64 = 128;

/// Loads of several widths, one after the other. The number is the best of them.
pub fn reads(size_mib: u64, seconds: u32) -> Tool<'static> {
    memrate(size_mib, seconds, best_reading)
}

/// Stores through the caches, like costof's `op=write`. Non-temporal stores are left out, and memset too, for
/// which the C library may use them. The number is the best of several widths.
pub fn writes(size_mib: u64, seconds: u32) -> Tool<'static> {
    memrate(size_mib, seconds, best_writing)
}

/// vfork and wait4, and no other system call (stress-ng's fork makes several in the child).
pub fn vfork(seconds: u32) -> Tool<'static> {
    stressor("--vfork 1", seconds, ns_per_vfork)
}

fn memrate(size_mib: u64, seconds: u32, read: fn(&str) -> Option<f64>) -> Tool<'static> {
    let least = u32::try_from(size_mib / MIB_A_SECOND).unwrap_or(u32::MAX);
    let stress = format!("--memrate 1 --memrate-bytes {size_mib}M");
    stressor(&stress, seconds.max(least), read)
}

fn stressor(stress: &str, seconds: u32, read: fn(&str) -> Option<f64>) -> Tool<'static> {
    let arguments = format!("{stress} --timeout {seconds} --metrics --log-file /dev/stdout");
    Tool::simple("stress-ng", Statistic::Mean, &arguments, Reading::By(read))
}

fn best_reading(output: &str) -> Option<f64> {
    best_method(output, |method| method.starts_with("read"))
}

fn best_writing(output: &str) -> Option<f64> {
    best_method(output, |method| method.starts_with("write") && !method.ends_with("nt"))
}

/// Reads lines such as `stress-ng: metrc: [7] memrate  27938.94 read1024 MB per sec (…)`, where an MB is 2^20
/// bytes.
fn best_method(output: &str, counts: fn(&str) -> bool) -> Option<f64> {
    output
        .lines()
        .filter_map(|line| {
            let mut words =
                line.split_once(" memrate ")?.1.split_once(" MB per sec")?.0.split_whitespace();
            let rate: f64 = words.next()?.parse().ok()?;
            counts(words.next()?).then_some(MIB * rate)
        })
        .reduce(f64::max)
}

/// Reads a line such as `stress-ng: metrc: [7] vfork  26225  1.00  0.40  0.52  26226.34 …`: operations,
/// wall-clock, user and system seconds, operations per second.
fn ns_per_vfork(output: &str) -> Option<f64> {
    let numbers = output
        .lines()
        .find_map(|line| line.split_once("] vfork ").filter(|_| line.contains("metrc:")))?
        .1;
    let in_a_second: f64 = numbers.split_whitespace().nth(4)?.parse().ok()?;
    Some(1e9 / in_a_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// stress-ng 0.15.06.
    const MEMRATE: &str = "\
stress-ng: info:  [16093] setting to a 3 second run per stressor
stress-ng: info:  [16093] dispatching hogs: 1 memrate
stress-ng: info:  [16094] memrate: using buffer size of 262144K, cache flushing disabled
stress-ng: metrc: [16093] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s CPU used per       RSS Max
stress-ng: metrc: [16093]                           (secs)    (secs)    (secs)   (real time) (usr+sys time) instance (%)          (KB)
stress-ng: metrc: [16093] memrate               8      3.02      2.84      0.15         2.65           2.68        99.12        264632
stress-ng: metrc: [16093] miscellaneous metrics:
stress-ng: metrc: [16093] memrate            20055.74 write64stoq MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            20119.79 write512 MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            25804.30 memset MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            39804.30 write128nt MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            20170.61 read64pf MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate            23668.03 read128 MB per sec (geometic mean of 1 instances)
stress-ng: metrc: [16093] memrate             8929.43 read8 MB per sec (geometic mean of 1 instances)
";
    const VFORK: &str = "\
stress-ng: info:  [16105] dispatching hogs: 1 vfork
stress-ng: metrc: [16105] stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s CPU used per       RSS Max
stress-ng: metrc: [16105]                           (secs)    (secs)    (secs)   (real time) (usr+sys time) instance (%)          (KB)
stress-ng: metrc: [16105] vfork             26225      1.00      0.40      0.52     26226.34       28581.52        91.76          2548
stress-ng: info:  [16105] successful run completed in 1.00s
";

    #[test]
    fn it_has_time_for_all_ways_through_much_memory() {
        let seconds = |mib| {
            let words = (reads(mib, 2).arguments)().unwrap();
            let at = words.iter().position(|word| word == "--timeout").unwrap();
            words[at + 1].clone()
        };
        assert_eq!([128, 256, 2048].map(seconds), ["2", "2", "16"]);
    }

    #[test]
    fn the_best_width_is_read() {
        assert_eq!(best_reading(MEMRATE), Some(23668.03 * MIB));
        assert_eq!(best_writing(MEMRATE), Some(20119.79 * MIB));
        assert_eq!(best_reading("memrate: nothing"), None);
    }

    #[test]
    fn a_vforks_time_is_read() {
        assert_eq!(ns_per_vfork(VFORK), Some(1e9 / 26226.34));
        assert_eq!(ns_per_vfork("stress-ng: info: vfork"), None);
    }
}
