//! What the fuzz target of facts does.

use super::machine::{MACHINES, Machine};
use costof_model::Facts;

/// A machine, and its files as they were.
type Known = (Machine, Vec<(String, Vec<u8>)>);

thread_local! {
    static KNOWN: Vec<Known> = MACHINES.map(|(_, description)| {
        let mut machine = Machine::new();
        machine.describe(description);
        machine.file("/sys/firmware/dmi/tables/DMI", b"");
        machine.file("/proc/config.gz", b"");
        let files = machine.files();
        (machine, files)
    }).into();
}

/// The facts of a machine, of which some files have other contents: the first byte is the machine's
/// number; parts that a record separator divides each begin with the number of a file.
pub fn facts(bytes: &[u8]) -> Facts {
    KNOWN.with(|known| {
        let (which, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let (machine, files) = &known[usize::from(*which) % known.len()];
        let parts = rest.split(|byte| *byte == b'\x1e');
        let changed = parts.filter_map(<[u8]>::split_first).take(files.len());
        let of = |number: &u8| &files[usize::from(*number) % files.len()];
        let changed: Vec<_> = changed.map(|(number, text)| (of(number), text)).collect();
        for ((path, _), text) in &changed {
            machine.write(path, text);
        }
        let facts = machine.facts();
        for ((path, before), _) in &changed {
            machine.write(path, before);
        }
        facts
    })
}
