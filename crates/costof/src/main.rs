//! `costof`: what does this cost here?

use std::process::ExitCode;

fn main() -> ExitCode {
    costof::main(costof_probes::TABLE)
}
