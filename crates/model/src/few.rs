//! Maps with few entries. A run has thousands of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A sorted list: a B-tree would allocate room for eleven entries in each map.
pub type Few<K, V> = litemap::LiteMap<K, V>;

/// Writes an object, even if the map is empty: litemap by itself would then write a list.
pub(crate) fn serialize<S: Serializer>(
    map: &Few<impl Serialize, impl Serialize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map)
}

/// Reads into a tree first: a list would be moved for each entry that is out of order, and a
/// foreign file may have a million entries.
pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<Few<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let map = BTreeMap::<K, V>::deserialize(deserializer)?;
    // With capacity for these entries and no more.
    Ok(Few::from_sorted_store_unchecked(map.into_iter().collect()))
}
