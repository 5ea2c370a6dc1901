//! The role of a probe with one process: sets a point up, measures it and checks it.

use crate::prelude::*;
use costof_measure::probe::Role;

/// The setup of a point of `P`. Only one exists at a time: that of an earlier point is dropped
/// before the next is set up.
pub(crate) trait Setup<P>: Sized {
    /// As [`RoleAt::BLOCKS`].
    const BLOCKS: bool = false;

    /// As [`RoleAt::blocks`].
    fn blocks(_point: &At<P>) -> bool {
        Self::BLOCKS
    }

    /// Sets the point up, untimed.
    ///
    /// # Errors
    /// If the point cannot be measured here.
    fn set_up(point: &At<P>, launch: &Launch) -> Result<Self>;

    /// Measures the point.
    ///
    /// # Errors
    /// If it has no number.
    fn measure(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result;

    /// Checks that the work was done, and adds the evidence as metrics.
    ///
    /// # Errors
    /// If the work was not done.
    fn check(self, _point: &At<P>, _meter: &mut Meter<'_>) -> Result {
        Ok(())
    }
}

struct Alone<S> {
    launch: Launch,
    ready: Option<S>,
}

/// Starts the only role of a probe, which measures with an `S`.
pub(crate) fn alone<P: TypedPoint, S: Setup<P> + 'static>(
    launch: &Launch,
) -> Result<Box<dyn Role>> {
    role::<P>(Alone::<S> { launch: launch.clone(), ready: None })
}

impl<P, S: Setup<P>> RoleAt<P> for Alone<S> {
    fn blocks(&self, point: &At<P>) -> bool {
        S::blocks(point)
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers> {
        self.ready = None;
        self.ready = Some(S::set_up(point, &self.launch)?);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        let ready = self.ready.as_mut().expect("it is set up before");
        ready.measure(point, meter)
    }

    fn finish(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        let ready = self.ready.take().expect("it is set up before");
        ready.check(point, meter)
    }
}

/// The setup of a probe of cryptography in a build without it.
#[cfg(not(feature = "quic"))]
pub(crate) struct WithoutCryptography;

#[cfg(not(feature = "quic"))]
impl<P> Setup<P> for WithoutCryptography {
    fn set_up(_: &At<P>, _: &Launch) -> Result<WithoutCryptography> {
        costof_model::unsupported!(
            "this costof was built without the feature quic, which has cryptography"
        )
    }

    fn measure(&mut self, _: &At<P>, _: &mut Meter<'_>) -> Result {
        Ok(())
    }
}

/// Measures operations that may fail, as [`Meter::repeatable`].
///
/// # Errors
/// The first one that occurred.
pub(crate) fn repeat_fallible(
    meter: &mut Meter<'_>,
    metric: &'static str,
    mut operation: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut failed = FirstError::default();
    meter.repeatable(metric, |n| failed.note(operation(n)));
    failed.into_result()
}

/// The first error of operations that are timed in batches, which cannot return it.
#[derive(Debug, Default)]
pub(crate) struct FirstError(Option<io::Error>);

impl FirstError {
    #[inline]
    pub(crate) fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.0.get_or_insert(error);
        }
    }

    /// # Errors
    /// The first one, if any.
    pub(crate) fn into_result(self) -> io::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
