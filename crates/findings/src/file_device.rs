//! What the files of a run lie on, and how much of what was read of them came from there.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::facts::{Facts, Medium};
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

const PROBE: &str = "file.read";
/// The word for the folder that the facts name.
const TEMPORARY: &str = "temporary";

/// For each folder in which files were read.
pub(crate) fn file_device(run: &Run) -> Vec<Finding> {
    let rows: Vec<&PointRow> = run
        .points
        .iter()
        .filter(|row| row.point.probe == PROBE && dir(row).is_some())
        .collect();
    let mut dirs: Vec<&str> = rows.iter().filter_map(|row| dir(row)).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let facts = facts(run);
    dirs.into_iter()
        .map(|dir| {
            let rows = rows
                .iter()
                .copied()
                .filter(|row| self::dir(row) == Some(dir));
            in_folder(facts, dir, &rows.collect::<Vec<_>>())
        })
        .collect()
}

fn dir(row: &PointRow) -> Option<&str> {
    row.axes().find_word("dir")
}

fn in_folder(facts: Option<&Facts>, dir: &str, rows: &[&PointRow]) -> Finding {
    let folder = match (dir, facts) {
        (TEMPORARY, Some(facts)) => facts.temporary_folder.as_deref(),
        (TEMPORARY, None) => None,
        (dir, _) => Some(dir),
    };
    let storage = folder.and_then(|folder| facts?.storage_of(folder));
    let name = storage.map_or_else(|| "an unknown disk".to_owned(), |storage| storage.name());
    let caches: Vec<String> = ["direct", "cold", "warm"]
        .into_iter()
        .filter_map(|cache| came(cache, rows))
        .collect();
    let behind = match storage.map(|storage| storage.medium) {
        Some(Medium::Virtual) => {
            ", and the memory of its host may stand behind that: what is called from the device \
             has left this kernel, and no more is known of it"
        }
        Some(Medium::Memory) => ": they are in memory alone",
        _ => "",
    };
    Finding {
        kind: "file_device".into(),
        sentence: format!(
            "files in {} lie on {name}{behind}; of what was read, {}",
            folder.unwrap_or("the temporary folder"),
            caches.join(", ")
        ),
        advice: None,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    }
}

/// How much of each byte that was read in this way came from the device; none where none was.
fn came(cache: &str, rows: &[&PointRow]) -> Option<String> {
    let here = rows
        .iter()
        .filter(|row| row.axes().find_word("cache") == Some(cache));
    let shares: Vec<Option<f64>> = here
        .map(|row| Some(row.estimate("device_share")?.median))
        .collect();
    if shares.is_empty() {
        return None;
    }
    let known: Option<Vec<f64>> = shares.into_iter().collect();
    let Some(known) = known else {
        return Some(format!("an unknown share with cache={cache} came from it"));
    };
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let most = known.iter().copied().fold(0.0, f64::max);
    let [low, high] = [least, most].map(|share| format!("{:.0}", 100.0 * share));
    let share = match low == high {
        true => low,
        false => format!("{low} to {high}"),
    };
    let ahead = match most > 1.01 {
        true => ", with what was read ahead or beside it",
        false => "",
    };
    Some(format!("{share} % with cache={cache} came from it{ahead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;
    use costof_model::facts::{Disk, DiskKind, FileSystem};

    fn row(cache: &'static str, share: Option<f64>) -> PointRow {
        let axes = Axes::default().with("cache", cache).with("dir", TEMPORARY);
        let share_or = share.unwrap_or(1.0);
        let name = match share {
            Some(_) => "device_share",
            None => "cost",
        };
        point_row(PROBE, name, axes, share_or, (share_or, share_or))
    }

    fn facts(kind: DiskKind) -> Facts {
        Facts {
            disks: vec![Disk {
                name: "vda".to_owned(),
                kind,
                ..Disk::default()
            }],
            file_systems: vec![FileSystem {
                mount_point: "/".to_owned(),
                disk: Some("vda".to_owned()),
                ..FileSystem::default()
            }],
            temporary_folder: Some("/tmp".to_owned()),
            ..Facts::default()
        }
    }

    #[test]
    fn a_folder_is_told_with_its_disk_and_where_bytes_came_from() {
        let mut run = run(&[]);
        assert_eq!(file_device(&run), []);
        let host = run.attempts.last_mut().unwrap().hosts.values_mut().next();
        *host.unwrap() = facts(DiskKind::Virtual);
        run.points = vec![
            row("direct", Some(1.0)),
            row("cold", Some(1.0)),
            row("cold", Some(1.34)),
            row("warm", Some(0.0)),
        ];
        let findings = file_device(&run);
        assert_eq!(
            findings[0].sentence,
            "files in /tmp lie on vda (virtual), and the memory of its host may stand behind that: \
             what is called from the device has left this kernel, and no more is known of it; of \
             what was read, 100 % with cache=direct came from it, 100 to 134 % with cache=cold came \
             from it, with what was read ahead or beside it, 0 % with cache=warm came from it"
        );
        assert_eq!((findings.len(), findings[0].evidence.len()), (1, 4));
    }

    #[test]
    fn what_nobody_can_tell_is_called_unknown() {
        let mut run = run(&[]);
        run.points = vec![row("direct", None)];
        let findings = file_device(&run);
        let sentence = &findings[0].sentence;
        assert!(
            sentence.contains("an unknown share with cache=direct"),
            "{sentence}"
        );
        assert!(sentence.contains("an unknown disk"), "{sentence}");
    }
}
