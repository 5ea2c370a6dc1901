//! Maps of a few entries, of which a run has thousands.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// A sorted list: a tree would keep room for eleven entries in each.
pub type Few<K, V> = litemap::LiteMap<K, V>;

/// As an object, also where it is empty: litemap by itself would write a list then.
pub(crate) fn serialize<S: Serializer>(
    map: &Few<impl Serialize, impl Serialize>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map)
}

/// By way of a tree: a list would be moved for each entry that comes out of order, and a foreign file may
/// have a million of them.
pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<Few<K, V>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let map = BTreeMap::<K, V>::deserialize(deserializer)?;
    // With room for these, and no more.
    Ok(Few::from_sorted_store_unchecked(map.into_iter().collect()))
}
