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
    let mut file: Option<DataFile> = None;
    Tool {
        arguments: Box::new(move || {
            let new = new_file(read.bytes)?;
            Ok(arguments(read, file.insert(new)))
        }),
        ..Tool::simple("fio", statistic, "", Reading::By(number))
    }
}

fn new_file(bytes: u64) -> Result<DataFile> {
    let no_file = |error| failed(format!("cannot make a file for fio to read: {error}"));
    let mut file = DataFile::create(None).map_err(no_file)?;
    file.extend(bytes).map_err(no_file)?;
    Ok(file)
}

/// fio opens the file through this process's descriptor for it.
fn arguments(read: Read, file: &DataFile) -> Vec<String> {
    words(&format!(
        "--name=read --filename=/proc/{}/fd/{} --allow_file_create=0 --size={} {} \
         --randrepeat=0 --time_based --runtime={} --thread --lat_percentiles=1 \
         --clat_percentiles=0 --percentile_list=50 --output-format=json",
        std::process::id(),
        file.file().as_raw_fd(),
        read.bytes,
        read.options,
        read.seconds,
    ))
}

/// The part of fio's output that is about reads.
fn reads(output: &str) -> Option<Value> {
    // fio may print notes before it.
    let json = &output[output.find('{')?..];
    let mut all: Value = serde_json::from_str(json).ok()?;
    Some(all.pointer_mut("/jobs/0/read")?.take())
}

/// The median time of a whole read in nanoseconds, measured from before its submission.
fn median_latency(output: &str) -> Option<f64> {
    reads(output)?.pointer("/lat_ns/percentile/50.000000")?.as_f64()
}

/// Bytes per second.
fn throughput(output: &str) -> Option<f64> {
    reads(output)?.pointer("/bw_bytes")?.as_f64()
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
      }
    }
  ]}"#;

    #[test]
    fn its_output_is_read() {
        assert_eq!(median_latency(OUTPUT), Some(63744.0));
        assert_eq!(throughput(OUTPUT), Some(58_227_852.0));
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
