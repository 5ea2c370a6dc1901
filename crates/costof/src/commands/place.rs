//! `costof place`: where each row of a host lies among those of other machines like it.

use super::qualify::named_as_here;
use crate::cli::PlaceOptions;
use crate::error::{Context, Done, Error, Result};
use crate::record::{self, Table, files_ending};
use crate::terminal::{print, prose_columns};
use crate::{files, history};
use costof_measure::place::place;
use costof_model::Reference;
use costof_report::place as shown;
use std::path::PathBuf;

/// The corpus: machines that were measured for it, each with the name of its file.
const CORPUS: [(&str, &str); 1] = [(
    "intel-xeon-2cpu-linux6.18-kvm-1.json",
    include_str!("../../corpus/intel-xeon-2cpu-linux6.18-kvm-1.json"),
)];
/// The longest file of references that is read, in bytes: a hundred cohorts of most rows.
const MAX_BYTES: u64 = 16 << 20;

pub(crate) fn run(table: Table, options: &PlaceOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let run = record::read(&file, table)?;
    let placed = place(&run, &references(&options.among, table)?);
    if placed.rows.is_empty() {
        return Err(Error::Nothing(format!(
            "{}: nothing to compare: no machine of the references has this CPU, or none of these rows with a number of grade A to C (--among names other references)",
            file.display()
        )));
    }
    print(if options.json {
        serde_json::to_string(&placed).context("JSON")? + "\n"
    } else {
        shown::text(&placed, options.all, prose_columns())
    })
}

/// The references in these files and folders, each once; without any, the corpus.
fn references(given: &[PathBuf], table: Table) -> Result<Vec<Reference>> {
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for path in given {
        let folder = path.is_dir().then(|| files_ending(path, "json", "reference")).transpose()?;
        for file in folder.unwrap_or_else(|| vec![path.clone()]) {
            let text = files::read_text(&file, MAX_BYTES);
            let text = text.context(format_args!("cannot read {}", file.display()))?;
            texts.push((file, text));
        }
    }
    if given.is_empty() {
        texts.extend(CORPUS.map(|(name, text)| (name.into(), text.to_owned())));
    }
    let mut references = Vec::new();
    for (file, text) in texts {
        let reference = Reference::read_or_entry(text.as_bytes()).context(file.display())?;
        let reference = named_as_here(reference, table);
        if !references.contains(&reference) {
            references.push(reference);
        }
    }
    Ok(references)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_is_every_entry_of_its_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let found = files_ending(&folder, "json", "entry").unwrap();
        let texts: Vec<String> =
            found.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let names = found.iter().map(|file| file.file_name().unwrap().to_str().unwrap());
        let there: Vec<(&str, &str)> = names.zip(texts.iter().map(String::as_str)).collect();
        assert_eq!(there, CORPUS);
        let all = references(&[], costof_probes::TABLE).unwrap();
        assert_eq!(all.len(), CORPUS.len(), "each once");
        let cohorts = all.iter().flat_map(|reference| &reference.cohorts);
        assert!(cohorts.into_iter().all(|cohort| cohort.hosts == 1 && cohort.rows.len() >= 20));
    }
}
