//! A stack of a known size for a process that was started with a small one, without a thread: a second thread would
//! change what a worker measures (see [`command_reader`](super::command_reader)), and the stack that the kernel gave
//! the first one cannot grow beyond a hard limit.
//!
//! Source: getrlimit(2) on `RLIMIT_STACK`; System V ABI for x86-64 3.2.2 and for AArch64 6.4.5 (16-byte alignment).

use std::arch::naked_asm;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::{io, ptr};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect};
use rustix::process::{Resource, getrlimit};

use crate::memory::arena::base_page_bytes;

/// Calls `work` on a stack of at least `bytes` bytes: on this one if `RLIMIT_STACK` lets it grow so far, otherwise on
/// memory of its own, which stays mapped. If there is no such memory, this stack has to do. Call this from the first
/// thread.
pub fn with_at_least<R>(bytes: usize, work: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= bytes as u64) {
        return work();
    }
    match map(bytes) {
        Ok(top) => on(top, work),
        Err(_) => work(),
    }
}

/// Maps a stack above a page that cannot be touched, and returns its upper end.
fn map(bytes: usize) -> io::Result<*mut c_void> {
    let page = base_page_bytes();
    let all = bytes.next_multiple_of(page) + page;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing. Its lowest page is this function's
    // own, and so is the advice, which changes no contents.
    unsafe {
        let start =
            mmap_anonymous(ptr::null_mut(), all, protection, MapFlags::PRIVATE | MapFlags::STACK)?;
        mprotect(start, page, MprotectFlags::empty())?;
        // Best effort: the first touch would otherwise clear 2 MiB, and so would a copy after a fork.
        let _ = madvise(start, all, Advice::LinuxNoHugepage);
        Ok(start.byte_add(all))
    }
}

/// Calls `work` on the stack that ends at `top`, which is aligned to a page.
fn on<R, W: FnOnce() -> R>(top: *mut c_void, work: W) -> R {
    struct Call<W, R>(Option<W>, Option<std::thread::Result<R>>);
    /// A panic must not pass the switch, of which the unwinder knows nothing.
    extern "C" fn call<R, W: FnOnce() -> R>(call: *mut c_void) {
        // SAFETY: the switch passes on what it got below, which outlives it.
        let call = unsafe { &mut *call.cast::<Call<W, R>>() };
        let work = call.0.take().expect("it is called once");
        call.1 = Some(catch_unwind(AssertUnwindSafe(work)));
    }
    let mut made = Call(Some(work), None);
    // SAFETY: the stack is this call's own, aligned, and never unmapped.
    unsafe { switch(top, call::<R, W>, (&raw mut made).cast()) };
    match made.1.expect("the work was done") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// Calls a function with this argument on another stack.
///
/// # Safety
///
/// The memory below `top` is an unused stack, and `top` is aligned to 16 bytes.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(
    top: *mut c_void,
    call: extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}

/// As on x86-64.
///
/// # Safety
///
/// As there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(
    top: *mut c_void,
    call: extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "mov x29, sp",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses so much of the stack, or three times as much where nothing is optimised.
    fn dig(bytes: usize) -> usize {
        let room = std::hint::black_box([1_u8; 4096]);
        let below = if bytes > room.len() { dig(bytes - room.len()) } else { 0 };
        below + usize::from(room[bytes % room.len()])
    }

    #[test]
    fn work_has_as_much_as_it_asks_for_and_its_panic_arrives() {
        const BYTES: usize = 8 << 20;
        let mut calls = 0;
        let answer = on(map(BYTES).unwrap(), || {
            calls += 1;
            dig(BYTES / 4)
        });
        assert_eq!((calls, answer), (1, BYTES / 4 / 4096));
        let panicked = catch_unwind(|| on(map(BYTES).unwrap(), || panic!("on purpose")));
        let panic = panicked.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
        // On the stack of a thread, which this one is too.
        assert_eq!(with_at_least(1, || 7), 7);
    }
}
