//! Turns a request into the points of a run.

use crate::{Axes, AxisValue, ProbeInfo, Text, nearest};
use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

/// The requested values, by axis name: `--set AXIS=V,V…`.
pub type Settings = BTreeMap<String, Vec<String>>;

/// The most points of a probe in one run: their launches alone would take hours.
pub const MAX_POINTS: usize = 1_000_000;

/// The probes that match `pattern`: an id, a layer or a glob with `*`.
///
/// # Errors
/// A sentence with the pattern and the nearest correct name.
pub fn select<'a>(infos: &[&'a ProbeInfo], pattern: &str) -> Result<Vec<&'a ProbeInfo>, String> {
    let is_named = |info: &&ProbeInfo| {
        info.id == pattern || info.layer() == pattern || matches_glob(pattern, &info.id)
    };
    let found: Vec<&ProbeInfo> = infos.iter().copied().filter(is_named).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = infos.iter().flat_map(|info| [&*info.id, info.layer()]);
    Err(nearest::no_probe(pattern, infos, names))
}

/// Whether `text` matches `pattern`, in which `*` stands for anything.
fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or("")) else {
        return false;
    };
    let mut rest = rest;
    let mut last = None;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    match last {
        None => rest.is_empty(),
        Some(part) => rest.is_empty() || part.is_empty() || text.ends_with(part),
    }
}

/// The points of one probe, as values of its axes. If axes are set, all combinations of the set
/// values. Otherwise the probe's own plan: its defaults, each axis varied alone, and the crossings
/// that it names. No point occurs twice.
///
/// # Errors
/// A sentence with the unknown axis or value, or if there are more than [`MAX_POINTS`].
pub fn points(info: &ProbeInfo, settings: &Settings) -> Result<Vec<Axes>, String> {
    let defaults = || vec![info.defaults()];
    let mut all = Vec::new();
    if settings.is_empty() {
        all.extend(defaults());
        for axis in info.axes.iter() {
            all.extend(cross(defaults(), axis.name.clone(), &axis.defaults()));
        }
        for crossing in info.crossings.iter() {
            let mut axes = defaults();
            for name in crossing.iter() {
                axes = cross(axes, name.clone(), &info.axis(name)?.defaults());
            }
            all.extend(axes);
        }
    } else {
        let set = read(info, settings)?;
        bounded(info, &set)?;
        all.extend(
            set.into_iter().fold(defaults(), |axes, (name, values)| cross(axes, name, &values)),
        );
    }
    let mut points = Vec::new();
    add_new(&mut points, all);
    Ok(points)
}

/// Adds the items that are not there yet.
pub fn add_new<T: Clone + Eq + Hash>(all: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let mut known: HashSet<T> = all.iter().cloned().collect();
    all.extend(more.into_iter().filter(|one| known.insert(one.clone())));
}

/// Checks that the set values make at most [`MAX_POINTS`].
fn bounded(info: &ProbeInfo, set: &[(Text, Vec<AxisValue>)]) -> Result<(), String> {
    let counts = set.iter().map(|(_, values)| values.len());
    let all = counts.fold(1, usize::saturating_mul);
    if all <= MAX_POINTS {
        return Ok(());
    }
    let axes: Vec<String> =
        set.iter().map(|(name, values)| format!("{} of {name}", values.len())).collect();
    Err(format!(
        "{}: {all} points, of which a run has at most {MAX_POINTS} (fewer values of --set: {})",
        info.id,
        axes.join(", ")
    ))
}

/// Reads `axis=value,value`. A value that is there twice counts once.
///
/// # Errors
/// There is no such sign, no axis, or an empty value.
pub fn setting(text: &str) -> Result<(String, Vec<String>), String> {
    let (axis, values) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not AXIS=V,V… (such as size=16KiB,1MiB)"))?;
    let mut all = Vec::new();
    add_new(&mut all, values.split(',').map(|value| value.trim().to_owned()));
    let values = all;
    if axis.is_empty() || values.iter().any(String::is_empty) {
        return Err(format!("`{text}` names no axis, or an empty value"));
    }
    Ok((axis.trim().to_owned(), values))
}

/// The values that are set, axis by axis.
///
/// # Errors
/// The probe has no such axis, or the axis no such value; the probe is named.
pub fn read(info: &ProbeInfo, settings: &Settings) -> Result<Vec<(Text, Vec<AxisValue>)>, String> {
    let read = settings.iter().map(|(name, texts)| {
        let axis = info.axis(info.present_axis(name).unwrap_or(name))?;
        let values = texts.iter().map(|text| info.value(&axis.name, text));
        let values = values.collect::<Result<_, String>>();
        let values = values.map_err(|error| format!("{}: {error}", info.id))?;
        Ok((axis.name.clone(), values))
    });
    read.collect()
}

/// Combines every one of `axes` with every one of `values` on the axis `name`.
fn cross(axes: Vec<Axes>, name: Text, values: &[AxisValue]) -> Vec<Axes> {
    axes.iter()
        .flat_map(|axes| {
            values.iter().map(|value| {
                let mut axes = axes.clone();
                axes.0.insert(name.clone(), value.clone());
                axes
            })
        })
        .collect()
}

/// Sorts the probes into levels: each comes after those that its predictions use, if these are
/// measured. Within a level, the given order stays.
pub fn levels<'a>(infos: &[&'a ProbeInfo]) -> Vec<Vec<&'a ProbeInfo>> {
    let mut levels: Vec<Vec<&ProbeInfo>> = Vec::new();
    let mut left: Vec<&ProbeInfo> = infos.to_vec();
    while !left.is_empty() {
        let waiting: Vec<Text> = left.iter().map(|info| info.id.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) = left.iter().copied().partition(|info| {
            let mut after = info.after.iter();
            !after.any(|id| *id != info.id && waiting.contains(id))
        });
        // A cycle would be a bug in the table; it is broken instead of followed forever.
        let (ready, rest) = if ready.is_empty() { (rest, Vec::new()) } else { (ready, rest) };
        levels.push(ready);
        left = rest;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{probe_info, words_axis};
    use crate::typed::bytes;
    use crate::{Alias, List};

    fn probe(id: &'static str, after: &'static [Text]) -> ProbeInfo {
        let size = bytes::<u64>(1..=4096, &[1, 2, 4]).into_axis("size", "");
        ProbeInfo {
            axes: List::Owned(vec![words_axis("kind", &["a", "b"]), size]),
            after: List::Borrowed(after),
            ..probe_info(id)
        }
    }

    #[test]
    fn who_names_a_probe_as_it_once_was_is_told_its_present_name() {
        let aliases = List::Owned(vec![Alias::new("q(kind=c)", "p(kind=a)")]);
        let info = ProbeInfo { aliases, ..probe("p", &[]) };
        let error = select(&[&info], "q").unwrap_err();
        assert!(error.contains("`q` is now p, such as `p(kind=a)`"), "{error}");
    }

    #[test]
    fn probes_are_named_by_id_layer_or_glob() {
        let infos = ["cpu.call", "cpu.loop", "memory.latency"].map(|id| probe(id, &[]));
        let infos = infos.each_ref();
        let ids = |pattern| -> Vec<String> {
            let found = select(&infos, pattern).unwrap();
            found.iter().map(|info| info.id.to_string()).collect()
        };
        assert_eq!(ids("cpu.loop"), ["cpu.loop"]);
        assert_eq!(ids("cpu"), ["cpu.call", "cpu.loop"]);
        assert_eq!(ids("*l*"), ["cpu.call", "cpu.loop", "memory.latency"]);
        assert_eq!(ids("*.latency"), ["memory.latency"]);
        assert_eq!(ids("cpu.*p"), ["cpu.loop"]);
        let error = select(&infos, "cpu.lop").unwrap_err();
        assert!(error.contains("did you mean `cpu.loop`"), "{error}");
        assert!(select(&infos, "c*z").is_err());
    }

    #[test]
    fn a_plan_varies_one_axis_at_a_time_and_settings_are_crossed() {
        let mut info = probe("p", &[]);
        assert_eq!(points(&info, &Settings::new()).unwrap().len(), 4);
        info.crossings = List::Owned(vec![List::Owned(vec!["kind".into(), "size".into()])]);
        assert_eq!(points(&info, &Settings::new()).unwrap().len(), 6);
        let set = |name: &str, values: &[&str]| {
            let values = values.iter().map(ToString::to_string);
            (name.to_owned(), values.collect::<Vec<_>>())
        };
        let settings = Settings::from([set("size", &["3", "1KiB"]), set("kind", &["a", "b"])]);
        assert_eq!(points(&info, &settings).unwrap().len(), 4);
        let error = points(&info, &Settings::from([set("siz", &["3"])])).unwrap_err();
        assert!(error.contains("did you mean `size`"), "{error}");
    }

    #[test]
    fn more_points_than_a_run_can_have_are_refused_before_they_are_made() {
        let info = probe("p", &[]);
        let sizes: Vec<String> = (1..=4000).map(|size| size.to_string()).collect();
        let set = |times| {
            Settings::from([(
                "size".to_owned(),
                std::iter::repeat_n(sizes.clone(), times).flatten().collect(),
            )])
        };
        assert_eq!(points(&info, &set(2)).unwrap().len(), 4000);
        let error = points(&info, &set(300)).unwrap_err();
        assert!(error.contains("1200000 points") && error.contains("of size"), "{error}");
        let twice = setting("size=1,2, 1").unwrap();
        assert_eq!(twice.1, ["1", "2"]);
    }

    #[test]
    fn a_probe_comes_after_those_that_it_predicts_from() {
        let a = probe("a", &[Text::Borrowed("b"), Text::Borrowed("absent")]);
        let b = probe("b", &[]);
        let c = probe("c", &[Text::Borrowed("a")]);
        let ids = |level: Vec<&ProbeInfo>| -> Vec<String> {
            level.iter().map(|info| info.id.to_string()).collect()
        };
        let levels = levels(&[&a, &b, &c]).into_iter().map(ids);
        assert_eq!(levels.collect::<Vec<_>>(), [["b"], ["a"], ["c"]]);
    }
}
