//! The calls as messages of their own: for what does not wait for an answer, and for marshalling
//! alone. It is what the generated client does, method by method, and stands here because the
//! arguments of a method are private to the generated code.

#![warn(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::all,
    clippy::unwrap_used
)]

use super::*;
use crate::Payload;
use crate::payload::Value;

/// A value of any of the methods that echo.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::thrift) enum Message {
    Int(i32),
    Double(OrderedFloat<f64>),
    String(String),
    Structure(Structure),
}

/// A call with its arguments.
#[derive(Debug)]
pub(in crate::thrift) struct Call(Args);

#[derive(Debug)]
enum Args {
    Int(EchoEchoIntArgs),
    Double(EchoEchoDoubleArgs),
    String(EchoEchoStringArgs),
    Structure(EchoEchoStructureArgs),
}

/// A chunk of a stream, which is a call without an answer.
#[derive(Debug)]
pub(in crate::thrift) struct Chunk(EchoChunkArgs);

impl From<&Payload> for Message {
    fn from(payload: &Payload) -> Self {
        match payload.value() {
            &Value::Int(value) => Self::Int(value),
            &Value::Double(value) => Self::Double(value.into()),
            Value::String(value) => Self::String(value.clone()),
            Value::Structure(value) => Self::Structure(Structure {
                id: value.id,
                name: value.name.clone(),
                price: value.price.into(),
                sold: value.sold,
                at: Position::new(value.at.0.into(), value.at.1.into()),
                numbers: value.numbers.clone(),
                notes: value.notes.clone(),
                labels: value.labels.clone(),
            }),
        }
    }
}

impl From<Message> for Call {
    fn from(message: Message) -> Self {
        Self(match message {
            Message::Int(value) => Args::Int(EchoEchoIntArgs { value }),
            Message::Double(value) => Args::Double(EchoEchoDoubleArgs { value }),
            Message::String(value) => Args::String(EchoEchoStringArgs { value }),
            Message::Structure(value) => Args::Structure(EchoEchoStructureArgs { value }),
        })
    }
}

/// Does the same with the arguments of each method.
macro_rules! each {
    ($call:expr, $args:ident => $do:expr) => {
        match $call {
            Args::Int($args) => $do,
            Args::Double($args) => $do,
            Args::String($args) => $do,
            Args::Structure($args) => $do,
        }
    };
}

impl Call {
    /// The method that it calls.
    pub(in crate::thrift) fn method(&self) -> &'static str {
        match &self.0 {
            Args::Int(_) => "echo_int",
            Args::Double(_) => "echo_double",
            Args::String(_) => "echo_string",
            Args::Structure(_) => "echo_structure",
        }
    }

    /// Writes it as a message with this number.
    pub(in crate::thrift) fn write(
        &self,
        number: i32,
        o: &mut dyn TOutputProtocol,
    ) -> thrift::Result<()> {
        let begins = TMessageIdentifier::new(self.method(), TMessageType::Call, number);
        o.write_message_begin(&begins)?;
        each!(&self.0, args => args.write_to_out_protocol(o))?;
        o.write_message_end()?;
        o.flush()
    }

    /// Reads a message that calls the same method: the same arguments, perhaps.
    pub(in crate::thrift) fn read_like(&self, i: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let begins = i.read_message_begin()?;
        verify_expected_service_call(self.method(), &begins.name)?;
        let call = match &self.0 {
            Args::Int(_) => Args::Int(EchoEchoIntArgs::read_from_in_protocol(i)?),
            Args::Double(_) => Args::Double(EchoEchoDoubleArgs::read_from_in_protocol(i)?),
            Args::String(_) => Args::String(EchoEchoStringArgs::read_from_in_protocol(i)?),
            Args::Structure(_) => Args::Structure(EchoEchoStructureArgs::read_from_in_protocol(i)?),
        };
        i.read_message_end()?;
        Ok(Self(call))
    }

    /// Reads the answer to it, which has this number.
    pub(in crate::thrift) fn read_answer(
        &self,
        number: i32,
        i: &mut dyn TInputProtocol,
    ) -> thrift::Result<Message> {
        answer_begins(self.method(), number, i)?;
        let answer = match &self.0 {
            Args::Int(_) => EchoEchoIntResult::read_from_in_protocol(i)?
                .ok_or()
                .map(Message::Int),
            Args::Double(_) => EchoEchoDoubleResult::read_from_in_protocol(i)?
                .ok_or()
                .map(Message::Double),
            Args::String(_) => EchoEchoStringResult::read_from_in_protocol(i)?
                .ok_or()
                .map(Message::String),
            Args::Structure(_) => {
                let result = EchoEchoStructureResult::read_from_in_protocol(i)?;
                result.ok_or().map(Message::Structure)
            }
        };
        i.read_message_end()?;
        answer
    }

    /// Whether it has the same arguments.
    pub(in crate::thrift) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Args::Int(one), Args::Int(other)) => one.value == other.value,
            (Args::Double(one), Args::Double(other)) => one.value == other.value,
            (Args::String(one), Args::String(other)) => one.value == other.value,
            (Args::Structure(one), Args::Structure(other)) => one.value == other.value,
            _ => false,
        }
    }
}

impl Chunk {
    pub(in crate::thrift) fn new(data: Vec<u8>) -> Self {
        Self(EchoChunkArgs { data })
    }

    /// Sends it.
    pub(in crate::thrift) fn write(
        &self,
        number: i32,
        o: &mut dyn TOutputProtocol,
    ) -> thrift::Result<()> {
        let begins = TMessageIdentifier::new("chunk", TMessageType::OneWay, number);
        o.write_message_begin(&begins)?;
        self.0.write_to_out_protocol(o)?;
        o.write_message_end()?;
        o.flush()
    }
}

/// Ends a stream, and asks what has arrived. What the server had to say of a chunk is said now: the
/// generated client would complain of its number.
pub(in crate::thrift) fn finish(client: &mut dyn TThriftClient) -> thrift::Result<Summary> {
    let number = client.increment_sequence_number();
    let begins = TMessageIdentifier::new("finish", TMessageType::Call, number);
    let o = client.o_prot_mut();
    o.write_message_begin(&begins)?;
    EchoFinishArgs {}.write_to_out_protocol(o)?;
    o.write_message_end()?;
    o.flush()?;
    let i = client.i_prot_mut();
    answer_begins("finish", number, i)?;
    let summary = EchoFinishResult::read_from_in_protocol(i)?.ok_or();
    i.read_message_end()?;
    summary
}

/// Reads the beginning of an answer.
fn answer_begins(method: &str, number: i32, i: &mut dyn TInputProtocol) -> thrift::Result<()> {
    let begins = i.read_message_begin()?;
    if begins.message_type == TMessageType::Exception {
        let error = thrift::Error::read_application_error_from_in_protocol(i)?;
        i.read_message_end()?;
        return Err(thrift::Error::Application(error));
    }
    verify_expected_sequence_number(number, begins.sequence_number)?;
    verify_expected_service_call(method, &begins.name)?;
    verify_expected_message_type(TMessageType::Reply, begins.message_type)
}
