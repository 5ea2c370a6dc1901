//! The calls as messages of their own: for what does not wait for an answer, and for marshalling
//! alone. It is what the generated client does, method by method, and stands here because the
//! arguments of a method are private to the generated code.

#![warn(dead_code, unreachable_pub, unused_imports, clippy::all, clippy::unwrap_used)]

use super::*;
use crate::Payload;
use crate::payload::Value;

/// The echoing methods: each with the kind of its value, its arguments and its result.
macro_rules! methods {
    ($($kind:ident($value:ty): $method:literal, $args:ident;)*) => {
        /// A value of any of them.
        #[derive(Clone, Debug, PartialEq)]
        pub(in crate::thrift) enum Message {
            $($kind($value),)*
        }

        #[derive(Debug, PartialEq)]
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
        }
    };
}

methods! {
    Int(i32): "echo_int", EchoEchoIntArgs;
    Double(OrderedFloat<f64>): "echo_double", EchoEchoDoubleArgs;
    String(String): "echo_string", EchoEchoStringArgs;
    Structure(Structure): "echo_structure", EchoEchoStructureArgs;
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
#[derive(Debug, PartialEq)]
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
