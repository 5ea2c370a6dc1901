//! How benchmarks are named and grouped, as a user's functions declare them.
//!
//! The user's functions run in each process: in the controller, which lists the benchmarks, and in each worker, which
//! measures one of them. So a benchmark may borrow what its function has made.

use crate::bencher::Bencher;
use std::fmt;

/// The benchmarks of a program. A user's function gets one and adds its benchmarks to it.
///
/// ```
/// use costof_harness::{Costof, black_box};
///
/// fn benchmarks(c: &mut Costof) {
///     c.bench_function("parse", |b| b.iter(|| black_box("1234").parse::<u64>()));
/// }
/// ```
pub struct Costof<'a> {
    visitor: &'a mut dyn Visitor,
}

/// What happens to each benchmark: it is listed, tried once, or measured.
pub(crate) trait Visitor {
    fn visit(&mut self, listed: Listed, benchmark: &mut dyn FnMut(&mut Bencher<'_>));
}

/// A benchmark that was found.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) throughput: Option<Throughput>,
}

/// What one call of a function processes: results are then also shown as a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// So many bytes.
    Bytes(u64),
    /// So many things.
    Elements(u64),
}

/// The name of a benchmark: a text, a text with a parameter, or a parameter alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchmarkId(String);

impl BenchmarkId {
    /// `NAME/PARAMETER`.
    pub fn new(name: impl fmt::Display, parameter: impl fmt::Display) -> BenchmarkId {
        BenchmarkId(format!("{name}/{parameter}"))
    }

    /// The parameter alone, for a group that has one function.
    pub fn from_parameter(parameter: impl fmt::Display) -> BenchmarkId {
        BenchmarkId(parameter.to_string())
    }
}

impl From<&str> for BenchmarkId {
    fn from(name: &str) -> BenchmarkId {
        BenchmarkId(name.to_owned())
    }
}

impl From<String> for BenchmarkId {
    fn from(name: String) -> BenchmarkId {
        BenchmarkId(name)
    }
}

impl<'a> Costof<'a> {
    pub(crate) fn new(visitor: &'a mut dyn Visitor) -> Costof<'a> {
        Costof { visitor }
    }

    /// Adds a benchmark. `benchmark` sets up what it needs and calls one method of the [`Bencher`]; it runs only in the
    /// processes that measure it, once in each.
    pub fn bench_function(
        &mut self,
        name: impl Into<BenchmarkId>,
        mut benchmark: impl FnMut(&mut Bencher<'_>),
    ) -> &mut Self {
        let BenchmarkId(name) = name.into();
        self.visitor.visit(Listed { name, throughput: None }, &mut benchmark);
        self
    }

    /// The same with an input, which may be built outside the benchmark.
    pub fn bench_with_input<I: ?Sized>(
        &mut self,
        name: impl Into<BenchmarkId>,
        input: &I,
        mut benchmark: impl FnMut(&mut Bencher<'_>, &I),
    ) -> &mut Self {
        self.bench_function(name, |bencher| benchmark(bencher, input))
    }

    /// Begins a group: the names of its benchmarks begin with `NAME/`.
    ///
    /// ```
    /// # fn bench(c: &mut costof_harness::Costof) {
    /// use costof_harness::{BenchmarkId, Throughput};
    ///
    /// let mut group = c.benchmark_group("checksum");
    /// for bytes in [64, 4096] {
    ///     let data = vec![7_u8; bytes];
    ///     group.throughput(Throughput::Bytes(bytes as u64));
    ///     group.bench_with_input(BenchmarkId::from_parameter(bytes), &data, |b, data| {
    ///         b.iter(|| data.iter().fold(0_u32, |sum, byte| sum.rotate_left(1) ^ u32::from(*byte)));
    ///     });
    /// }
    /// group.finish();
    /// # }
    /// ```
    pub fn benchmark_group(&mut self, name: impl Into<String>) -> Group<'_, 'a> {
        Group { costof: self, name: name.into(), throughput: None }
    }
}

/// Benchmarks whose names begin alike, and that may be shown as a rate.
pub struct Group<'g, 'a> {
    costof: &'g mut Costof<'a>,
    name: String,
    throughput: Option<Throughput>,
}

impl Group<'_, '_> {
    /// What one call processes, for the benchmarks of the group that follow.
    pub fn throughput(&mut self, throughput: Throughput) -> &mut Self {
        self.throughput = Some(throughput);
        self
    }

    /// As [`Costof::bench_function`].
    pub fn bench_function(
        &mut self,
        name: impl Into<BenchmarkId>,
        mut benchmark: impl FnMut(&mut Bencher<'_>),
    ) -> &mut Self {
        let name = format!("{}/{}", self.name, name.into().0);
        let listed = Listed { name, throughput: self.throughput };
        self.costof.visitor.visit(listed, &mut benchmark);
        self
    }

    /// As [`Costof::bench_with_input`].
    pub fn bench_with_input<I: ?Sized>(
        &mut self,
        name: impl Into<BenchmarkId>,
        input: &I,
        mut benchmark: impl FnMut(&mut Bencher<'_>, &I),
    ) -> &mut Self {
        self.bench_function(name, |bencher| benchmark(bencher, input))
    }

    /// Ends the group, as dropping it does.
    pub fn finish(self) {}
}
