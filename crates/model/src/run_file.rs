//! Reads and writes the lines of a run file, wherever they are stored.

use crate::protocol::LINE_MAX_BYTES;
use crate::rows::{AttemptRow, PredictionRow, Row, SCHEMA};
use crate::{
    EndRow, Failure, FailureRow, LaunchPoint, LaunchRow, Point, PointRow, Prediction, ProbeInfo,
    RunRow, encoding, harmless,
};
use serde::Deserialize;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, Read};
use std::sync::OnceLock;

/// A run, up to the end of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The request.
    pub run: RunRow,
    /// The probes.
    pub probes: Vec<ProbeInfo>,
    /// The attempts, in their order.
    pub attempts: Vec<AttemptRow>,
    /// What was predicted.
    pub predictions: Vec<PredictionRow>,
    /// The finished launches.
    pub launches: Vec<LaunchRow>,
    /// Launches and points without a number.
    pub failures: Vec<FailureRow>,
    /// The points of completed blocks.
    pub points: Vec<PointRow>,
    /// The end, if the run reached it.
    pub end: Option<EndRow>,
    /// The length of the complete lines, in bytes. After them comes the start of a line that its
    /// writer did not finish. The last one may lack its line feed, as some editors leave it.
    pub whole_bytes: u64,
    /// Finds the launches of a point.
    index: Index,
}

/// Which launches contain a point, by a hash of the point, and how many launches this covers. The
/// index follows from the launches, so it does not count when two runs are compared for equality.
#[derive(Debug, Default)]
struct Index(OnceLock<(usize, Places)>);

/// By the hash of a point, the launches that contain it, and its places in them.
type Places = HashMap<u64, Vec<(usize, usize)>>;

impl Clone for Index {
    fn clone(&self) -> Index {
        Index::default()
    }
}

impl PartialEq for Index {
    fn eq(&self, _: &Index) -> bool {
        true
    }
}

/// How much of another run's id an error shows.
const ID_SHOWN_CHARS: usize = 40;

/// Why a file is not a run file.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// It could not be read.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// It has no byte.
    #[error("it is empty: no run was recorded in it (remove it, and begin anew)")]
    Empty,
    /// Its first line was not written whole.
    #[error(
        "its first line was not written whole, as after a power failure or on a full disk: it holds no run \
         (begin anew, with another file)"
    )]
    Unfinished,
    /// It is not UTF-8: what it is, and how to convert it.
    #[error("{0}")]
    Encoding(String),
    /// Its first line is something else.
    #[error("its first line is not a costof run: {0}")]
    NotARun(String),
    /// A newer costof wrote it.
    #[error("it has schema {0}, and this costof reads up to {SCHEMA}: read it with a newer costof")]
    Newer(u64),
    /// A line in the middle is broken.
    #[error("line {line} is broken: {reason}")]
    Broken {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Another run begins in it.
    #[error(
        "line {line} begins another run ({id}), so this is two files joined (split it: `head -n {} FILE > ONE`, \
         `tail -n +{line} FILE > OTHER`)", line - 1
    )]
    Joined {
        /// The number of the line with which the other run begins, from 1.
        line: usize,
        /// The other run's id.
        id: String,
    },
    /// Zeros follow, as a power failure leaves them.
    #[error("zeros follow, as a power failure leaves them")]
    Zeros,
    /// It is longer than the reader accepts.
    #[error("it is longer than {bytes} bytes, the most that is read")]
    Longer {
        /// The longest that the reader accepts.
        bytes: u64,
    },
}

/// A row as a line, with its line feed, to be appended by one `write`.
pub fn line(row: &Row) -> Vec<u8> {
    // Rows have no maps with keys other than text, and no serializers that fail.
    let mut line = serde_json::to_vec(row).expect("a row can always be written as JSON");
    line.push(b'\n');
    line
}

/// Reads a run file up to its end, or to zeros that a power failure left in it. Skips unknown rows
/// and fields, and a last line that is unfinished or broken. Lines may end in CR LF, and a byte order mark may
/// precede them.
///
/// # Errors
/// See [`RunFileError`].
pub fn read(input: impl BufRead) -> Result<Run, RunFileError> {
    match read_up_to(input, u64::MAX)? {
        (run, None | Some(RunFileError::Zeros)) => Ok(run),
        (_, Some(error)) => Err(error),
    }
}

/// The same without the launches, which are most of a file.
///
/// # Errors
/// See [`RunFileError`].
pub fn read_without_launches(input: impl BufRead) -> Result<Run, RunFileError> {
    let is_launch = |line: &[u8]| line.starts_with(br#"{"type":"launch""#);
    match read_lines(input, u64::MAX, is_launch)? {
        (run, None) => Ok(run),
        (_, Some(error)) => Err(error),
    }
}

/// The same as [`read`], as long as lines are complete and their lengths add up to at most `most_bytes`.
/// Returns the run up to there, and why it stops there, unless that is the end.
///
/// # Errors
/// If not even the first line is that of a run.
pub fn read_up_to(
    input: impl BufRead,
    most_bytes: u64,
) -> Result<(Run, Option<RunFileError>), RunFileError> {
    read_lines(input, most_bytes, |_| false)
}

fn read_lines(
    input: impl BufRead,
    most_bytes: u64,
    is_skipped: fn(&[u8]) -> bool,
) -> Result<(Run, Option<RunFileError>), RunFileError> {
    let mut input = input;
    let mut run: Option<Run> = None;
    let mut buffer = Vec::new();
    let mut whole_bytes = 0;
    let mut broken: Option<RunFileError> = None;
    let mut ends = None;
    for number in 1.. {
        buffer.clear();
        let read = (&mut input).take(LINE_MAX_BYTES as u64).read_until(b'\n', &mut buffer)?;
        if read == 0 {
            break;
        }
        // After a power failure, what had not reached the disk reads as zeros, which no line has.
        if buffer.contains(&0) {
            ends = Some(match &run {
                Some(_) => RunFileError::Zeros,
                None => no_run(&buffer, "it contains zeros"),
            });
            break;
        }
        // A broken line is unfinished if it is the last one, and an error otherwise.
        if broken.is_some() {
            ends = broken;
            break;
        }
        if !buffer.ends_with(b"\n") {
            if read == LINE_MAX_BYTES {
                ends = Some(RunFileError::Broken {
                    line: number,
                    reason: format!("it is longer than {LINE_MAX_BYTES} bytes"),
                });
                break;
            }
            // Only an object that is whole can be read.
            if let (Err(reason), is_first) = (parse(&buffer), run.is_none()) {
                ends = is_first.then(|| no_run(&buffer, &reason));
                break;
            }
        }
        if whole_bytes + buffer.len() as u64 > most_bytes {
            ends = Some(RunFileError::Longer { bytes: most_bytes });
            break;
        }
        let row = if is_skipped(&buffer) { Ok(None) } else { parse(&buffer) };
        match (row, &mut run) {
            (Ok(row), None) => run = Some(first(row)?),
            (Ok(None), Some(_)) => {}
            (Ok(Some(Row::Run(other))), Some(_)) => {
                // It may be as long as a line.
                let id = harmless::beginning(&other.id, ID_SHOWN_CHARS);
                ends = Some(RunFileError::Joined { line: number, id });
                break;
            }
            (Ok(Some(row)), Some(run)) => run.add(row),
            (Err(reason), None) => return Err(no_run(&buffer, &reason)),
            (Err(reason), Some(_)) => {
                let line = number;
                broken = Some(RunFileError::Broken { line, reason });
                continue;
            }
        }
        whole_bytes += buffer.len() as u64;
    }
    let Some(mut run) = run else {
        return Err(ends.unwrap_or(RunFileError::Empty));
    };
    run.whole_bytes = whole_bytes;
    Ok((run, ends))
}

/// The row in a line; `None` if this costof does not know its type.
///
/// Reads the type first, on its own: for a tagged enum, serde would read the row into a tree, and
/// then convert the tree.
///
/// The file may come from anybody, so its text is made harmless here, and nowhere else.
fn parse(line: &[u8]) -> Result<Option<Row>, String> {
    let line = &*harmless::json(line.trim_ascii_end());
    #[derive(Deserialize)]
    struct Type {
        r#type: String,
    }
    fn row<'a, T: Deserialize<'a>>(line: &'a [u8], kind: fn(T) -> Row) -> Parsed {
        serde_json::from_slice(line).map(|row| Some(kind(row)))
    }
    type Parsed = serde_json::Result<Option<Row>>;
    let parsed = serde_json::from_slice(line).and_then(|Type { r#type }| match r#type.as_str() {
        "run" => row(line, Row::Run),
        "probe" => row(line, Row::Probe),
        "attempt" => row(line, Row::Attempt),
        "prediction" => row(line, Row::Prediction),
        "launch" => row(line, |launch| Row::Launch(Box::new(fitted(launch)))),
        "failure" => row(line, Row::Failure),
        "point" => row(line, |mut point: Box<PointRow>| {
            point.mark_label();
            Row::Point(point)
        }),
        "end" => row(line, Row::End),
        _ => Ok(None),
    });
    // It counts lines within this one.
    parsed.map_err(|error| error.to_string().replace(" at line 1 column ", " at byte "))
}

/// Frees the unused capacity of its lists: a large run has a hundred thousand of them.
fn fitted(mut launch: LaunchRow) -> LaunchRow {
    for point in &mut launch.points {
        point.metrics.shrink_to_fit();
    }
    launch.points.shrink_to_fit();
    launch
}

fn first(row: Option<Row>) -> Result<Run, RunFileError> {
    match row {
        Some(Row::Run(run)) if run.schema > SCHEMA => Err(RunFileError::Newer(run.schema.into())),
        Some(Row::Run(run)) => Ok(Run::new(*run)),
        _ => Err(RunFileError::NotARun("it has no `\"type\":\"run\"`".to_owned())),
    }
}

/// Why a file whose first line does not parse is no run: it is not UTF-8, the line was not written whole, or it comes
/// from a newer schema.
fn no_run(line: &[u8], reason: &str) -> RunFileError {
    /// How the first line of a run begins.
    const START: &[u8] = br#"{"type":"run""#;
    #[derive(Deserialize)]
    struct Head {
        r#type: String,
        schema: u64,
    }
    if let Some(encoding) = encoding::foreign(line) {
        return RunFileError::Encoding(encoding);
    }
    let written = line.iter().position(|byte| *byte == 0);
    let written = &line[..written.unwrap_or(line.len())];
    let is_cut = written.len() < line.len() || !line.ends_with(b"\n");
    let begins = written.len().min(START.len());
    match serde_json::from_slice::<Head>(line) {
        Ok(head) if head.r#type == "run" && head.schema > u64::from(SCHEMA) => {
            RunFileError::Newer(head.schema)
        }
        _ if is_cut && written.contains(&b'\r') => {
            RunFileError::NotARun("its lines end in CR alone (convert them to LF)".to_owned())
        }
        _ if is_cut && written[..begins] == START[..begins] => RunFileError::Unfinished,
        _ => RunFileError::NotARun(reason.to_owned()),
    }
}

impl Run {
    /// Whether a point has a number that was asked for, and not only to predict others.
    pub fn has_asked_for(&self) -> bool {
        let is_asked = |row: &PointRow| !self.run.plan.needed().any(|point| *point == row.point);
        self.points.iter().any(is_asked)
    }

    /// A run that has only its request so far.
    pub fn new(run: RunRow) -> Run {
        Run {
            run,
            probes: Vec::new(),
            attempts: Vec::new(),
            predictions: Vec::new(),
            launches: Vec::new(),
            failures: Vec::new(),
            points: Vec::new(),
            end: None,
            whole_bytes: 0,
            index: Index::default(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        match row {
            // A run has one such row, with which it was made.
            Row::Run(_) => {}
            Row::Probe(probe) => self.probes.push(*probe),
            Row::Attempt(attempt) => self.attempts.push(*attempt),
            Row::Prediction(prediction) => self.predictions.push(prediction),
            Row::Launch(launch) => self.launches.push(*launch),
            Row::Failure(failure) => self.failures.push(failure),
            Row::Point(point) => self.points.push(*point),
            Row::End(end) => self.end = Some(end),
        }
    }

    /// The rows again, sorted by kind.
    pub fn into_rows(self) -> impl Iterator<Item = Row> {
        let probes = self.probes.into_iter().map(Box::new).map(Row::Probe);
        let attempts = self.attempts.into_iter().map(Box::new).map(Row::Attempt);
        let points = self.points.into_iter().map(Box::new).map(Row::Point);
        std::iter::once(Row::Run(Box::new(self.run)))
            .chain(probes)
            .chain(attempts)
            .chain(self.predictions.into_iter().map(Row::Prediction))
            .chain(self.launches.into_iter().map(Box::new).map(Row::Launch))
            .chain(self.failures.into_iter().map(Row::Failure))
            .chain(points)
            .chain(self.end.map(Row::End))
    }

    /// The description of the probe `id`.
    pub fn probe(&self, id: &str) -> Option<&ProbeInfo> {
        self.probes.iter().find(|probe| probe.id == id)
    }

    /// The launches that measured the point, in order, and perhaps others. An index is built on
    /// first use, so that many points can be looked up. If launches were added since, all launches
    /// are returned.
    pub fn launches_of(&self, point: &Point) -> impl Iterator<Item = &LaunchRow> {
        self.given_to(point).map(|(launch, _)| launch)
    }

    /// The same with what the launch measured of the point, which may be another point for those
    /// others.
    pub fn given_to(&self, point: &Point) -> impl Iterator<Item = (&LaunchRow, &LaunchPoint)> {
        let (of, by_digest) = self.index.0.get_or_init(|| {
            let mut by_digest: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
            for (at, launch) in self.launches.iter().enumerate() {
                for (position, measured) in launch.points.iter().enumerate() {
                    let launches = by_digest.entry(digest(&measured.point));
                    launches.or_default().push((at, position));
                }
            }
            (self.launches.len(), by_digest)
        });
        let is_whole = *of == self.launches.len();
        let known = by_digest.get(&digest(point)).filter(|_| is_whole).into_iter().flatten().map(
            |(at, position)| {
                let launch = &self.launches[*at];
                (launch, &launch.points[*position])
            },
        );
        let all = self.launches.iter().filter(move |_| !is_whole);
        let all = all.flat_map(|launch| launch.points.iter().map(move |given| (launch, given)));
        known.chain(all)
    }

    /// Discards the index, because points of existing launches were changed.
    pub fn launches_changed(&mut self) {
        self.index = Index::default();
    }

    /// The prediction for the point.
    pub fn prediction(&self, point: &Point) -> Option<&Prediction> {
        let mut rows = self.predictions.iter();
        let row = rows.find(|row| row.point == *point)?;
        Some(&row.prediction)
    }
}

fn digest(point: &Point) -> u64 {
    let mut hasher = DefaultHasher::new();
    point.hash(&mut hasher);
    hasher.finish()
}

impl FailureRow {
    /// The failure in this row.
    pub fn failure(&self) -> Failure {
        Failure { kind: self.kind, reason: self.reason.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{launch, planned, probe_info, sized_row, words_axis};
    use crate::{Axes, Few, List, Placement};

    fn run_row() -> Row {
        let point = Point {
            probe: "memory.latency".into(),
            axes: Axes::default().with("size", 4096).with("pages", "4KiB"),
            link: "none".into(),
        };
        let mut row = planned([vec![point]]).run;
        row.plan.blocks[0].level = 1;
        row.plan.blocks[0].rounds = 2;
        row.plan.blocks[0].labels = vec![(0, "L1 cache reference".to_owned())];
        row.plan.placement = Placement(Few::from_iter([("only".into(), vec![0, 3])]));
        Row::Run(Box::new(row))
    }

    fn end_row() -> Row {
        Row::End(EndRow { finished: "2026-11-21T00:01:00Z".to_owned(), points: 0, failures: 0 })
    }

    fn file(rows: &[Row]) -> Vec<u8> {
        rows.iter().flat_map(line).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let row = run_row();
        let run = read(&line(&row)[..]).unwrap().run;
        assert_eq!(Row::Run(Box::new(run)), row);
    }

    #[test]
    fn axes_and_placements_are_objects_also_where_there_are_none() {
        let axes = Axes::default().with("size", 5).with("at", "x");
        for (axes, text) in [(Axes::default(), "{}"), (axes, r#"{"at":"x","size":5}"#)] {
            assert_eq!(serde_json::to_string(&axes).unwrap(), text);
            assert_eq!(serde_json::from_str::<Axes>(text).unwrap(), axes);
        }
        let placed = Placement(Few::from_iter([("only".into(), vec![0, 3])]));
        for (placement, text) in [(Placement::default(), "{}"), (placed, r#"{"only":[0,3]}"#)] {
            assert_eq!(serde_json::to_string(&placement).unwrap(), text);
            assert_eq!(serde_json::from_str::<Placement>(text).unwrap(), placement);
        }
    }

    #[test]
    fn many_axes_in_the_wrong_order_are_read_in_time() {
        let keys = (0..200_000).rev().map(|key| format!(r#""{key:07}":1"#));
        let text = format!("{{{}}}", keys.collect::<Vec<_>>().join(","));
        let read: Axes = serde_json::from_str(&text).unwrap();
        assert_eq!(read.0.len(), 200_000);
    }

    #[test]
    fn an_attempt_has_few_machines() {
        let mut attempt = crate::testing::run(&[]).attempts.remove(0);
        for (machines, is_read) in [(2, true), (16, true), (17, false)] {
            let hosts = (0..machines).map(|host| (host.to_string().into(), Default::default()));
            attempt.hosts = hosts.collect();
            let line = line(&Row::Attempt(Box::new(attempt.clone())));
            let parsed = parse(&line);
            assert_eq!(parsed.is_ok(), is_read, "{machines}: {parsed:?}");
        }
    }

    #[test]
    fn a_file_cut_anywhere_reads_as_far_as_it_got() {
        let rows = [run_row(), end_row(), end_row()];
        let whole = file(&rows);
        let first = line(&rows[0]).len();
        for cut in 0..whole.len() {
            match read(&whole[..cut]) {
                Ok(run) => {
                    assert!(cut >= first - 1);
                    let read = run.whole_bytes as usize;
                    assert!(read <= cut);
                    assert!(whole[..read].ends_with(b"}") || whole[..read].ends_with(b"\n"));
                }
                Err(RunFileError::Empty) => assert_eq!(cut, 0),
                Err(error) => assert!(matches!(error, RunFileError::Unfinished) && cut < first),
            }
            // And where zeros stand for what a power failure took, whatever comes after them.
            let lost = [&whole[..cut], &[0; 9], &whole[cut..]].concat();
            let whole_bytes = |file| read(file).map_or(0, |run| run.whole_bytes);
            // A line that lacks nothing but its end is no longer told from one that lacks more.
            let cut = cut - usize::from(whole[..cut].ends_with(b"}"));
            assert_eq!(whole_bytes(&lost[..]), whole_bytes(&whole[..cut]));
        }
        assert_eq!(read(&whole[..]).unwrap().whole_bytes, whole.len() as u64);
    }

    #[test]
    fn a_probe_without_a_metric_or_with_an_axis_without_a_value_is_broken() {
        let mut info = probe_info("a.b");
        info.axes = List::Owned(vec![words_axis("kind", &["one"])]);
        let row = String::from_utf8(line(&Row::Probe(Box::new(info)))).unwrap();
        let whole = |row: &str| [file(&[run_row()]), row.into(), line(&end_row())].concat();
        assert!(read(&whole(&row)[..]).is_ok());
        for list in ["metrics", "choice"] {
            let (before, after) = row.split_once(&format!("\"{list}\":[")).unwrap();
            let after = &after[after.find(']').unwrap()..];
            let error =
                read(&whole(&format!("{before}\"{list}\":[{after}"))[..]).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains("without items"), "{error}");
        }
    }

    #[test]
    fn a_point_has_its_launches_also_when_more_come() {
        let Row::Run(first) = run_row() else {
            panic!("it is one");
        };
        let mut run = Run::new(*first);
        let row = |size| sized_row("memory.latency", size, 1.0);
        let measured = |run: &mut Run, size| launch(run, &[(&row(size), &[("cost", 1.0)])]);
        for size in [1, 2, 1] {
            measured(&mut run, size);
        }
        let numbers = |run: &Run, size| -> Vec<u32> {
            let point = row(size).point;
            let launches = run.launches_of(&point).map(|launch| launch.launch);
            launches.collect()
        };
        assert_eq!(numbers(&run, 1), [0, 2]);
        assert_eq!(numbers(&run, 3), [0; 0]);
        let same = run.clone();
        assert_eq!(run, same);
        measured(&mut run, 3);
        assert!(numbers(&run, 3).contains(&3));
    }

    #[test]
    fn unknown_rows_and_fields_are_passed_over() {
        let mut whole = file(&[run_row()]);
        whole.extend(b"{\"type\":\"weather\",\"rain\":true}\n");
        let end = r#"{"type":"end","finished":"x","points":1,"failures":0,"new":1}"#;
        whole.extend(format!("{end}\n").bytes());
        assert_eq!(read(&whole[..]).unwrap().end.unwrap().points, 1);
    }

    #[test]
    fn a_foreign_broken_or_newer_file_is_refused_with_its_reason() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(error(b"").contains("empty"));
        assert!(error(b"hello\n").contains("not a costof run"));
        assert!(error(b"{\"type\":\"run\",\"schema\":2,\"id\":5}\n").contains("newer costof"));
        let mut whole = file(&[run_row()]);
        whole.extend(b"{\"type\":\"end\"}\n");
        assert!(read(&whole[..]).unwrap().end.is_none(), "torn at the end");
        whole.extend(line(&end_row()));
        let broken = error(&whole);
        assert!(broken.contains("line 2 is broken") && !broken.contains(" at line "), "{broken}");
    }

    #[test]
    fn a_file_that_another_program_has_converted_reads_the_same() {
        let whole = String::from_utf8(file(&[run_row(), end_row()])).unwrap();
        let run = read(whole.as_bytes()).unwrap();
        let crlf = whole.replace('\n', "\r\n");
        for converted in [
            crlf.clone(),
            format!("\u{feff}{whole}"),
            format!("\u{feff}{crlf}"),
            whole.trim_end().to_owned(),
        ] {
            let read = read(converted.as_bytes()).unwrap();
            assert_eq!(read.whole_bytes, converted.len() as u64);
            let whole_bytes = run.whole_bytes;
            assert_eq!(Run { whole_bytes, ..read }, run);
        }
    }

    #[test]
    fn only_a_file_without_a_byte_is_empty() {
        let whole = String::from_utf8(file(&[run_row(), end_row()])).unwrap();
        let utf_16 = |mark: &str| -> Vec<u8> {
            let units = format!("{mark}{whole}");
            units.encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        for (bytes, says) in [
            (utf_16("\u{feff}"), "UTF-16"),
            (utf_16(""), "UTF-16"),
            (whole.replace('\n', "\r").into_bytes(), "CR alone"),
            (b"\x1f\x8b\x08\0\0".to_vec(), "gzip"),
            (b"\x7fELF\x02\x01\x01\0\0\0".to_vec(), "not a costof run"),
            (whole.as_bytes()[..20].to_vec(), "not written whole"),
            (vec![0; 100], "not written whole"),
        ] {
            let error = read(&bytes[..]).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
            assert!(!error.contains("remove it"), "{says}: {error}");
        }
        assert!(matches!(read(&b""[..]), Err(RunFileError::Empty)));
    }

    #[test]
    fn two_files_that_were_joined_are_not_one_run() {
        let one = file(&[run_row(), end_row()]);
        for other in [one.clone(), [b"\xef\xbb\xbf", &one[..]].concat()] {
            let joined = [&one[..], &other].concat();
            let (run, why) = read_up_to(&joined[..], u64::MAX).unwrap();
            assert_eq!(run.whole_bytes, one.len() as u64);
            let why = why.unwrap().to_string();
            assert!(why.contains("line 3 begins another run"), "{why}");
            assert!(why.contains("head -n 2 "), "{why}");
            assert!(read(&joined[..]).is_err() && read_without_launches(&joined[..]).is_err());
        }
    }

    #[test]
    fn what_stands_before_a_broken_line_can_be_had() {
        let mut whole = file(&[run_row(), end_row()]);
        let good = whole.len() as u64;
        whole.extend(b"{\"type\":\"end\"}\n");
        whole.extend(line(&end_row()));
        let (run, why) = read_up_to(&whole[..], u64::MAX).unwrap();
        assert_eq!((run.end.is_some(), run.whole_bytes), (true, good));
        assert!(why.unwrap().to_string().contains("line 3 is broken"));
    }

    #[test]
    fn no_more_is_read_than_asked_for() {
        let whole = file(&[run_row(), end_row()]);
        let most = whole.len() as u64 - 1;
        let (run, why) = read_up_to(&whole[..], most).unwrap();
        assert!(run.end.is_none());
        assert!(why.unwrap().to_string().contains(&format!("{most} bytes")));
        assert!(read_up_to(&whole[..], most + 1).unwrap().1.is_none());
        assert!(read_up_to(&whole[..], 10).is_err());
    }
}
