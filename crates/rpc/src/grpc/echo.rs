//! The calls that carry a payload, and their messages.

use super::wire::echo_client::EchoClient;
use super::wire::{DoubleMessage, IntMessage, Position, StringMessage, Structure};
use crate::Payload;
use crate::payload::Value;
use tonic::Status;

/// A message of any echoing method.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    Int(IntMessage),
    Double(DoubleMessage),
    String(StringMessage),
    Structure(Structure),
}

macro_rules! each {
    ($message:expr, $inner:ident => $do:expr) => {
        match $message {
            Message::Int($inner) => $do,
            Message::Double($inner) => $do,
            Message::String($inner) => $do,
            Message::Structure($inner) => $do,
        }
    };
}
pub(super) use each;

impl From<&Payload> for Message {
    fn from(payload: &Payload) -> Self {
        match payload.value() {
            &Value::Int(value) => Self::Int(IntMessage { value }),
            &Value::Double(value) => Self::Double(DoubleMessage { value }),
            Value::String(value) => Self::String(StringMessage { value: value.clone() }),
            Value::Structure(value) => Self::Structure(Structure {
                id: value.id,
                name: value.name.clone(),
                price: value.price,
                sold: value.sold,
                at: Some(Position { x: value.at.0, y: value.at.1 }),
                numbers: value.numbers.clone(),
                notes: value.notes.clone(),
                labels: value.labels.clone(),
            }),
        }
    }
}

/// Sends a message by the method of its kind, and returns the answer.
pub(super) async fn echo(
    client: &mut EchoClient<super::channel::Channel>,
    message: Message,
) -> Result<Message, Status> {
    macro_rules! call {
        ($kind:ident, $method:ident, $message:ident) => {{
            let answer = client.$method($message).await?;
            Message::$kind(answer.into_inner())
        }};
    }
    Ok(match message {
        Message::Int(message) => call!(Int, echo_int, message),
        Message::Double(message) => call!(Double, echo_double, message),
        Message::String(message) => call!(String, echo_string, message),
        Message::Structure(message) => call!(Structure, echo_structure, message),
    })
}
