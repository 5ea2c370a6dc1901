//! The meter and the estimate in virtual time: operations that take as long as
//! a test says, on a clock that moves only when they do.

mod clock;
mod meter;
mod neighbour;
mod roles;
