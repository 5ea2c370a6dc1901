//! A value that each stack has in its own type.

#[derive(Debug)]
pub(crate) enum ByStack<G, T> {
    Grpc(G),
    Thrift(T),
}

/// Applies the same expression to either stack's value.
macro_rules! either {
    ($by_stack:expr, $inner:ident => $call:expr) => {
        match $by_stack {
            $crate::by_stack::ByStack::Grpc($inner) => $call,
            $crate::by_stack::ByStack::Thrift($inner) => $call,
        }
    };
}
pub(crate) use either;
