//! What a command does and what that costs: counting it, and prices for what was counted.

pub mod count;
pub mod price;
pub mod stretch;
pub mod times;
pub mod way_back;
