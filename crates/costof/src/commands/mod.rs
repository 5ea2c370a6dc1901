//! The commands, one file each.

pub(crate) mod against;
pub(crate) mod ask;
pub(crate) mod bill;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod estimate;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod help;
pub(crate) mod history;
mod interleave;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod place;
pub(crate) mod qualify;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod send;
mod several;
pub(crate) mod show;
pub(crate) mod study;
pub(crate) mod time;
pub(crate) mod verify;
pub(crate) mod worker;
