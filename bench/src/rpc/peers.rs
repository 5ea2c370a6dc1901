//! Other people's stacks: what each peer is built from, and how. The interfaces are those of
//! `crates/rpc/idl`.
//!
//! They are built beside this program, in `target/costof-bench/rpc/NAME/`, and again only where what
//! they are built from is another.

use crate::bench::Bench;
use crate::child;
use crate::error::{Error, Result, failed};
use costof_peers::packages;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Go fetches its modules before it builds them.
const BUILD_LIMIT: Duration = Duration::from_secs(600);
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// What each is called in its folder.
const PROGRAM: &str = "peer";
/// All that it was built from, written when that is done.
const BUILT_FROM: &str = "built-from";

const PROTO: (&str, &str) = (
    "echo.proto",
    include_str!("../../../crates/rpc/idl/echo.proto"),
);
const HEADER: (&str, &str) = ("peer.hpp", include_str!("peers/peer.hpp"));

/// A stack of other people's.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// What has to be installed.
    takes: &'static str,
    /// Files and what they say.
    files: &'static [(&'static str, &'static str)],
    /// Commands, one after the other, in its folder.
    steps: &'static [&'static str],
}

pub(super) const GRPC_GO: Peer = Peer {
    name: "grpc-go",
    takes: "protobuf-compiler, and Go 1.26 or newer from https://go.dev/dl, which fetches the modules \
            once",
    files: &[
        PROTO,
        ("main.go", include_str!("peers/main.go")),
        ("go.mod", include_str!("peers/go.mod")),
        ("go.sum", include_str!("peers/go.sum")),
    ],
    steps: &[
        "go build -o protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go",
        "go build -o protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc",
        "protoc --plugin=protoc-gen-go --plugin=protoc-gen-go-grpc --go_out=. --go-grpc_out=. \
         --go_opt=module=costof.invalid/peer,Mecho.proto=costof.invalid/peer/echo \
         --go-grpc_opt=module=costof.invalid/peer,Mecho.proto=costof.invalid/peer/echo echo.proto",
        "go build -o peer .",
    ],
};

pub(super) const GRPC_CPP: Peer = Peer {
    name: "grpc-c++",
    takes: "g++, libgrpc++-dev, libprotobuf-dev, protobuf-compiler and protobuf-compiler-grpc",
    files: &[PROTO, HEADER, ("grpc.cpp", include_str!("peers/grpc.cpp"))],
    steps: &[
        "protoc --cpp_out=. echo.proto",
        "protoc --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=. echo.proto",
        "g++ -std=c++17 -O3 -DNDEBUG -o peer grpc.cpp echo.pb.cc echo.grpc.pb.cc \
         -lgrpc++ -lgrpc -lgpr -lprotobuf -labsl_synchronization -pthread",
    ],
};

pub(super) const THRIFT_CPP: Peer = Peer {
    name: "thrift-c++",
    takes: "g++, libthrift-dev, libboost-dev and thrift-compiler",
    files: &[
        (
            "echo.thrift",
            include_str!("../../../crates/rpc/idl/echo.thrift"),
        ),
        HEADER,
        ("thrift.cpp", include_str!("peers/thrift.cpp")),
    ],
    steps: &[
        "thrift -out . --gen cpp:templates,no_skeleton echo.thrift",
        "g++ -std=c++17 -O3 -DNDEBUG -o peer thrift.cpp Echo.cpp echo_types.cpp -lthrift -pthread",
    ],
};

pub(super) const ALL: [&Peer; 3] = [&GRPC_GO, &GRPC_CPP, &THRIFT_CPP];

impl Peer {
    /// Its program, built where it is not there or from something else.
    ///
    /// Errors: what is missing, with the packages that have it.
    pub(super) fn built(&self, bench: &Bench) -> Result<PathBuf> {
        let folder = bench.lasting_folder(&format!("rpc/{}", self.name));
        let (program, stamp) = (folder.join(PROGRAM), folder.join(BUILT_FROM));
        let built_from = self.built_from();
        if program.is_file() && fs::read_to_string(&stamp).is_ok_and(|was| was == built_from) {
            return Ok(program);
        }
        let write = |path: &Path, text: &str| {
            fs::write(path, text)
                .map_err(|error| failed(format!("cannot write {}: {error}", path.display())))
        };
        fs::create_dir_all(&folder)
            .map_err(|error| failed(format!("cannot make {}: {error}", folder.display())))?;
        for (file, text) in self.files {
            write(&folder.join(file), text)?;
        }
        for step in self.steps {
            let mut words = step.split_whitespace();
            let mut command = Command::new(installed(words.next().unwrap_or_default()));
            command.args(words).current_dir(&folder);
            child::finish(&mut command, BUILD_LIMIT, &bench.interrupt)
                .map_err(|error| self.with_what_it_takes(error))?;
        }
        write(&stamp, &built_from)?;
        Ok(program)
    }

    /// The stack and its version, as the built program prints them.
    pub(super) fn version(&self, bench: &Bench) -> Result<String> {
        let mut command = Command::new(self.built(bench)?);
        let finished = child::finish(command.arg("version"), VERSION_LIMIT, &bench.interrupt)?;
        Ok(finished.output.trim().to_owned())
    }

    fn built_from(&self) -> String {
        let files = self
            .files
            .iter()
            .map(|(file, text)| format!("{file}\n{text}\n"));
        let steps = self.steps.iter().map(|step| format!("{step}\n"));
        files.chain(steps).collect()
    }

    fn with_what_it_takes(&self, error: Error) -> Error {
        match error {
            Error::Failed(why) => failed(format!("{why} (it takes {})", self.takes)),
            interrupted => interrupted,
        }
    }
}

/// Go's own archive puts it where no path leads.
fn installed(program: &str) -> PathBuf {
    let usual = Path::new("/usr/local/go/bin").join(program);
    match program {
        "go" if packages::find(program).is_none() && usual.is_file() => usual,
        _ => PathBuf::from(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_packages() {
        for peer in ALL {
            let error = peer.with_what_it_takes(failed("there is no g++ here"));
            let text = error.to_string();
            assert!(
                text.starts_with("there is no g++ here (it takes ") && text.contains("compiler")
            );
            assert!(matches!(
                peer.with_what_it_takes(Error::Interrupted),
                Error::Interrupted
            ));
        }
    }

    #[test]
    fn a_peer_is_what_its_files_and_steps_say() {
        for peer in ALL {
            let text = peer.built_from();
            assert!(
                peer.files
                    .iter()
                    .all(|(file, content)| !content.is_empty() && text.contains(file))
            );
            // The last step makes the program.
            assert!(
                peer.steps
                    .last()
                    .is_some_and(|step| step.contains(" -o peer "))
            );
        }
    }
}
