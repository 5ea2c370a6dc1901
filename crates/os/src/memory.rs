//! Memory: how to map, lay out, touch, stream and copy it.

pub mod allocator;
pub mod arena;
pub mod cache_pollution;
pub mod chase;
pub mod copies;
pub mod fields;
pub mod first_touch;
pub mod heap;
pub mod line;
pub mod line_counters;
pub mod mappings;
pub mod message;
pub mod numa;
pub mod page_faults;
pub mod pattern;
pub mod registered_buffer;
pub(crate) mod shared;
pub mod streams;
pub mod touch;
pub mod userfault;
