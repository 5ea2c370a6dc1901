//! Maps with few entries. A run has thousands of them.

use crate::Text;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// At most this many entries has a map of large values.
const MAX_ENTRIES: usize = 16;

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

/// Reads a map of large values, and refuses more than [`MAX_ENTRIES`] before they fill memory: `{}` in a foreign
/// file may be kilobytes here.
pub(crate) fn bounded<'de, V, D>(deserializer: D) -> Result<BTreeMap<Text, V>, D::Error>
where
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Bounded(PhantomData))
}

struct Bounded<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Bounded<V> {
    type Value = BTreeMap<Text, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with at most {MAX_ENTRIES} entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
            if map.len() > MAX_ENTRIES {
                return Err(A::Error::invalid_length(map.len(), &self));
            }
        }
        Ok(map)
    }
}
