//! What a benchmark passes its function to.

use costof_measure::meter::Meter;
use costof_model::Failure;
use std::cell::{Cell, RefCell};
use std::hint::black_box;

/// The metric of each function.
pub(crate) const COST: &str = "cost";

/// How many inputs [`Bencher::iter_batched`] makes before it times their calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// Thousands of inputs and outputs fit into memory: the default choice.
    SmallInput,
    /// Hundreds of them do.
    LargeInput,
    /// One at a time: each call is timed alone, and includes one reading of the clock, some 20 ns.
    PerIteration,
}

impl BatchSize {
    /// The most inputs of a batch.
    fn inputs(self) -> u64 {
        match self {
            BatchSize::SmallInput => 1 << 14,
            BatchSize::LargeInput => 1 << 9,
            BatchSize::PerIteration => 1,
        }
    }
}

/// Measures a function. Each benchmark gets one, and calls one of its methods once.
///
/// In a test (`cargo test --benches`) it calls the function once and measures nothing.
pub struct Bencher<'a> {
    /// Absent in a test.
    meter: Option<Meter<'a>>,
    calls: u32,
}

impl<'a> Bencher<'a> {
    pub(crate) fn new(meter: Option<Meter<'a>>) -> Bencher<'a> {
        Bencher { meter, calls: 0 }
    }

    /// Checks that the benchmark called one method once.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.calls {
            1 => Ok(()),
            0 => Err(Failure::error(
                "it calls no method of its Bencher, so there is nothing to measure (`b.iter(|| …)` measures)",
            )),
            more => Err(Failure::error(format!(
                "it calls methods of its Bencher {more} times, which would mix {more} costs (make a benchmark of each)"
            ))),
        }
    }

    /// Measures what one call of `routine` costs, in batches of n and 2n calls. The output passes through
    /// [`black_box`] and is dropped, both within the measured time.
    ///
    /// ```
    /// # fn bench(c: &mut costof_harness::Costof) {
    /// use std::hint::black_box;
    ///
    /// c.bench_function("sum", |b| {
    ///     let numbers: Vec<u64> = (0..1000).collect();
    ///     b.iter(|| black_box(&numbers).iter().sum::<u64>());
    /// });
    /// # }
    /// ```
    #[inline]
    pub fn iter<O>(&mut self, mut routine: impl FnMut() -> O) {
        self.repeat(|n| {
            for _ in 0..n {
                black_box(routine());
            }
        });
    }

    /// Measures what one call of `routine` costs, without making its input and without dropping its output: for a
    /// function that uses up or changes its input. Inputs are made, and outputs dropped, between the timed batches. Taking
    /// an input from a list and putting an output into another is included, a nanosecond or two for small ones.
    ///
    /// ```
    /// # fn bench(c: &mut costof_harness::Costof) {
    /// use costof_harness::BatchSize;
    ///
    /// c.bench_function("sort", |b| {
    ///     let numbers: Vec<u32> = (0..1000).map(|i| i * 7919 % 1000).collect();
    ///     b.iter_batched(
    ///         || numbers.clone(),
    ///         |mut numbers| {
    ///             numbers.sort();
    ///             numbers
    ///         },
    ///         BatchSize::SmallInput,
    ///     );
    /// });
    /// # }
    /// ```
    #[inline]
    pub fn iter_batched<I, O>(
        &mut self,
        mut setup: impl FnMut() -> I,
        mut routine: impl FnMut(I) -> O,
        size: BatchSize,
    ) {
        self.calls += 1;
        let Some(meter) = &mut self.meter else {
            black_box(routine(setup()));
            return;
        };
        if size == BatchSize::PerIteration {
            let (input, output) = (Cell::new(None), Cell::new(None));
            let prepare = || {
                drop(output.take());
                input.set(Some(setup()));
                Ok(())
            };
            let done = meter.single_used_up(COST, prepare, || {
                if let Some(input) = input.take() {
                    output.set(Some(routine(black_box(input))));
                }
            });
            return done.expect("the preparation cannot fail");
        }
        let lists = RefCell::new((Vec::new(), Vec::new()));
        let prepare = |n: u64| {
            let (inputs, outputs) = &mut *lists.borrow_mut();
            inputs.clear();
            outputs.clear();
            inputs.extend((0..n).map(|_| setup()));
            // A timed batch allocates nothing.
            outputs.reserve(inputs.len());
            Ok(())
        };
        let done = meter.used_up(COST, size.inputs(), prepare, |_| {
            let (inputs, outputs) = &mut *lists.borrow_mut();
            for input in inputs.drain(..) {
                outputs.push(routine(black_box(input)));
            }
            black_box(outputs);
        });
        done.expect("the preparation cannot fail");
    }

    /// The same with a reference to the input, which is dropped between the timed batches too.
    #[inline]
    pub fn iter_batched_ref<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        mut routine: impl FnMut(&mut I) -> O,
        size: BatchSize,
    ) {
        let with_input = |mut input: I| {
            let output = routine(&mut input);
            (input, output)
        };
        self.iter_batched(setup, with_input, size);
    }

    /// Measures what one call of `routine` costs without dropping its output.
    #[inline]
    pub fn iter_with_large_drop<O>(&mut self, mut routine: impl FnMut() -> O) {
        self.iter_batched(|| (), |()| routine(), BatchSize::SmallInput);
    }

    #[inline]
    fn repeat(&mut self, mut operation: impl FnMut(u64)) {
        self.calls += 1;
        match &mut self.meter {
            Some(meter) => meter.repeatable(COST, operation),
            None => operation(1),
        }
    }
}
