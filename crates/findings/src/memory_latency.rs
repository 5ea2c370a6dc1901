//! The points of `memory.latency` and the caches that the machine claims. All findings about caches start
//! from here.

use costof_model::noise::MEASURED;
use costof_model::{PointRow, Run};
use costof_stats::changepoints::{Level, levels};

/// With fewer sizes, a curve has no levels, only points.
const CURVE_SIZES_MIN: usize = 12;
/// costof plans no curve with more sizes, and searching such a curve for levels would take minutes. Only its
/// single points are used.
const CURVE_SIZES_MAX: usize = 500;

/// A working set lies beyond all caches from this many times the claimed size of the last one.
const BEYOND_CLAIM: f64 = 2.0;

/// Dynamic memory needs about 30 ns to activate and read a row, and the way there and back takes more.
/// Anything faster is a cache, whatever the machine claims.
const MEMORY_NS_MIN: f64 = 40.0;

/// A cache that the machine claims to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) level: u32,
    pub(crate) bytes: u64,
}

/// The cost of a random load in a working set of this size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    pub(crate) bytes: u64,
    pub(crate) cost_ns: f64,
    pub(crate) row: &'a PointRow,
}

/// The costs of random loads on pages of one size, by the size of the working set.
#[derive(Clone, Debug)]
pub(crate) struct Curve<'a> {
    pub(crate) pages: &'a str,
    /// Sorted by size.
    pub(crate) loads: Vec<Load<'a>>,
    /// The levels on which the cost stays the same; their positions are those of `loads`.
    pub(crate) levels: Vec<Level>,
}

/// What serves a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// The claimed cache at this position.
    Cache(usize),
    /// Main memory.
    Memory,
}

impl Load<'_> {
    /// The interval of the cost; none if there were too few launches.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        self.row.estimate("cost")?.ci95
    }
}

impl Curve<'_> {
    /// The sizes and costs.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        points(&self.loads)
    }

    /// What serves the loads of each level; empty if the machine claims no caches.
    ///
    /// The last level is main memory if it reaches far enough beyond the last cache. Each other level belongs
    /// to the cache that serves the largest part of its size range: the sizes that fit into this cache, but
    /// not into the one before it.
    pub(crate) fn servers(&self, claims: &[Claim]) -> Vec<Server> {
        let Some(last_claim) = claims.last() else {
            return Vec::new();
        };
        let server = |(position, level): (usize, &Level)| {
            let (first, last) = (self.loads[level.first].bytes, self.loads[level.last].bytes);
            if position + 1 == self.levels.len()
                && last as f64 >= BEYOND_CLAIM * last_claim.bytes as f64
                && level.cost >= MEMORY_NS_MIN
            {
                return Server::Memory;
            }
            let octaves = |cache: usize| {
                let from = if cache == 0 { 1 } else { claims[cache - 1].bytes };
                let to = match claims.get(cache + 1) {
                    Some(_) => claims[cache].bytes,
                    None => u64::MAX,
                };
                (last.min(to) as f64 / first.max(from) as f64).log2()
            };
            let most =
                (0..claims.len()).max_by(|one, other| octaves(*one).total_cmp(&octaves(*other)));
            Server::Cache(most.expect("there is a claim"))
        };
        self.levels.iter().enumerate().map(server).collect()
    }
}

impl Claim {
    /// `L3`.
    pub(crate) fn name(&self) -> String {
        format!("L{}", self.level)
    }
}

/// The random loads of a run, a cache line apart: for each page size, sorted by the size of the working set.
pub(crate) fn loads(run: &Run) -> Vec<(&str, Vec<Load<'_>>)> {
    let rows = run.select("memory.latency").with_value("pattern", "random");
    let by_pages =
        rows.with_value("stride", 64).group_with(|row| load(row).map(|(pages, _)| pages));
    let by_pages = by_pages.into_iter().map(|(pages, rows)| {
        let mut loads: Vec<Load<'_>> = rows.iter().filter_map(|row| Some(load(row)?.1)).collect();
        loads.sort_by_key(|load| load.bytes);
        loads.dedup_by_key(|load| load.bytes);
        (pages, loads)
    });
    let mut by_pages: Vec<_> = by_pages.collect();
    by_pages.sort_by_key(|(pages, _)| *pages != "4KiB");
    by_pages
}

/// The loads that make curves.
pub(crate) fn curves(run: &Run) -> Vec<Curve<'_>> {
    loads(run)
        .into_iter()
        .filter(|(_, loads)| (CURVE_SIZES_MIN..=CURVE_SIZES_MAX).contains(&loads.len()))
        .map(|(pages, loads)| Curve { pages, levels: levels(&points(&loads)), loads })
        .collect()
}

fn points(loads: &[Load<'_>]) -> Vec<(f64, f64)> {
    loads.iter().map(|load| (load.bytes as f64, load.cost_ns)).collect()
}

fn load(row: &PointRow) -> Option<(&str, Load<'_>)> {
    let cost_ns = row.median("cost").filter(|ns| *ns > 0.0)?;
    let bytes = row.number("size").filter(|bytes| *bytes > 0)?;
    let load = Load { bytes, cost_ns, row };
    Some((row.word("pages")?, load))
}

/// The caches that the machine claims for the CPU on which the loads ran, the nearest first. Each is larger
/// than the one before.
pub(crate) fn claims(run: &Run, loads: &[Load<'_>]) -> Vec<Claim> {
    let Some(facts) = run.facts() else {
        return Vec::new();
    };
    let cpus = loads.first().and_then(|load| load.row.placement.0.get(MEASURED));
    let cpu = cpus.and_then(|cpus| u32::try_from(*cpus.first()?).ok());
    let mut claims: Vec<Claim> = Vec::new();
    for level in 1..=4 {
        let cache = match cpu {
            Some(cpu) => facts.claimed_cache_of(level, cpu),
            None => facts.claimed_cache(level),
        };
        let inner = claims.last().map_or(0, |last| last.bytes);
        let larger = cache.filter(|cache| cache.size_bytes > inner || claims.is_empty());
        claims.extend(larger.map(|cache| Claim { level, bytes: cache.size_bytes }));
    }
    claims
}
