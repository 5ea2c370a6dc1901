//! A command's own numbers, on its output: lines `costof: NAME VALUE UNIT`, or what a pattern finds.

use costof_model::timing::OwnValue;
use memchr::{memchr, memmem, memrchr};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::process::Child;
use std::thread::{self, JoinHandle};

/// What is looked for in each line of the output, besides lines of `costof:`.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The patterns.
    pub patterns: Vec<MetricPattern>,
}

/// A regular expression whose first group is a number.
#[derive(Clone, Debug)]
pub struct MetricPattern {
    name: String,
    regex: Regex,
}

/// The longest line in which numbers are looked for, bytes; of a longer one, the beginning.
const MAX_LINE: usize = 4096;
/// At most this many different numbers.
const MAX_VALUES: usize = 64;
const PREFIX: &str = "costof:";

/// A thread that reads all of a command's output.
pub(super) struct Reader(JoinHandle<BTreeMap<String, OwnValue>>);

impl Capture {
    /// Starts to read the child's standard output, which is a pipe.
    pub(super) fn read(&self, child: &mut Child) -> io::Result<Reader> {
        let mut output = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
        let capture = self.clone();
        let thread = thread::Builder::new().spawn(move || {
            let mut lines = Lines::new(capture);
            let mut bytes = vec![0; 1 << 16];
            loop {
                match output.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(read) => lines.add(&bytes[..read]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            lines.finish()
        })?;
        Ok(Reader(thread))
    }
}

impl Reader {
    /// What was found, once the output has ended: all who could write to it have ended.
    pub(super) fn finish(self) -> BTreeMap<String, OwnValue> {
        self.0.join().expect("reading lines does not panic")
    }
}

/// Lines of an output that may be gigabytes, or one line.
struct Lines {
    capture: Capture,
    line: Vec<u8>,
    found: BTreeMap<String, OwnValue>,
}

impl Lines {
    fn new(capture: Capture) -> Lines {
        Lines { capture, line: Vec::with_capacity(MAX_LINE), found: BTreeMap::new() }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        if self.capture.patterns.is_empty() && memmem::find(bytes, PREFIX.as_bytes()).is_none() {
            // Only the line that began earlier can have the prefix, or the one that ends later.
            let ends = (memchr(b'\n', bytes), memrchr(b'\n', bytes));
            if let (Some(first), Some(last)) = ends {
                self.add_lines(&bytes[..=first]);
                bytes = &bytes[last + 1..];
            }
        }
        self.add_lines(bytes);
    }

    fn add_lines(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let own = line.strip_prefix(PREFIX).and_then(parse_line);
        let patterns = self.capture.patterns.iter();
        let found =
            patterns.filter_map(|pattern| Some((pattern.name.clone(), pattern.find(&line)?)));
        for (name, value) in own.into_iter().chain(found) {
            if self.found.len() < MAX_VALUES || self.found.contains_key(&name) {
                self.found.insert(name, value);
            }
        }
        self.line.clear();
    }

    fn finish(mut self) -> BTreeMap<String, OwnValue> {
        self.end_line();
        self.found
    }
}

/// ` NAME VALUE UNIT`; the unit may be missing.
fn parse_line(line: &str) -> Option<(String, OwnValue)> {
    let mut words = line.split_whitespace();
    let (name, value) = (words.next()?, number(words.next()?)?);
    let unit = words.next().unwrap_or_default().to_owned();
    Some((name.to_owned(), OwnValue { value, unit }))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

impl MetricPattern {
    /// What the numbers are called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `NAME=REGEX`, with one group for the number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<MetricPattern, String> {
        let example = "such as 'rate=([0-9.]+) requests/s'";
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, regex) = parts.ok_or_else(|| format!("not NAME=REGEX, {example}"))?;
        let regex =
            Regex::new(regex).map_err(|error| format!("{error}, not a pattern {example}"))?;
        // The whole match, and the group.
        if regex.captures_len() != 2 {
            return Err(format!("it needs one group in parentheses for the number, {example}"));
        }
        Ok(MetricPattern { name: name.to_owned(), regex })
    }

    fn find(&self, line: &str) -> Option<OwnValue> {
        let value = number(self.regex.captures(line)?.get(1)?.as_str())?;
        Some(OwnValue { value, unit: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, patterns: &[&str]) -> Vec<(String, f64, String)> {
        let parse = |pattern: &&str| MetricPattern::parse(pattern).unwrap();
        let patterns = patterns.iter().map(parse).collect();
        let mut lines = Lines::new(Capture { patterns });
        // In pieces, as a pipe gives them.
        text.as_bytes().chunks(7).for_each(|piece| lines.add(piece));
        let found = lines.finish().into_iter();
        found.map(|(name, own)| (name, own.value, own.unit)).collect()
    }

    #[test]
    fn numbers_are_read_from_lines() {
        let text =
            "noise\ncostof: rate 1250.5 req/s\ncostof: rate 1300\ncostof: n NaN\ncostof: p99 7 ms";
        let all = [("p99", 7.0, "ms"), ("rate", 1300.0, "")];
        assert_eq!(found(text, &[]), all.map(|(n, v, u)| (n.to_owned(), v, u.to_owned())));
        let wrk = "Requests/sec:  98765.4\nlatency avg 1.5 ms, max 9 ms\n";
        let patterns = [r"rate=Requests/sec: *([0-9.]+)", "avg=avg ([0-9.]+) ms", "word=(avg)"];
        let values: Vec<f64> = found(wrk, &patterns).iter().map(|(_, value, _)| *value).collect();
        assert_eq!(values, [1.5, 98765.4]);
    }

    #[test]
    fn a_number_is_found_wherever_a_piece_ends() {
        let text = "y\ny\ncostof: a 1\ny\nnot costof: b 2\ny\ny\ncostof: c 3";
        for length in 1..=text.len() {
            let mut lines = Lines::new(Capture::default());
            text.as_bytes().chunks(length).for_each(|piece| lines.add(piece));
            let found: Vec<String> = lines.finish().into_keys().collect();
            assert_eq!(found, ["a", "c"], "pieces of {length} bytes");
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut lines = Lines::new(Capture::default());
        for _ in 0..1000 {
            lines.add(&[b'x'; 10_000]);
        }
        assert!(lines.line.len() <= MAX_LINE);
        assert!(lines.finish().is_empty());
    }

    #[test]
    fn a_pattern_without_a_number_is_refused() {
        for text in ["x", "x=y", "=([0-9]+)", "x=(a)(b)", "x=("] {
            assert!(MetricPattern::parse(text).is_err(), "{text}");
        }
    }
}
