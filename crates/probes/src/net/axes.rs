//! The axes of messages between two ends.

use costof_exchange::transport;

costof_model::words! {
    /// How an end waits for a message.
    pub(crate) enum Wait {
        /// blocked in the kernel
        Block = "block",
        /// polling without pause
        Spin = "spin",
    }
}

impl From<Wait> for transport::Wait {
    fn from(wait: Wait) -> transport::Wait {
        match wait {
            Wait::Block => transport::Wait::Block,
            Wait::Spin => transport::Wait::Spin,
        }
    }
}
