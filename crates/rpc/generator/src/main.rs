//! Makes Rust of `idl/echo.proto`, in the folder that is named: `crates/rpc/generate` runs it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: costof-rpc-generator FOLDER")?;
    let idl = concat!(env!("CARGO_MANIFEST_DIR"), "/../idl");
    tonic_prost_build::configure()
        .out_dir(folder)
        // In order, so that the same structure is always the same bytes.
        .btree_map(".")
        // A chunk that is sent again and again is not copied for it.
        .bytes(".costof.rpc.Chunk")
        // Channels are made by hand: the connection is there already.
        .build_transport(false)
        .compile_fds(protox::compile(["echo.proto"], [idl])?)?;
    Ok(())
}
