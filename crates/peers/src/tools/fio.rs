//! fio(1): reads a file without a name that costof makes for it, in the same folder that costof uses.

use crate::error::{Result, failed};
use crate::tool::{Reading, Statistic, Tool, words};
use costof_os::file::data::DataFile;
use serde_json::Value;
use std::os::fd::AsRawFd;

/// Which number of a job to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The median time of a whole read.
    Latency,
    /// Bytes per second: all bytes read, divided by the time.
    Throughput,
}

/// Threads that write blocks of 8 KiB, each at random in a part of one file of its own, and make each durable by
/// fdatasync, for this many seconds. The number is the median of a write and that of a call, added.
pub fn commits(writers: u32, bytes: u64, seconds: u32) -> Tool<'static> {
    let part = bytes / u64::from(writers);
    let options = format!(
        "--rw=randwrite --bs=8k --ioengine=psync --fdatasync=1 --numjobs={writers} --group_reporting \
         --offset_increment={part}"
    );
    of_file(Statistic::Median, median_commit, bytes, move |file| {
        arguments(&options, part, seconds, file)
    })
}

/// What fio reads, and how: one thread reads repeatedly for this many seconds.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The options for the access pattern, the block size, the engine and the page cache.
    pub options: &'static str,
    /// The size of the file, which is new in each round.
    pub bytes: u64,
    /// How long it reads.
    pub seconds: u32,
    /// Which number to take.
    pub wanted: Wanted,
}

/// fio with these options.
pub fn read(read: Read) -> Tool<'static> {
    let (statistic, number): (_, fn(&str) -> Option<f64>) = match read.wanted {
        Wanted::Latency => (Statistic::Median, median_latency),
        Wanted::Throughput => (Statistic::Mean, throughput),
    };
    of_file(statistic, number, read.bytes, move |file| {
        arguments(read.options, read.bytes, read.seconds, file)
    })
}

/// fio with these arguments for a file of so many bytes, which is new in each round.
fn of_file(
    statistic: Statistic,
    number: fn(&str) -> Option<f64>,
    bytes: u64,
    arguments: impl Fn(&DataFile) -> Vec<String> + 'static,
) -> Tool<'static> {
    let mut file: Option<DataFile> = None;
    let arguments = Box::new(move || Ok(arguments(file.insert(new_file(bytes)?))));
    Tool { arguments, ..Tool::simple("fio", statistic, "", Reading::By(number)) }
}

fn new_file(bytes: u64) -> Result<DataFile> {
    let no_file = |error| failed(format!("cannot make a file for fio to read: {error}"));
    let mut file = DataFile::create(None).map_err(no_file)?;
    file.extend(bytes).map_err(no_file)?;
    Ok(file)
}

/// fio opens the file through this process's descriptor for it.
fn arguments(options: &str, bytes: u64, seconds: u32, file: &DataFile) -> Vec<String> {
    words(&format!(
        "--name=costof --filename=/proc/{}/fd/{} --allow_file_create=0 --size={bytes} {options} \
         --randrepeat=0 --time_based --runtime={seconds} --thread --lat_percentiles=1 \
         --clat_percentiles=0 --percentile_list=50 --output-format=json",
        std::process::id(),
        file.file().as_raw_fd(),
    ))
}

/// A number of fio's only job.
fn number(output: &str, pointer: &str) -> Option<f64> {
    // fio may print notes before it.
    let json = &output[output.find('{')?..];
    let all: Value = serde_json::from_str(json).ok()?;
    all.pointer(&format!("/jobs/0/{pointer}"))?.as_f64()
}

/// The median time of a whole read in nanoseconds, measured from before its submission.
fn median_latency(output: &str) -> Option<f64> {
    number(output, "read/lat_ns/percentile/50.000000")
}

/// Bytes per second.
fn throughput(output: &str) -> Option<f64> {
    number(output, "read/bw_bytes")
}

/// The median time of a write in nanoseconds, and that of making it durable.
fn median_commit(output: &str) -> Option<f64> {
    let median = |of| number(output, &format!("{of}/lat_ns/percentile/50.000000"));
    Some(median("write")? + median("sync")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fio 3.33, most of it left out.
    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "read",
      "error" : 0,
      "read" : {
        "bw_bytes" : 58227852,
        "iops" : 14215.784216,
        "lat_ns" : {
          "min" : 42073,
          "mean" : 67367.269150,
          "N" : 14230,
          "percentile" : {
            "50.000000" : 63744
          }
        }
      },
      "write" : {
        "lat_ns" : { "percentile" : { "50.000000" : 4960 } }
      },
      "sync" : {
        "lat_ns" : { "percentile" : { "50.000000" : 115200 } }
      }
    }
  ]}"#;

    #[test]
    fn its_output_is_read() {
        assert_eq!(median_latency(OUTPUT), Some(63744.0));
        assert_eq!(throughput(OUTPUT), Some(58_227_852.0));
        assert_eq!(median_commit(OUTPUT), Some(120_160.0));
        for output in ["", "{}", r#"{"jobs": []}"#, "fio: failed"] {
            assert_eq!(median_latency(output), None, "{output}");
        }
    }

    #[test]
    fn each_round_has_a_file_that_can_be_opened_while_it_lasts() {
        let mut tool = read(Read {
            options: "--rw=read --bs=4k",
            bytes: 4096,
            seconds: 1,
            wanted: Wanted::Latency,
        });
        let arguments = match (tool.arguments)() {
            Ok(arguments) => arguments,
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let named = arguments.iter().find_map(|argument| argument.strip_prefix("--filename="));
        let length = std::fs::metadata(named.unwrap()).unwrap().len();
        assert_eq!(length, 4096);
        assert!(arguments.contains(&"--size=4096".to_owned()));
    }
}
