//! The caches. Source: Documentation/ABI/testing/sysfs-devices-system-cpu, `cache/index*`.

use costof_model::CpuSet;
use costof_model::facts::{Cache, CacheKind, CacheSource};

use super::folder::{Folder, bytes_of};

/// The caches of the online CPUs by level; identical ones share an entry.
pub(super) fn caches(root: &Folder, online: &CpuSet) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in online.iter() {
        let folder = root.folder(&format!("/sys/devices/system/cpu/cpu{cpu}/cache"));
        for (_, folder) in folder.numbered("index") {
            add(&mut caches, &folder, cpu);
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind != CacheKind::Data));
    caches
}

/// Adds one cache of a CPU. If CPUs share a cache, the first of them has already added it. `level`
/// and `type` distinguish two caches that the same CPUs share.
fn add(caches: &mut Vec<Cache>, folder: &Folder, cpu: u32) -> Option<()> {
    let mut shared = folder.set("shared_cpu_list");
    if shared.is_empty() {
        shared = CpuSet::from_iter([cpu]);
    }
    let new = Cache {
        level: folder.value("level")?,
        kind: kind(&folder.text("type")?),
        size_bytes: bytes_of(&folder.text("size")?)?,
        line_bytes: folder.value("coherency_line_size"),
        ways: folder.value("ways_of_associativity"),
        shared_by: vec![shared.clone()],
        source: CacheSource::Sysfs,
    };
    let of_kind = |cache: &Cache| (cache.level, cache.kind) == (new.level, new.kind);
    let is_known = |cache: &Cache| of_kind(cache) && cache.shared_by.contains(&shared);
    if caches.iter().any(is_known) {
        return None;
    }
    let alike = |cache: &Cache| (cache.size_bytes, cache.line_bytes, cache.ways);
    let same = caches.iter_mut().find(|cache| of_kind(cache) && alike(cache) == alike(&new));
    match same {
        Some(cache) => cache.shared_by.push(shared),
        None => caches.push(new),
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
