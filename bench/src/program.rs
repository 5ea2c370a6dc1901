//! Programs that the bench builds: what each is built from, and how.
//!
//! They are built beside this program, in `target/costof-bench/programs/NAME/`, and again only where their
//! sources or commands have changed.

use crate::bench::Bench;
use crate::child;
use crate::error::{Error, OrCannot, Result, failed};
use costof_peers::packages;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Go fetches its modules before it builds them.
const BUILD_LIMIT: Duration = Duration::from_secs(600);
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// The name of each program in its folder.
const PROGRAM: &str = "peer";
/// All that it was built from, written when that is done.
const BUILT_FROM: &str = "built-from";

const PROTO: (&str, &str) = ("echo.proto", include_str!("../../crates/rpc/idl/echo.proto"));
const HEADER: (&str, &str) = ("peer.hpp", include_str!("rpc/peers/peer.hpp"));
/// What the C programs of this bench have in common.
const C_HEADER: (&str, &str) = ("peer.h", costof_peers::c::HEADER);

/// A program that is built here.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// What has to be installed.
    requires: &'static str,
    /// Names of files and their contents.
    files: Vec<(&'static str, &'static str)>,
    /// Commands, one after the other, in its folder.
    steps: Vec<String>,
}

/// gRPC's echo in Go. The interfaces of this and of the next two are those of `crates/rpc/idl`.
pub(crate) fn grpc_go() -> Program {
    Program {
        name: "grpc-go",
        requires: "protobuf-compiler, and Go 1.26 or newer from https://go.dev/dl, which fetches the \
                   modules once",
        files: vec![
            PROTO,
            ("main.go", include_str!("rpc/peers/main.go")),
            ("go.mod", include_str!("rpc/peers/go.mod")),
            ("go.sum", include_str!("rpc/peers/go.sum")),
        ],
        steps: steps(&[
            "go build -o protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go",
            "go build -o protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc",
            "protoc --plugin=protoc-gen-go --plugin=protoc-gen-go-grpc --go_out=. --go-grpc_out=. \
             --go_opt=module=costof.invalid/peer,Mecho.proto=costof.invalid/peer/echo \
             --go-grpc_opt=module=costof.invalid/peer,Mecho.proto=costof.invalid/peer/echo echo.proto",
            "go build -o peer .",
        ]),
    }
}

pub(crate) fn grpc_cpp() -> Program {
    Program {
        name: "grpc-c++",
        requires: "g++, libgrpc++-dev, libprotobuf-dev, protobuf-compiler and protobuf-compiler-grpc",
        files: vec![PROTO, HEADER, ("grpc.cpp", include_str!("rpc/peers/grpc.cpp"))],
        steps: steps(&[
            "protoc --cpp_out=. echo.proto",
            "protoc --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=. echo.proto",
            "g++ -std=c++17 -O3 -DNDEBUG -o peer grpc.cpp echo.pb.cc echo.grpc.pb.cc \
             -lgrpc++ -lgrpc -lgpr -lprotobuf -labsl_synchronization -pthread",
        ]),
    }
}

pub(crate) fn thrift_cpp() -> Program {
    let idl = include_str!("../../crates/rpc/idl/echo.thrift");
    Program {
        name: "thrift-c++",
        requires: "g++, libthrift-dev, libboost-dev and thrift-compiler",
        files: vec![
            ("echo.thrift", idl),
            HEADER,
            ("thrift.cpp", include_str!("rpc/peers/thrift.cpp")),
        ],
        steps: steps(&[
            "thrift -out . --gen cpp:templates,no_skeleton echo.thrift",
            "g++ -std=c++17 -O3 -DNDEBUG -o peer thrift.cpp Echo.cpp echo_types.cpp -lthrift -pthread",
        ]),
    }
}

/// The analysis of cargo-bench-history, which Cargo fetches once.
pub(crate) fn cargo_bench_history() -> Program {
    Program {
        name: "cargo-bench-history",
        requires: "cargo, which fetches the crates once",
        files: vec![
            ("Cargo.toml", include_str!("../history/Cargo.toml")),
            ("Cargo.lock", include_str!("../history/Cargo.lock")),
            ("main.rs", include_str!("../history/main.rs")),
        ],
        steps: steps(&[
            "cargo build --release --quiet --locked --target-dir built",
            "cp built/release/peer peer",
        ]),
    }
}

/// A program in C of the bench's own: its one source file, which may include `peer.h`.
pub(crate) fn in_c(name: &'static str, source: &'static str) -> Program {
    let step = format!("cc -O2 -fno-plt -Wall -Werror -pthread -o peer {name}");
    Program { name, requires: "gcc", files: vec![C_HEADER, (name, source)], steps: vec![step] }
}

fn steps(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|step| (*step).to_owned()).collect()
}

impl Program {
    /// The program, built where it is missing or older than its sources.
    ///
    /// Errors: what is missing, with the packages that have it.
    pub(crate) fn build(&self, bench: &Bench) -> Result<PathBuf> {
        let folder = bench.lasting_folder("programs").join(self.name);
        let (program, stamp) = (folder.join(PROGRAM), folder.join(BUILT_FROM));
        let sources = self.sources();
        if program.is_file() && fs::read_to_string(&stamp).is_ok_and(|was| was == sources) {
            return Ok(program);
        }
        fs::create_dir_all(&folder).or_cannot(format_args!("make {}", folder.display()))?;
        for (file, text) in &self.files {
            write(&folder.join(file), text)?;
        }
        for step in &self.steps {
            let mut words = step.split_whitespace();
            let mut command = Command::new(installed(words.next().unwrap_or_default()));
            command.args(words).current_dir(&folder);
            child::finish(&mut command, BUILD_LIMIT, &bench.interrupt)
                .map_err(|error| self.with_requirements(error))?;
        }
        write(&stamp, &sources)?;
        Ok(program)
    }

    /// The stack and its version, as the built program prints them.
    pub(crate) fn version(&self, bench: &Bench) -> Result<String> {
        let mut command = Command::new(self.build(bench)?);
        let finished = child::finish(command.arg("version"), VERSION_LIMIT, &bench.interrupt)?;
        Ok(finished.output.trim().to_owned())
    }

    /// All that it is built from, as one text.
    fn sources(&self) -> String {
        let files = self.files.iter().map(|(file, text)| format!("{file}\n{text}\n"));
        let steps = self.steps.iter().map(|step| format!("{step}\n"));
        files.chain(steps).collect()
    }

    fn with_requirements(&self, error: Error) -> Error {
        match error {
            Error::Failed(why) => failed(format!("{why} (it requires {})", self.requires)),
            interrupted @ Error::Interrupted => interrupted,
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).or_cannot(format_args!("write {}", path.display()))
}

/// Go's own archive installs it outside the search path.
fn installed(program: &str) -> PathBuf {
    let usual = Path::new("/usr/local/go/bin").join(program);
    if program == "go" && packages::find(program).is_none() && usual.is_file() {
        usual
    } else {
        PathBuf::from(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_packages() {
        for program in [grpc_go(), grpc_cpp(), thrift_cpp()] {
            let error = program.with_requirements(failed("there is no g++ here"));
            let text = error.to_string();
            assert!(text.starts_with("there is no g++ here (it requires "));
            assert!(text.contains("compiler"));
            let interrupted = program.with_requirements(Error::Interrupted);
            assert!(matches!(interrupted, Error::Interrupted));
        }
    }

    #[test]
    fn a_program_is_rebuilt_when_a_file_or_a_step_changes() {
        for program in [grpc_go(), grpc_cpp(), thrift_cpp(), in_c("a.c", "text")] {
            let sources = program.sources();
            for (file, text) in &program.files {
                assert!(!text.is_empty() && sources.contains(file));
            }
            let last = program.steps.last().unwrap();
            assert!(last.contains(" -o peer ") && sources.contains(last.as_str()));
        }
    }
}
