//! Counters that are added up over seeds.

/// A structure of counters, which knows their names.
macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($counter:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $name {
            $(pub(crate) $counter: u64,)*
        }

        impl $name {
            pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($counter), self.$counter)),*]
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$counter += other.$counter;)*
            }
        }
    };
}
pub(crate) use counters;
