//! One thing that each stack has its own of.

#[derive(Debug)]
pub(crate) enum ByStack<G, T> {
    Grpc(G),
    Thrift(T),
}

/// Does the same with what either stack has.
macro_rules! either {
    ($by_stack:expr, $inner:ident => $call:expr) => {
        match $by_stack {
            $crate::by_stack::ByStack::Grpc($inner) => $call,
            $crate::by_stack::ByStack::Thrift($inner) => $call,
        }
    };
}
pub(crate) use either;
