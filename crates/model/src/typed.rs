//! Points as types: the axes of a probe, declared once. A word of the command line or of a run file
//! is parsed into the type; roles, predictions and results work with the type alone.
//!
//! [`words!`](crate::words!) declares the words of an axis, [`point!`](crate::point!) a point whose fields
//! are the axes.

use crate::axis::Choice;
use crate::{Axes, Axis, AxisValue, Domain, List, Point, Text, Unit};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ops::RangeInclusive;

/// A point of one probe, with a field for each of its axes.
pub trait TypedPoint: Sized + 'static {
    /// The probe's id.
    const PROBE: &'static str;

    /// The probe's documentation, line by line; [`point!`](crate::point!) takes it from the doc comment.
    const DOC: &'static [&'static str];

    /// The names of the axes, in the order of the fields.
    const AXES: &'static [&'static str];

    /// The axes, in the order of the fields.
    fn axes() -> &'static [Axis];

    /// Reads the point; `None` if an axis is missing or has another value, as in a file of another
    /// build.
    fn read(axes: &Axes) -> Option<Self>;

    /// The values by the names of the axes.
    fn write(&self) -> Axes;
}

/// A point of one probe on a link.
#[derive(Clone, Debug, PartialEq)]
pub struct At<P> {
    /// Its axes; also reached by the point itself.
    pub axes: P,
    /// The path between the ends; `none` where there is one.
    pub link: Text,
}

impl<P> At<P> {
    /// Converts the axes to another type, on the same link.
    pub fn to<Q: for<'a> From<&'a P>>(&self) -> At<Q> {
        At { axes: Q::from(&self.axes), link: self.link.clone() }
    }
}

impl<P> Deref for At<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.axes
    }
}

impl<P: TypedPoint> At<P> {
    /// Reads the point; `None` if it does not belong to this probe, whose axis may have some of a type's words. A point
    /// of a newer build with an axis that is unknown here does not: it would be measured without it.
    pub fn read(point: &Point) -> Option<At<P>> {
        let is_word_of = |axis: &Axis| match &axis.domain {
            Domain::Choice(_) => point.axes.0.get(&axis.name).is_some_and(|word| axis.allows(word)),
            _ => true,
        };
        let has_no_other = point.axes.0.len() == P::AXES.len();
        let axes =
            P::read(&point.axes).filter(|_| has_no_other && P::axes().iter().all(is_word_of))?;
        let link = point.link.clone();
        Some(At { axes, link })
    }
}

impl<P: TypedPoint> From<&Point> for At<P> {
    /// # Panics
    /// If it is not a point of this probe, which no plan contains.
    fn from(point: &Point) -> At<P> {
        At::read(point).unwrap_or_else(|| panic!("{point} is not a point of {}", P::PROBE))
    }
}

/// Over no link.
impl<P: TypedPoint> From<P> for At<P> {
    fn from(axes: P) -> At<P> {
        let link = Text::Borrowed("none");
        At { axes, link }
    }
}

impl<P: TypedPoint> From<&At<P>> for Point {
    fn from(point: &At<P>) -> Point {
        Point {
            probe: Text::Borrowed(P::PROBE),
            axes: point.axes.write(),
            link: point.link.clone(),
        }
    }
}

/// The type of a field: the values that an axis may have.
pub trait AxisType: Sized {
    /// The value as this type; `None` if it is not one.
    fn from_value(value: &AxisValue) -> Option<Self>;

    /// The value as in a file.
    fn to_value(&self) -> AxisValue;
}

/// Words that an axis may have: an enum that [`words!`](crate::words!) declares.
pub trait Words: AxisType + Copy + 'static {
    /// All of them, the default first.
    const ALL: &'static [Self];

    /// The word and its meaning.
    fn choice(self) -> Choice;

    /// The word.
    fn word(self) -> &'static str;
}

/// The domain of an axis of this type.
pub struct AxisOf<T> {
    about: &'static str,
    domain: Domain,
    of: PhantomData<T>,
}

impl<T> AxisOf<T> {
    /// Sets the one sentence that says what the axis varies, if several probes share the axis.
    #[must_use]
    pub fn about(self, about: &'static str) -> AxisOf<T> {
        AxisOf { about, ..self }
    }

    /// The axis called `name`; `doc` says what it varies, unless [`AxisOf::about`] was called.
    pub fn into_axis(self, name: &'static str, doc: &'static str) -> Axis {
        Axis {
            name: Text::Borrowed(name),
            about: Text::Borrowed(if self.about.is_empty() {
                doc.trim_ascii()
            } else {
                self.about
            }),
            domain: self.domain,
        }
    }

    fn new(domain: Domain) -> AxisOf<T> {
        AxisOf { about: "", domain, of: PhantomData }
    }
}

/// The name of the axis of a field, whose name may be a keyword of Rust: `r#where`.
pub const fn axis_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// The names of axes without some of them, as an array with the remaining ones.
///
/// # Panics
/// At compile time, if a name to leave out is not that of an axis.
pub const fn names_without<const LEFT: usize>(
    names: &[&'static str],
    without: &[&str],
) -> [&'static str; LEFT] {
    let mut left = [""; LEFT];
    let (mut at, mut kept) = (0, 0);
    while at < names.len() {
        if !contains(without, names[at]) {
            left[kept] = names[at];
            kept += 1;
        }
        at += 1;
    }
    assert!(kept == LEFT, "an axis to leave out does not exist");
    left
}

/// Whether one of the names is `name`; works at compile time too.
pub const fn contains(names: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < names.len() {
        if is_same(names[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// All words of a type, the first one as the default.
pub fn words<T: Words>() -> AxisOf<T> {
    words_of(T::ALL)
}

/// Some words of a type, in another order.
pub fn words_of<T: Words>(words: &[T]) -> AxisOf<T> {
    let choices = words.iter().map(|word| word.choice());
    AxisOf::new(Domain::Choice(List::Owned(choices.collect())))
}

/// A count within bounds. A run takes the values of `defaults`; the first is the axis's own
/// default.
pub fn count<T>(bounds: RangeInclusive<u64>, defaults: &[u64]) -> AxisOf<T> {
    number(Unit::One, bounds, defaults)
}

/// Bytes within bounds, as [`count`].
pub fn bytes<T>(bounds: RangeInclusive<u64>, defaults: &[u64]) -> AxisOf<T> {
    number(Unit::Bytes, bounds, defaults)
}

/// Nanoseconds within bounds, as [`count`].
pub fn nanoseconds<T>(bounds: RangeInclusive<u64>, defaults: &[u64]) -> AxisOf<T> {
    number(Unit::Nanoseconds, bounds, defaults)
}

/// Numbers of CPUs, as [`count`].
pub fn processor<T>(bounds: RangeInclusive<u64>, defaults: &[u64]) -> AxisOf<T> {
    number(Unit::Processor, bounds, defaults)
}

fn number<T>(unit: Unit, bounds: RangeInclusive<u64>, defaults: &[u64]) -> AxisOf<T> {
    AxisOf::new(Domain::Number {
        unit,
        low: *bounds.start(),
        high: *bounds.end(),
        defaults: List::Owned(defaults.to_vec()),
    })
}

/// A path, a URL with one of `schemes`, or one of these words, each with its meaning.
pub fn place(words: &[(&'static str, &'static str)], schemes: &'static [Text]) -> AxisOf<Text> {
    let choice = |(value, about): &(&'static str, &'static str)| Choice {
        value: Text::Borrowed(value),
        about: Text::Borrowed(about),
    };
    AxisOf::new(Domain::Place {
        words: words.iter().map(choice).collect(),
        schemes: List::Borrowed(schemes),
    })
}

impl AxisType for u64 {
    fn from_value(value: &AxisValue) -> Option<u64> {
        value.as_number()
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Number(*self)
    }
}

impl AxisType for usize {
    fn from_value(value: &AxisValue) -> Option<usize> {
        u64::from_value(value).map(|number| number as usize)
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Number(*self as u64)
    }
}

impl AxisType for Text {
    fn from_value(value: &AxisValue) -> Option<Text> {
        match value {
            AxisValue::Word(word) => Some(word.clone()),
            AxisValue::Number(_) => None,
        }
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Word(self.clone())
    }
}

/// Declares the words of axes as enums; the documentation of each is what `list` and `explain` show.
/// The first is the default. `enum Word => Other` converts each word into the variant of the same name of
/// `Other`.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident => $other:ty {
            $($(#[doc = $about:literal])+ $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $crate::words! {
            $(#[$meta])*
            $visibility enum $name {
                $($(#[doc = $about])+ $variant = $word),+
            }
        }

        impl From<$name> for $other {
            fn from(word: $name) -> $other {
                match word {
                    $($name::$variant => <$other>::$variant),+
                }
            }
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[doc = $about:literal])+ $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {
            $($(#[doc = $about])+ $variant),+
        }

        impl $crate::typed::Words for $name {
            const ALL: &'static [$name] = &[$($name::$variant),+];

            fn choice(self) -> $crate::axis::Choice {
                $crate::axis::Choice {
                    value: $crate::Text::Borrowed(self.word()),
                    about: $crate::Text::Borrowed(match self {
                        $($name::$variant => concat!($($about),+).trim_ascii()),+
                    }),
                }
            }

            fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }

        impl $crate::typed::AxisType for $name {
            fn from_value(value: &$crate::axis::AxisValue) -> Option<$name> {
                match value {
                    $crate::axis::AxisValue::Word(word) => match &**word {
                        $($word => Some($name::$variant),)+
                        _ => None,
                    },
                    $crate::axis::AxisValue::Number(_) => None,
                }
            }

            fn to_value(&self) -> $crate::axis::AxisValue {
                $crate::axis::AxisValue::from($crate::typed::Words::word(*self))
            }
        }
    };
    (
        $(#[$meta:meta])* $visibility:vis enum $name:ident $(=> $other:ty)? { $($words:tt)+ }
        $($more:tt)+
    ) => {
        $crate::words! { $(#[$meta])* $visibility enum $name $(=> $other)? { $($words)+ } }
        $crate::words! { $($more)+ }
    };
}

/// Declares a probe and its point. The doc comment is what `explain` shows of the probe: its question, how it
/// is measured, and the sections that `costof_measure::probe::Measure` names. A field for each axis follows: its
/// doc comment says what it varies, and its value what may stand there.
#[macro_export]
macro_rules! point {
    (
        $(#[doc = $doc:literal])+
        $visibility:vis struct $name:ident of $probe:literal {
            $($(#[doc = $about:literal])* $field:ident: $type:ty = $axis:expr),* $(,)?
        }
    ) => {
        #[doc = concat!("A point of `", $probe, "`.")]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name {
            $($(#[doc = $about])* pub(crate) $field: $type),*
        }

        impl $crate::typed::TypedPoint for $name {
            const PROBE: &'static str = $probe;
            const DOC: &'static [&'static str] = &[$($doc),+];
            const AXES: &'static [&'static str] =
                &[$($crate::typed::axis_name(stringify!($field))),*];

            fn axes() -> &'static [$crate::axis::Axis] {
                static AXES: std::sync::LazyLock<Vec<$crate::axis::Axis>> =
                    std::sync::LazyLock::new(|| {
                        vec![$({
                            let axis: $crate::typed::AxisOf<$type> = $axis;
                            axis.into_axis(
                                $crate::typed::axis_name(stringify!($field)),
                                concat!($($about),*),
                            )
                        }),*]
                    });
                &AXES
            }

            fn read(axes: &$crate::axis::Axes) -> Option<$name> {
                let _ = axes;
                Some($name {
                    $($field: $crate::typed::AxisType::from_value(
                        axes.0.get($crate::typed::axis_name(stringify!($field)))?,
                    )?),*
                })
            }

            fn write(&self) -> $crate::axis::Axes {
                static DEFAULTS: std::sync::LazyLock<$crate::axis::Axes> =
                    std::sync::LazyLock::new(|| {
                        $crate::axis::Axes::defaults(<$name as $crate::typed::TypedPoint>::axes())
                    });
                #[allow(unused_mut, reason = "a probe may have no axis")]
                let mut axes = DEFAULTS.clone();
                $(axes.0.insert(
                    $crate::Text::Borrowed($crate::typed::axis_name(stringify!($field))),
                    $crate::typed::AxisType::to_value(&self.$field),
                );)*
                axes
            }
        }

        impl Default for $name {
            fn default() -> $name {
                let axes = <$name as $crate::typed::TypedPoint>::axes();
                let axes = $crate::axis::Axes::defaults(axes);
                <$name as $crate::typed::TypedPoint>::read(&axes).expect("a default for each axis")
            }
        }

        impl From<$name> for $crate::axis::Axes {
            fn from(point: $name) -> $crate::axis::Axes {
                $crate::typed::TypedPoint::write(&point)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        /// A colour.
        enum Colour {
            /// as blood
            Red = "red",
            /// as
            /// grass
            Green = "green",
            /// as the sky, in none of the axes below
            Blue = "blue",
        }
    }

    point! {
        /// What does a test cost?
        struct Sample of "test.point" {
            /// the colour
            r#type: Colour = words_of(&[Colour::Green, Colour::Red]),
            size: usize = bytes(1..=64, &[8, 64]).about("how long"),
        }
    }

    #[test]
    fn a_point_is_read_as_it_was_written() {
        let sample = Sample { r#type: Colour::Red, size: 64 };
        assert_eq!(Sample::DOC, [" What does a test cost?"]);
        assert_eq!(sample.write().to_string(), "size=64 type=red");
        assert_eq!(Sample::read(&sample.write()), Some(sample));
    }

    #[test]
    fn defaults_are_the_first_values_of_the_axes() {
        let default = Sample::default();
        assert_eq!((default.r#type, default.size), (Colour::Green, 8));
        let axes = Sample::axes();
        let names: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
        assert_eq!(names, ["type", "size"]);
        let about: Vec<&str> = axes.iter().map(|axis| &*axis.about).collect();
        assert_eq!(about, ["the colour", "how long"]);
        assert_eq!(axes[0].defaults(), ["green".into(), "red".into()]);
        let Domain::Choice(choices) = &axes[0].domain else { panic!("{:?}", axes[0]) };
        assert_eq!(choices[0].about, "as grass");
    }

    #[test]
    fn what_is_no_point_is_not_read() {
        let good = Sample::default().write();
        let mut less = good.clone();
        less.0.remove("size");
        for wrong in [
            less,
            good.clone().with("type", "violet"),
            good.clone().with("type", 3),
            good.clone().with("size", "long"),
        ] {
            assert_eq!(Sample::read(&wrong), None, "{wrong}");
        }
        // A word of the type, but not of this probe's axis.
        let at = |axes| Point { probe: "test.point".into(), axes, link: "none".into() };
        assert_eq!(At::<Sample>::read(&at(good.clone().with("type", "blue"))), None);
        assert_eq!(At::<Sample>::read(&at(good.clone().with("newer", 1))), None);
        assert!(At::<Sample>::read(&at(good)).is_some());
    }
}
