//! fio(1): reads of a file that is made for it, without a name, in the folder that costof takes.

use crate::error::{Result, failed};
use crate::tool::{Reading, Statistic, Tool, words};
use costof_os::file::data::DataFile;
use serde_json::Value;
use std::os::fd::AsRawFd;

/// The number of a job that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The median of whole reads.
    Latency,
    /// Bytes a second: all that was read in its time.
    Throughput,
}

/// What fio is to read, and how: one thread, over and over for so many seconds.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Its options for the pattern, the block, the engine and the page cache.
    pub options: &'static str,
    /// The length of its file, which is new in each round.
    pub bytes: u64,
    /// For how long it reads.
    pub seconds: u32,
    /// What is wanted of it.
    pub wanted: Wanted,
}

/// fio, as it is asked for.
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

/// The file goes by the descriptor that this process has of it.
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

/// What fio says of its reads.
fn reads(output: &str) -> Option<Value> {
    // Notes may stand before it.
    let json = &output[output.find('{')?..];
    let mut all: Value = serde_json::from_str(json).ok()?;
    Some(all.pointer_mut("/jobs/0/read")?.take())
}

/// The median of whole reads, from before they were submitted, in nanoseconds.
fn median_latency(output: &str) -> Option<f64> {
    reads(output)?
        .pointer("/lat_ns/percentile/50.000000")?
        .as_f64()
}

/// Bytes a second.
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
  ]
}"#;

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
        let named = arguments
            .iter()
            .find_map(|argument| argument.strip_prefix("--filename="));
        let length = std::fs::metadata(named.unwrap()).unwrap().len();
        assert_eq!(length, 4096);
        assert!(arguments.contains(&"--size=4096".to_owned()));
    }
}
