//! The calls as messages of their own: for what does not wait for an answer, and for marshalling
//! alone. It is what the generated client does, method by method, and stands here because the
//! arguments of a method are private to the generated code.

#![warn(dead_code, unreachable_pub, unused_imports, clippy::all, clippy::unwrap_used)]

use super::*;
use crate::Payload;
use crate::payload::Value;

/// The echoing methods: each with the kind of its value, its arguments and its result.
macro_rules! methods {
    ($($kind:ident($value:ty): $method:literal, $args:ident, $result:ident;)*) => {
        /// A value of any of them.
        #[derive(Clone, Debug, PartialEq)]
        pub(in crate::thrift) enum Message {
            $($kind($value),)*
        }

        #[derive(Debug)]
        enum Args {
            $($kind($args),)*
        }

        impl From<Message> for Call {
            fn from(message: Message) -> Self {
                Self(match message {
                    $(Message::$kind(value) => Args::$kind($args { value }),)*
                })
            }
        }

        impl From<Call> for Message {
            fn from(call: Call) -> Self {
                match call.0 {
                    $(Args::$kind(args) => Self::$kind(args.value),)*
                }
            }
        }

        impl Args {
            fn method(&self) -> &'static str {
                match self {
                    $(Self::$kind(_) => $method,)*
                }
            }

            fn write(&self, o: &mut dyn TOutputProtocol) -> thrift::Result<()> {
                match self {
                    $(Self::$kind(args) => args.write_to_out_protocol(o),)*
                }
            }

            /// Reads arguments of the same method.
            fn read_like(&self, i: &mut dyn TInputProtocol) -> thrift::Result<Self> {
                match self {
                    $(Self::$kind(_) => $args::read_from_in_protocol(i).map(Self::$kind),)*
                }
            }

            /// Reads the result of the same method, which may be an exception.
            fn read_result(
                &self,
                i: &mut dyn TInputProtocol,
            ) -> thrift::Result<thrift::Result<Message>> {
                match self {
                    $(Self::$kind(_) => {
                        let result = $result::read_from_in_protocol(i)?;
                        Ok(result.ok_or().map(Message::$kind))
                    })*
                }
            }
        }
    };
}

methods! {
    Int(i32): "echo_int", EchoEchoIntArgs, EchoEchoIntResult;
    Double(OrderedFloat<f64>): "echo_double", EchoEchoDoubleArgs, EchoEchoDoubleResult;
    String(String): "echo_string", EchoEchoStringArgs, EchoEchoStringResult;
    Structure(Structure): "echo_structure", EchoEchoStructureArgs, EchoEchoStructureResult;
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

/// A call with its arguments.
#[derive(Debug)]
pub(in crate::thrift) struct Call(Args);

impl Call {
    /// Writes it as a message with this number.
    pub(in crate::thrift) fn write(
        &self,
        number: i32,
        o: &mut dyn TOutputProtocol,
    ) -> thrift::Result<()> {
        let begins = TMessageIdentifier::new(self.0.method(), TMessageType::Call, number);
        o.write_message_begin(&begins)?;
        self.0.write(o)?;
        o.write_message_end()?;
        o.flush()
    }

    /// Reads a call of the same method, whose arguments may differ.
    pub(in crate::thrift) fn read_like(&self, i: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        let begins = i.read_message_begin()?;
        verify_expected_service_call(self.0.method(), &begins.name)?;
        let args = self.0.read_like(i)?;
        i.read_message_end()?;
        Ok(Self(args))
    }

    /// Reads the answer to it, which has this number.
    pub(in crate::thrift) fn read_answer(
        &self,
        number: i32,
        i: &mut dyn TInputProtocol,
    ) -> thrift::Result<Message> {
        answer_begins(self.0.method(), number, i)?;
        let answer = self.0.read_result(i)?;
        i.read_message_end()?;
        answer
    }
}

impl Chunk {
    pub(in crate::thrift) fn new(data: Vec<u8>) -> Self {
        Self(EchoChunkArgs { data })
    }

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

/// Ends a stream, and returns what has arrived. The server answers with its error for a chunk, if there
/// was one: the generated client would reject its number.
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
