//! The functions of the contest. `PLANT`, when this is built, is how many thousandths more work they do.

/// A chain of dependent multiplications.
#[inline(never)]
pub fn work(steps: u64) -> u64 {
    (0..steps).fold(1, |product: u64, step| product.wrapping_mul(step | 1).rotate_left(7))
}

/// The names, and how many steps take about 20 ns, 1 µs and 20 µs.
pub const FUNCTIONS: [(&str, u64); 3] = [("20ns", 15), ("1us", 700), ("20us", 14_000)];

/// The steps, with what is planted. Twenty nanoseconds have too few steps for one percent more, so only one call in several has one
/// step more: see [`Calls`].
pub struct Calls {
    steps: u64,
    /// What is left over of the planted steps, in thousandths of a step.
    thousandths: u64,
    left: u64,
}

impl Calls {
    pub fn new(steps: u64) -> Calls {
        let plant: u64 =
            option_env!("PLANT").map_or(0, |plant| plant.parse().expect("thousandths"));
        Calls { steps: steps + steps * plant / 1000, thousandths: steps * plant % 1000, left: 0 }
    }

    #[inline]
    pub fn call(&mut self) -> u64 {
        self.left += self.thousandths;
        let one_more = self.left >= 1000;
        self.left -= if one_more { 1000 } else { 0 };
        work(std::hint::black_box(self.steps + u64::from(one_more)))
    }
}
