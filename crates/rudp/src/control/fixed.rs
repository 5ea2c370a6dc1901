//! A fixed number of messages under way, whatever the network does. One is
//! stop-and-wait: the rate is then the size of a message divided by the round trip.

#[derive(Debug)]
pub(crate) struct Fixed {
    messages: u64,
}

impl Fixed {
    pub(crate) fn new(messages: u32) -> Fixed {
        Fixed {
            messages: messages.max(1).into(),
        }
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }
}
