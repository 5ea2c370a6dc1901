//! Studies: files that people write.

use super::run::{RUNS, file_name, plain};
use crate::edits::edited;
use crate::markup;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::{self, Run};
use costof_probes::TABLE;
use costof_report::page;
use costof_report::study::{EMBEDDED, Study};
use std::sync::LazyLock;

static RUN: LazyLock<Run> =
    LazyLock::new(|| run_file::read(RUNS[0].as_bytes()).expect("it is a run"));

/// A file of any bytes.
pub(crate) fn bytes(bytes: &[u8]) {
    check(&String::from_utf8_lossy(bytes));
}

/// A study that comes with costof, of which some values are others.
pub(crate) fn values(script: &[u8]) {
    if let Some((which, script)) = script.split_first() {
        let (_, text) = EMBEDDED[usize::from(*which) % EMBEDDED.len()];
        check(&edited(text, script));
    }
}

/// A study is compared with a run, and shown, or an error says where it is wrong.
fn check(text: &str) {
    let named = |error: String| assert!(error.starts_with("fuzz.toml"), "{error}");
    let study = match Study::read("fuzz", "fuzz.toml", text) {
        Ok(study) => study,
        Err(error) => return named(error),
    };
    let infos: Vec<&ProbeInfo> = TABLE.iter().map(|probe| &*probe.info).collect();
    if let Err(error) = study.check(&infos) {
        return named(error);
    }
    study.points(&infos).expect("it was checked");
    study.asks().for_each(|ask| plain(&ask.replace('\t', " ")));
    let why = |_: &Point| None;
    let reproduction = study.reproduced_by(&infos, &RUN, &why, Vec::new()).expect("it was checked");
    markup::check(&page::of_study(&RUN, &reproduction));
    plain(&reproduction.text(&RUN, 80).replace('\t', " "));
    plain(&reproduction.markdown(&RUN).replace('\t', " "));
    if let Some((name, _)) = study.csv(&RUN) {
        file_name(&name);
    }
}
