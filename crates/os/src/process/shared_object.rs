//! Measured: a function of a user's shared object.
//!
//! What it does is the user's: it may crash, hang or end this process, so only a worker loads it. An object is never
//! unloaded, as a thread that it has started may still run.
//!
//! Source: dlopen(3), dlsym(3), dlerror(3).

use std::env;
use std::ffi::{CStr, CString, c_void};
use std::io;
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::ptr::NonNull;

use crate::system_call::{invalid, unsupported};

/// The most arguments that a function gets: as many as both architectures pass in registers.
pub const ARGUMENTS_MAX: usize = 6;

/// A shared object in this process.
#[derive(Debug)]
pub struct SharedObject {
    handle: NonNull<c_void>,
}

/// A C function of a shared object that takes 64-bit numbers and pointers, and returns nothing that counts.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    address: NonNull<c_void>,
}

/// Lets the program that this command starts load allocators later: the variables that each of their threads has are larger
/// than what glibc has room for by default in a process that runs already.
///
/// Source: glibc manual, Dynamic Linking Tunables, `glibc.rtld.optional_static_tls` (glibc 2.33).
pub fn make_room_for_allocators(command: &mut Command) {
    let tunables = match env::var(TUNABLES) {
        Ok(own) if !own.is_empty() => format!("{ROOM}:{own}"),
        _ => ROOM.to_owned(),
    };
    command.env(TUNABLES, tunables);
}

const TUNABLES: &str = "GLIBC_TUNABLES";
const ROOM: &str = "glibc.rtld.optional_static_tls=8192";

/// What the user has set of a variable of the environment: all but what [`make_room_for_allocators`] adds. `None` if that
/// is nothing.
pub fn own_value<'v>(name: &str, value: &'v str) -> Option<&'v str> {
    match value.strip_prefix(ROOM).filter(|_| name == TUNABLES) {
        Some("") => None,
        Some(rest) => rest.strip_prefix(':').or(Some(value)),
        None => Some(value),
    }
}

/// In a program that [`make_room_for_allocators`] started: gives the environment back what the user has set, so that
/// programs that it starts get no more. glibc has read it at the start. Does nothing if there is a second thread.
pub fn restore_environment() {
    let Ok(value) = env::var(TUNABLES) else { return };
    if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
        return;
    }
    // SAFETY: there is no other thread that could read the environment.
    unsafe {
        match own_value(TUNABLES, &value) {
            Some(own) => env::set_var(TUNABLES, own),
            None => env::remove_var(TUNABLES),
        }
    }
}

impl SharedObject {
    /// Loads the shared object at this path with all that it needs, and runs its constructors.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; `InvalidInput` if it cannot be loaded, with the loader's reason;
    /// `Unsupported` in a static build, which has no loader.
    pub fn load(path: &Path) -> io::Result<SharedObject> {
        if cfg!(target_feature = "crt-static") {
            return SharedObject::load_named(c"");
        }
        // To open a pipe could take for ever.
        if !path.metadata()?.is_file() {
            return Err(invalid("it is not a file"));
        }
        SharedObject::load_named(&CString::new(path.as_os_str().as_bytes())?)
    }

    /// Loads the shared object with this name, which the loader looks for where libraries are if it is no path.
    ///
    /// # Errors
    ///
    /// As [`SharedObject::load`], but that a file that does not exist is `InvalidInput` too.
    pub(crate) fn load_named(name: &CStr) -> io::Result<SharedObject> {
        if cfg!(target_feature = "crt-static") {
            return Err(unsupported("a static build of costof cannot load shared objects"));
        }
        // SAFETY: the name ends with a zero byte. The object's constructors are foreign code, see the head of this file.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(|handle| SharedObject { handle }).ok_or_else(|| invalid(reason()))
    }

    /// The function of this name.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the object exports no such symbol, with the loader's reason.
    pub fn function(&self, name: &str) -> io::Result<Function> {
        self.address(name).map(|address| Function { address })
    }

    /// Where the symbol of this name is; errors as [`SharedObject::function`].
    pub(crate) fn address(&self, name: &str) -> io::Result<NonNull<c_void>> {
        let symbol = CString::new(name)?;
        // SAFETY: the object is loaded, since it is never unloaded, and the name ends with a zero byte.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), symbol.as_ptr()) };
        NonNull::new(address).ok_or_else(|| invalid(reason()))
    }
}

/// Why the loader's last call failed.
fn reason() -> String {
    // SAFETY: the text is valid until this thread's next call to the loader.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "the loader gives no reason".to_owned(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}

impl Function {
    /// Calls it. A pointer is passed as its address.
    ///
    /// # Panics
    ///
    /// If there are more than [`ARGUMENTS_MAX`] arguments.
    #[inline]
    pub fn call(self, arguments: &[u64]) {
        type F0 = unsafe extern "C-unwind" fn();
        type F1 = unsafe extern "C-unwind" fn(u64);
        type F2 = unsafe extern "C-unwind" fn(u64, u64);
        type F3 = unsafe extern "C-unwind" fn(u64, u64, u64);
        type F4 = unsafe extern "C-unwind" fn(u64, u64, u64, u64);
        type F5 = unsafe extern "C-unwind" fn(u64, u64, u64, u64, u64);
        type F6 = unsafe extern "C-unwind" fn(u64, u64, u64, u64, u64, u64);
        let address = self.address.as_ptr();
        // SAFETY: the user says that it is a function of these arguments. Numbers and pointers travel in the same
        // registers, and one that the function does not take is ignored. Its code is foreign, see the head of this file.
        unsafe {
            match *arguments {
                [] => transmute::<*mut c_void, F0>(address)(),
                [a] => transmute::<*mut c_void, F1>(address)(a),
                [a, b] => transmute::<*mut c_void, F2>(address)(a, b),
                [a, b, c] => transmute::<*mut c_void, F3>(address)(a, b, c),
                [a, b, c, d] => transmute::<*mut c_void, F4>(address)(a, b, c, d),
                [a, b, c, d, e] => transmute::<*mut c_void, F5>(address)(a, b, c, d, e),
                [a, b, c, d, e, f] => transmute::<*mut c_void, F6>(address)(a, b, c, d, e, f),
                _ => panic!("{} arguments do not fit into registers", arguments.len()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::temp_dir;
    use std::fs;
    use std::process::id;

    /// Writes the sum of its arguments, each times its place, to where the last one points.
    const SOURCE: &str = "#include <stdint.h>
        void two(uint64_t a, uint64_t *to) { *to = a; }
        void six(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *to) {
            *to = a + 2 * b + 3 * c + 4 * d + 5 * e;
        }";

    #[test]
    fn what_was_added_to_the_environment_is_known() {
        let own = |value| own_value(TUNABLES, value);
        assert_eq!(own("glibc.malloc.perturb=1"), Some("glibc.malloc.perturb=1"));
        assert_eq!(own(ROOM), None);
        assert_eq!(own(&format!("{ROOM}:a=1")), Some("a=1"));
        assert_eq!(own_value("LD_PRELOAD", ROOM), Some(ROOM));
    }

    #[test]
    fn a_function_gets_its_arguments_in_their_order() {
        let folder = temp_dir().join(format!("costof-shared-object-{}", id()));
        fs::create_dir_all(&folder).unwrap();
        let [source, object] = ["f.c", "f.so"].map(|name| folder.join(name));
        fs::write(&source, SOURCE).unwrap();
        let mut cc = Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source);
        if !built.status().is_ok_and(|status| status.success()) {
            fs::remove_dir_all(&folder).unwrap();
            return;
        }
        let loaded = match SharedObject::load(&object) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
            loaded => loaded.unwrap(),
        };
        let to = std::sync::atomic::AtomicU64::new(0);
        let place = to.as_ptr().expose_provenance() as u64;
        let written = || to.load(std::sync::atomic::Ordering::Relaxed);
        loaded.function("two").unwrap().call(&[7, place]);
        assert_eq!(written(), 7);
        loaded.function("six").unwrap().call(&[1, 2, 3, 4, 5, place]);
        assert_eq!(written(), 1 + 4 + 9 + 16 + 25);
        let error = loaded.function("seven").unwrap_err();
        assert!(error.to_string().contains("undefined symbol: seven"), "{error}");
        let other = folder.join("other.so");
        fs::write(&other, "no object").unwrap();
        let error = SharedObject::load(&other).unwrap_err();
        assert!(error.to_string().contains("other.so"), "{error}");
        let error = SharedObject::load(&folder).unwrap_err();
        assert!(error.to_string().contains("not a file"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(SharedObject::load(&object).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
