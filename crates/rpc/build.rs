//! Makes Rust of `idl/echo.proto`, without an installed protoc: protox is one in Rust.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = "idl/echo.proto";
    println!("cargo::rerun-if-changed={proto}");
    tonic_prost_build::configure()
        // In order, so that the same structure is always the same bytes.
        .btree_map(".")
        // A chunk that is sent again and again is not copied for it.
        .bytes(".costof.rpc.Chunk")
        // Channels are made by hand: the connection is there already.
        .build_transport(false)
        .compile_fds(protox::compile([proto], ["idl"])?)?;
    Ok(())
}
