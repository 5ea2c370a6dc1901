//! The tables of `tables.toml`.

use crate::published::Published;
use crate::study::unit;
use serde::Deserialize;
use std::sync::LazyLock;

/// Two words that belong together.
pub(crate) type Pair = (&'static str, &'static str);

// All text of the file lives as long as the program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct Tables {
    pub(crate) rows: Vec<Pair>,
    /// Each metric, and its heading above a plot; empty if it is not drawn.
    pub(crate) metrics: Vec<Pair>,
    pub(crate) units: Vec<unit::Published>,
    pub(crate) published: Vec<Published>,
}

pub(crate) static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("tables.toml")).expect("a test reads it"));

impl Tables {
    /// The metrics that are drawn.
    pub(crate) fn drawn(&self) -> impl Iterator<Item = &Pair> {
        self.metrics.iter().filter(|(_, heading)| !heading.is_empty())
    }
}
