//! Finds on which devices the files of a run are, and how much of the data that was read came from there.

use crate::prelude::*;
use costof_model::facts::Medium;

/// The least time of a seek and part of a turn, in nanoseconds, and that of a read of flash, below which only
/// memory answers: 7,200 turns a minute are 8.3 ms for one; flash takes 40 µs and more, fast kinds 10.
const SEEK_NS: f64 = 2e6;
const FLASH_NS: f64 = 10e3;

/// The name of the folder that the facts describe.
const TEMPORARY: &str = "temporary";

/// A finding for each folder in which files were read.
pub(crate) fn file_device(run: &Run) -> Vec<Finding> {
    let mut folders = run.select("file.read").group_with(|row| row.word("dir"));
    folders.sort_by_key(|(dir, _)| *dir);
    folders.iter().map(|(dir, rows)| in_folder(run, dir, rows)).collect()
}

fn in_folder(run: &Run, dir: &str, rows: &Select<'_>) -> Finding {
    let folder = match dir {
        TEMPORARY => run.facts().and_then(|facts| facts.temporary_folder.as_deref()),
        dir => Some(dir),
    };
    let storage = folder.and_then(|folder| run.facts()?.storage_of(folder));
    let where_it_is = match storage.as_ref().map(|storage| storage.medium) {
        Some(Medium::Virtual) => {
            ", whose host may cache them: a read from the device leaves this kernel, but may not reach a disk"
        }
        Some(Medium::Memory) => ": they are only in memory",
        Some(Medium::File) => ", which this kernel may have cached",
        _ => "",
    };
    let device = storage.map_or_else(|| "an unknown disk".to_owned(), |storage| storage.name());
    let read = ["direct", "cold", "warm"].into_iter().filter_map(|cache| came(cache, rows));
    let sentence = format!(
        "{random}files in {folder} lie on {device}{where_it_is}; of what was read, {read}",
        random = maybe(random(rows), |random| format!("{random}; ")),
        folder = folder.unwrap_or("the temporary folder"),
        read = read.collect::<Vec<_>>().join(", "),
    );
    Finding::new(Kind::FileDevice, rows.iter().copied(), sentence)
}

/// What the time of single random reads past the kernel's cache shows; none if there were none.
fn random(rows: &Select<'_>) -> Option<String> {
    let rows = rows.clone().with_value("cache", "direct").with_value("pattern", "random");
    let time_ns = rows.with_value("depth", 1).one()?.median("cost")?;
    let (disk, what) = match time_ns {
        SEEK_NS.. => (
            "yes, a disk that turns, or one as slow (over a network, or with a limited rate)",
            ", as a seek does",
        ),
        FLASH_NS.. => (
            "no disk that turns",
            ", as from flash or from a host's cache, and a seek takes milliseconds",
        ),
        _ => ("no", ", which is less than flash takes, so it comes from some other memory"),
    };
    Some(format!("{disk}: a random read past this kernel's cache takes {}{what}", ns(time_ns)))
}

/// For reads of this kind, how much of each byte came from the device; none if there were no such reads.
fn came(cache: &str, rows: &Select<'_>) -> Option<String> {
    let rows = rows.clone().with_value("cache", cache);
    let known: Option<Vec<f64>> = rows.iter().map(|row| row.median("device_share")).collect();
    let Some(known) = known else {
        return Some(format!("an unknown share with cache={cache} came from it"));
    };
    let (least, most) = span(known)?;
    let ahead = when(most > 1.01, ", including read-ahead");
    let share = range((least, most), percent);
    Some(format!("{share} % with cache={cache} came from it{ahead}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, contains, point_row, reads, run};
    use costof_model::PointRow;
    use costof_model::facts::DiskKind;
    use costof_model::testing::facts_with_disk;

    fn row(cache: &'static str, share: Option<f64>) -> PointRow {
        let axes = axes!(cache, dir = TEMPORARY);
        let share_or = share.unwrap_or(1.0);
        let name = match share {
            Some(_) => "device_share",
            None => "cost",
        };
        point_row("file.read", name, axes, share_or, (share_or, share_or))
    }

    #[test]
    fn a_folder_is_reported_with_its_disk_and_where_bytes_came_from() {
        let mut run = run(&[]);
        assert_eq!(file_device(&run), []);
        let host = run.attempts.last_mut().unwrap().hosts.values_mut().next();
        *host.unwrap() = facts_with_disk(DiskKind::Virtual);
        run.points = vec![
            row("direct", Some(1.0)),
            row("cold", Some(1.0)),
            row("cold", Some(1.34)),
            row("warm", Some(0.0)),
        ];
        let findings = file_device(&run);
        reads!(&findings);
        assert_eq!((findings.len(), findings[0].evidence.len()), (1, 3));
    }

    #[test]
    fn a_random_read_shows_whether_a_disk_turns() {
        for (us, shown) in [
            (8e3, "yes, a disk that turns"),
            (50.0, "no disk that turns"),
            (2.0, "comes from some other memory"),
        ] {
            let mut run = run(&[]);
            let axes = axes!(cache = "direct", pattern = "random", depth = 1, dir = TEMPORARY);
            let row = point_row("file.read", "cost", axes, 1e3 * us, (1e3 * us, 1e3 * us));
            run.points = vec![row];
            contains(&file_device(&run)[0].sentence, shown);
        }
    }

    #[test]
    fn what_nobody_can_tell_is_called_unknown() {
        let mut run = run(&[]);
        run.points = vec![row("direct", None)];
        let findings = file_device(&run);
        let sentence = findings[0].sentence.clone();
        contains(&sentence, "an unknown share with cache=direct");
        contains(&sentence, "an unknown disk");
    }
}
