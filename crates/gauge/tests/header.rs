//! The C header decides and reads as the crate does: both are called in turns, in one process.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails where it cannot go on, and says what it leaves out"
)]

use costof_gauge::{Gauge, design_floor, plateau, state};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// How the header is compiled: as what its first lines promise.
const COMPILERS: [(&str, &[&str]); 4] = [
    ("gcc", &["-std=c99"]),
    ("g++", &["-std=c++11", "-x", "c++"]),
    ("clang", &["-std=c99"]),
    ("clang++", &["-std=c++11", "-x", "c++"]),
];

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `examples/c/gauge.c` as a loaded library.
struct Header(*mut c_void);

impl Header {
    /// `None` if there is no such compiler here.
    fn compiled_by(compiler: &str, options: &[&str]) -> Option<Header> {
        let library = compiled(compiler, options, "examples/c/gauge.c", "so")?;
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the path is a C string; 2 is RTLD_NOW.
        let header = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!header.is_null(), "{} does not load", library.display());
        Some(Header(header))
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is loaded and never unloaded, the name is a C string.
        let symbol = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }

    fn set_floor(&self, floor: f64) {
        // SAFETY: the type is that of the function in gauge.c; so below.
        let call: extern "C" fn(f64) =
            unsafe { std::mem::transmute(self.symbol(c"gauge_set_floor")) };
        call(floor);
    }

    /// Core cycles per addition, and ticks per core cycle.
    fn read(&self) -> (f64, f64) {
        // SAFETY: as above.
        let call: extern "C" fn(&mut f64) -> f64 =
            unsafe { std::mem::transmute(self.symbol(c"gauge_read_with_clock")) };
        let mut ticks_per_cycle = 0.0;
        (call(&mut ticks_per_cycle), ticks_per_cycle)
    }

    fn this_design(&self) -> f64 {
        // SAFETY: as above.
        let call: extern "C" fn() -> f64 =
            unsafe { std::mem::transmute(self.symbol(c"gauge_this_design")) };
        call()
    }

    fn state(&self, before: f64, after: f64) -> c_int {
        // SAFETY: as above.
        let call: extern "C" fn(f64, f64) -> c_int =
            unsafe { std::mem::transmute(self.symbol(c"gauge_state")) };
        call(before, after)
    }

    fn plateau(&self, readings: &mut [f64]) -> f64 {
        // SAFETY: as above; the slice has that many numbers.
        let call: extern "C" fn(*mut f64, usize) -> f64 =
            unsafe { std::mem::transmute(self.symbol(c"gauge_plateau")) };
        call(readings.as_mut_ptr(), readings.len())
    }

    fn lower_floor(&self, readings: &mut [f64]) -> f64 {
        // SAFETY: as above.
        let call: extern "C" fn(*mut f64, usize) -> f64 =
            unsafe { std::mem::transmute(self.symbol(c"gauge_lower_floor")) };
        call(readings.as_mut_ptr(), readings.len())
    }

    fn design_floor(&self, vendor: &str, family: u32, model: u32, has_amx: bool) -> f64 {
        // SAFETY: as above; the vendor is a C string.
        let call: extern "C" fn(*const c_char, c_uint, c_uint, c_int) -> f64 =
            unsafe { std::mem::transmute(self.symbol(c"gauge_design_floor")) };
        let vendor = CString::new(vendor).unwrap();
        call(vendor.as_ptr(), family, model, has_amx.into())
    }
}

/// Compiles a file of this crate with every warning an error. `None` if there is no such compiler.
fn compiled(compiler: &str, options: &[&str], source: &str, extension: &str) -> Option<PathBuf> {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run at the same time, and each has a file of its own.
    static BUILT: AtomicU32 = AtomicU32::new(0);
    let number = BUILT.fetch_add(1, Ordering::Relaxed);
    let built = folder.join(format!("{name}-{compiler}-{number}.{extension}"));
    let shared: &[&str] = match extension {
        "so" => &["-shared", "-fPIC"],
        _ => &[],
    };
    let output = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(shared)
        .args(options)
        .arg(Path::new(CRATE).join(source))
        .arg("-I")
        .arg(Path::new(CRATE).join("include"))
        .arg("-o")
        .arg(&built)
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no {compiler} here");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {source}: {errors}");
    Some(built)
}

#[test]
fn the_header_decides_as_the_crate_does() {
    for (compiler, options) in COMPILERS {
        let Some(header) = Header::compiled_by(compiler, options) else {
            continue;
        };
        for (vendor, families) in
            [("AuthenticAMD", 0..0x20), ("GenuineIntel", 0..0x20), ("ARM", 0..2)]
        {
            for (family, model) in families.flat_map(|f| (0..0x100).map(move |m| (f, m))) {
                for has_amx in [false, true] {
                    let own = design_floor(vendor, family, model, has_amx).unwrap_or(0.0);
                    let others = header.design_floor(vendor, family, model, has_amx);
                    assert_eq!(own, others, "{compiler} {vendor} {family} {model}");
                }
            }
        }
        let grid = (0..200).map(|n| f64::from(n) * 0.01);
        header.set_floor(1.0);
        for (before, after) in grid.clone().flat_map(|a| grid.clone().map(move |b| (a, b))) {
            let own = state(1.0, before, after) as c_int;
            assert_eq!(own, header.state(before, after), "{before} {after}");
        }
        for count in [0, 7, 8, 9, 200, 1000] {
            for alike in [7, 8, 9, 10, 11, 19, 20, 21] {
                // Doubled each time, but for those that agree.
                let value = |n: i32| 2_f64.powi(if n < alike { 3 } else { n - 20 });
                let readings: Vec<f64> = (0..count).map(value).collect();
                let own = plateau(&mut readings.clone()).unwrap_or(0.0);
                assert_eq!(own, header.plateau(&mut readings.clone()), "{count}");
            }
        }
        let mut gauge = Gauge::with_floor(0.5);
        header.set_floor(0.5);
        for readings in [[0.6; 50], [0.4; 50], [0.3; 50], [0.45; 50]] {
            gauge.lower_floor(&mut readings.clone());
            assert_eq!(gauge.floor(), header.lower_floor(&mut readings.clone()));
        }
    }
}

/// Readings in turns have the same neighbour, so they agree on a shared core too.
#[test]
fn the_header_reads_what_the_crate_reads() {
    for (compiler, options) in COMPILERS {
        let Some(header) = Header::compiled_by(compiler, options) else {
            continue;
        };
        let gauge = Gauge::with_floor(1.0);
        header.set_floor(1.0);
        let ratios = || {
            let before = gauge.read_with_clock();
            let (cycles_per_addition, ticks_per_cycle) = header.read();
            let after = gauge.read_with_clock();
            let own = (before.cycles_per_addition + after.cycles_per_addition) / 2.0;
            let clock = (before.ticks_per_cycle + after.ticks_per_cycle) / 2.0;
            [cycles_per_addition / own, ticks_per_cycle / clock]
        };
        let ratios: Vec<[f64; 2]> = (0..4_000).map(|_| ratios()).collect();
        let readings = median(ratios.iter().map(|ratios| ratios[0]));
        let clocks = median(ratios.iter().map(|ratios| ratios[1]));
        println!(
            "{compiler}: {readings:.4} times the crate's readings, {clocks:.4} times its clock"
        );
        for ratio in [readings, clocks] {
            assert!((0.95..=1.05).contains(&ratio), "{compiler}: {ratio}");
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A floor that no core has is replaced by that of the design, if the table has it.
#[test]
fn the_header_finds_the_design_that_the_crate_finds() {
    let Some(header) = Header::compiled_by("gcc", &["-std=c99"]) else {
        return;
    };
    let mut gauge = Gauge::with_floor(f64::INFINITY);
    gauge.lower_floor(&mut []);
    let own = Some(gauge.floor()).filter(|floor| floor.is_finite());
    assert_eq!(own.unwrap_or(0.0), header.this_design());
}

#[test]
fn the_example_in_c_stamps_each_sample() {
    let Some(program) = compiled("gcc", &["-std=c99"], "examples/c/alone.c", "run") else {
        return;
    };
    says_how_it_ran(Command::new(program));
}

/// No number of an emulated core is meant: only that the instructions of aarch64 work.
#[test]
fn the_header_works_on_aarch64() {
    let options = ["-std=c99", "-static"];
    let gcc = "aarch64-linux-gnu-gcc";
    let emulator = "qemu-aarch64-static";
    let Some(program) = compiled(gcc, &options, "examples/c/alone.c", "run") else {
        return;
    };
    if Command::new(emulator).arg("--version").output().is_err() {
        println!("skipped: there is no {emulator} here");
        return;
    }
    let mut command = Command::new(emulator);
    command.arg(program);
    says_how_it_ran(command);
}

fn says_how_it_ran(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    if said.starts_with("this core has no floor") {
        println!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("samples alone "), "{said}");
    assert!(lines[1].starts_with("as it ran: "), "{said}");
    assert!(lines[1].ends_with(" ns a call, 4000 samples"), "{said}");
    assert!(lines[2].starts_with("with the core alone: "), "{said}");
    assert!(lines[3].starts_with("whatever the core's clock was: "), "{said}");
}
