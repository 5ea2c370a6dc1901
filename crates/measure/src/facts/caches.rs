//! The caches. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, `cache/index*`.

use costof_model::facts::{Cache, CacheKind, CacheSource, CpuSet};

use super::roots::{Roots, bytes_of};

/// The caches of the processors that are online, those that are alike in one entry, by level.
pub(super) fn caches(roots: &Roots, online: &CpuSet) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in online.iter() {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
        for index in roots.numbered(&folder, "index") {
            let folder = format!("{folder}/index{index}");
            let mut shared = roots.set(&format!("{folder}/shared_cpu_list"));
            if shared.is_empty() {
                shared = CpuSet::from_iter([cpu]);
            }
            add(&mut caches, roots, &folder, &shared);
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind != CacheKind::Data));
    caches
}

/// Adds one cache. The first processor of a shared one has told of it already; `level` and `type`
/// tell two caches apart that share the same processors.
fn add(caches: &mut Vec<Cache>, roots: &Roots, folder: &str, shared: &CpuSet) -> Option<()> {
    let level: u32 = roots.value(&format!("{folder}/level"))?;
    let kind = kind(&roots.text(&format!("{folder}/type"))?);
    let alike = |cache: &&mut Cache| cache.level == level && cache.kind == kind;
    if caches
        .iter_mut()
        .filter(alike)
        .any(|cache| cache.shared_by.contains(shared))
    {
        return None;
    }
    let size_bytes = bytes_of(&roots.text(&format!("{folder}/size"))?)?;
    let line_bytes = roots.value(&format!("{folder}/coherency_line_size"));
    let ways = roots.value(&format!("{folder}/ways_of_associativity"));
    let same = caches.iter_mut().filter(alike).find(|cache| {
        (cache.size_bytes, cache.line_bytes, cache.ways) == (size_bytes, line_bytes, ways)
    });
    match same {
        Some(cache) => cache.shared_by.push(shared.clone()),
        None => caches.push(Cache {
            level,
            kind,
            size_bytes,
            line_bytes,
            ways,
            shared_by: vec![shared.clone()],
            source: CacheSource::Sysfs,
        }),
    }
    Some(())
}

fn kind(text: &str) -> CacheKind {
    match text {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => CacheKind::Unknown,
    }
}
