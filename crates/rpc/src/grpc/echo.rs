//! The calls that carry a payload, and their messages.

use super::wire::echo_client::EchoClient;
use super::wire::{DoubleMessage, IntMessage, Position, StringMessage, Structure};
use crate::payload::Value;
use crate::{Options, Payload, RpcError};
use prost::Message as _;
use tokio::time::timeout;
use tonic::{Request, Status};

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

impl Message {
    /// The message of this payload, if its size is allowed.
    ///
    /// # Errors
    /// [`RpcError::TooLong`].
    pub(super) fn fitting(payload: &Payload, options: &Options) -> Result<Self, RpcError> {
        let message = Self::from(payload);
        let bytes = each!(&message, message => message.encoded_len());
        options.fits(bytes).map(|()| message)
    }
}

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

/// The result of a call, or an error at its deadline.
pub(super) async fn with_deadline<T>(
    call: impl Future<Output = Result<T, Status>>,
    options: &Options,
) -> Result<T, Status> {
    let Some(deadline) = options.deadline else {
        return call.await;
    };
    let late = |_| Status::deadline_exceeded("no answer arrived in time");
    timeout(deadline, call).await.map_err(late)?
}

/// A request, with its deadline in a header.
pub(super) fn request<M>(message: M, options: &Options) -> Request<M> {
    let mut request = Request::new(message);
    if let Some(deadline) = options.deadline {
        request.set_timeout(deadline);
    }
    request
}

/// Sends a message by the method of its kind, and returns the answer.
pub(super) async fn echo(
    client: &mut EchoClient<super::channel::Channel>,
    message: Message,
    options: &Options,
) -> Result<Message, Status> {
    macro_rules! call {
        ($kind:ident, $method:ident, $message:ident) => {{
            let answer = client.$method(request($message, options)).await?;
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
