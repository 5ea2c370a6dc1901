//! The programs that count what the followed threads do.
//!
//! Two tables hold all of it. *Threads* has a [`Thread`] for each followed thread, and *tallies* what each did, by its number and
//! the event. An entry of *tallies* is written only on behalf of its own thread, so nothing is locked. The program of system
//! calls finds the entry of a call that the thread made before by one look-up: then the thread is followed.
//!
//! Source: Linux include/trace/events/{syscalls,sched,signal,block}.h, arch/x86/include/asm/trace/exceptions.h.

use std::io;
use std::os::fd::OwnedFd;

use super::assembler::Condition::{Equal, Greater, NotEqual, NotSignedLess, SignedLess};
use super::assembler::Function::{
    CurrentCpu, CurrentIds, CurrentName, CurrentTask, MapLookup, MapUpdate, Nanoseconds,
    TaskRegisters,
};
use super::assembler::Operation::{
    Add, And, Or, ShiftLeft, ShiftRight, ShiftRightSigned, Subtract,
};
use super::assembler::Width::{Byte, Double, Word};
use super::assembler::{
    Assembler, Label, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Register, Width,
};
use crate::perf::Format;
use crate::process::tally::{FORKING_CALLS, MOVING_CALLS};

/// The place of the system call's number in the registers that a thread saved as it entered the kernel; below zero outside a
/// system call, and after rt_sigreturn(2).
const CALL_NUMBER: (Width, i16) =
    if cfg!(target_arch = "x86_64") { (Double, 120) } else { (Word, 280) };

/// An entry of *threads*, by its places.
pub(super) mod thread {
    pub(in super::super) const BYTES: usize = 48;
    /// One of the three states.
    pub(in super::super) const STATE: i16 = 0;
    /// The number of its process; 0 until it is known.
    pub(in super::super) const PROCESS: i16 = 4;
    /// When it left its CPU; 0 while it runs.
    pub(super) const OFF_SINCE: i16 = 8;
    /// When it was woken since; 0 if it was not.
    pub(super) const WOKEN_AT: i16 = 16;
    /// The event that took it from its CPU.
    pub(super) const OFF_EVENT: i16 = 24;
    /// The CPU of its waker, and whether that is followed in the bit above.
    pub(super) const WAKER: i16 = 28;
    /// Its name, once it has ended: 16 bytes.
    pub(in super::super) const NAME: i16 = 32;

    /// It is followed until it executes a program, and counted from then on.
    pub(in super::super) const PENDING: i32 = 1;
    /// It is counted.
    pub(in super::super) const COUNTED: i32 = 2;
    /// It has ended; another thread may have its number by now.
    pub(in super::super) const ENDED: i32 = 3;
}

/// An event in 32 bits: its kind in the upper 4.
pub(super) mod event {
    pub(in super::super) const KIND_SHIFT: i32 = 28;
    /// The number in bits 8 to 19; below it one more than the logarithm of its bytes, or 0.
    pub(in super::super) const CALL: i32 = 0;
    /// One more than the number of the call in bits 8 to 20, or 0.
    pub(in super::super) const WAIT: i32 = 1;
    pub(in super::super) const PREEMPTED: i32 = 2;
    /// By itself in bit 26, from in bits 13 to 25, to below.
    pub(in super::super) const WAKE_UP: i32 = 3;
    /// In the kernel in bit 2, a write in bit 1, present in bit 0.
    pub(in super::super) const FAULT: i32 = 4;
    pub(in super::super) const SIGNAL: i32 = 5;
    /// A write in bit 0.
    pub(in super::super) const BLOCK_IO: i32 = 6;

    pub(in super::super) const CALL_SHIFT: i32 = 8;
    pub(in super::super) const MAX_CALL: i32 = 0xffe;
    pub(in super::super) const CPU_BITS: i32 = 13;
}

// The stack frame: the key of *tallies*, what is added there, the key of *threads*, and a new entry of it.
const KEY: i16 = -8;
const KEY_THREAD: i16 = KEY + 4;
const ADDED: i16 = -40;
const ADDED_ERRORS: i16 = ADDED + 8;
const ADDED_BYTES: i16 = ADDED + 16;
const ADDED_NS: i16 = ADDED + 24;
const THREAD_KEY: i16 = -48;
const NEW_THREAD: i16 = THREAD_KEY - thread::BYTES as i16;

/// A thread of *tallies* that counts what was lost because a table was full; no thread has it.
pub(super) const LOST: u32 = 0;

/// The tables, by their descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'t> {
    pub(super) threads: &'t OwnedFd,
    pub(super) tallies: &'t OwnedFd,
}

/// Returns the number of the calling thread in the first pid namespace.
pub(super) fn own_number() -> Vec<u64> {
    let mut program = Assembler::default();
    program.call(CurrentIds);
    program.exit();
    program.assembled()
}

/// A program that is being written: the tables, and where it ends.
struct Program<'t> {
    tables: Tables<'t>,
    to: Assembler,
    end: Label,
}

impl<'t> Program<'t> {
    fn new(tables: Tables<'t>) -> Self {
        let mut to = Assembler::default();
        let end = to.label();
        Self { tables, to, end }
    }

    fn finish(mut self) -> Vec<u64> {
        self.to.place(self.end);
        self.to.set(R0, 0);
        self.to.exit();
        self.to.assembled()
    }

    /// `R0` becomes the thread whose number is in a register, or ends the program.
    fn find_thread(&mut self, number: Register) {
        let end = self.end;
        self.look_up_thread(number);
        self.to.jump_if(R0, Equal, 0, end);
    }

    /// `R0` becomes the thread whose number is in a register, or 0.
    fn look_up_thread(&mut self, number: Register) {
        self.to.store(Word, R10, THREAD_KEY, number);
        self.to.set_map(R1, self.tables.threads);
        self.to.set(R2, R10);
        self.to.compute(Add, R2, i32::from(THREAD_KEY));
        self.to.call(MapLookup);
    }

    /// Goes to a label unless the thread at `R0` is counted.
    fn unless_counted(&mut self, label: Label) {
        self.to.load(Word, R1, R0, thread::STATE);
        self.to.jump_if(R1, NotEqual, thread::COUNTED, label);
    }

    /// A register becomes the number of the system call that the thread is in, or less than 0. `R0` to `R5` are lost.
    fn current_call(&mut self, number: Register) {
        self.to.call(CurrentTask);
        self.to.set(R1, R0);
        self.to.call(TaskRegisters);
        let (width, place) = CALL_NUMBER;
        self.to.load(width, number, R0, place);
        if matches!(width, Word) {
            // 32 bits with a sign.
            self.to.compute(ShiftLeft, number, 32);
            self.to.compute(ShiftRightSigned, number, 32);
        }
    }

    /// One event is going to be added, and nothing else yet.
    fn start_adding(&mut self) {
        self.to.store(Double, R10, ADDED, 1);
        for place in [ADDED_ERRORS, ADDED_BYTES, ADDED_NS] {
            self.to.store(Double, R10, place, 0);
        }
    }

    /// Adds to the entry with the key on the stack. A new entry is first put to the test that is written by `may_add`, which
    /// goes to the label that it is given if nothing is to be added.
    fn add(&mut self, may_add: impl FnOnce(&mut Self, Label)) {
        let [absent, done] = [(); 2].map(|()| self.to.label());
        self.look_up_tally();
        self.to.jump_if(R0, Equal, 0, absent);
        self.add_to_found();
        self.to.jump(done);
        self.to.place(absent);
        may_add(self, done);
        self.to.set_map(R1, self.tables.tallies);
        self.to.set(R2, R10);
        self.to.compute(Add, R2, i32::from(KEY));
        self.to.set(R3, R10);
        self.to.compute(Add, R3, i32::from(ADDED));
        const ONLY_NEW: i32 = 1;
        self.to.set(R4, ONLY_NEW);
        self.to.call(MapUpdate);
        self.to.jump_if(R0, Equal, 0, done);
        self.lose();
        self.to.place(done);
    }

    fn look_up_tally(&mut self) {
        self.to.set_map(R1, self.tables.tallies);
        self.to.set(R2, R10);
        self.to.compute(Add, R2, i32::from(KEY));
        self.to.call(MapLookup);
    }

    fn add_to_found(&mut self) {
        for place in [0, 8, 16, 24] {
            self.to.load(Double, R1, R10, ADDED + place);
            self.to.load(Double, R2, R0, place);
            self.to.compute(Add, R2, R1);
            self.to.store(Double, R0, place, R2);
        }
    }

    /// Counts what no table has room for. Threads may do it at the same time; then one of these is not counted.
    fn lose(&mut self) {
        let none = self.to.label();
        self.to.store(Double, R10, KEY, LOST as i32);
        self.look_up_tally();
        self.to.jump_if(R0, Equal, 0, none);
        self.add_to_found();
        self.to.place(none);
    }

    /// The test of a new entry of the current thread: its identifiers are in a register, which is lost.
    fn current_is_counted(&mut self, identifiers: Register, otherwise: Label) {
        self.look_up_thread(identifiers);
        self.to.jump_if(R0, Equal, 0, otherwise);
        self.unless_counted(otherwise);
        self.store_process(R0, identifiers);
    }

    /// Stores the number of a thread's process, the upper half of its identifiers.
    fn store_process(&mut self, thread: Register, identifiers: Register) {
        self.to.compute(ShiftRight, identifiers, 32);
        self.to.store(Word, thread, thread::PROCESS, identifiers);
    }
}

/// The end of a system call, as a raw tracepoint: its arguments are the registers and what it returns.
pub(super) fn call_ends(tables: Tables<'_>) -> Vec<u64> {
    const RETURNED: i16 = 8;
    const MIN_ERROR: i32 = -4095;
    let mut program = Program::new(tables);
    let end = program.end;
    program.to.load(Double, R9, R1, RETURNED);
    program.to.call(CurrentIds);
    program.to.set(R8, R0);
    program.current_call(R7);
    let [known, key, succeeded, moved, failed] = [(); 5].map(|()| program.to.label());
    let to = &mut program.to;
    // Only rt_sigreturn takes the number away.
    to.jump_if(R7, NotSignedLess, 0, known);
    to.set(R7, libc::SYS_rt_sigreturn as i32);
    to.place(known);
    to.jump_if(R7, Greater, event::MAX_CALL, end);
    program.start_adding();
    let to = &mut program.to;
    to.set(R6, R7);
    to.compute(ShiftLeft, R6, event::CALL_SHIFT);
    to.jump_if(R9, SignedLess, MIN_ERROR, key);
    to.jump_if(R9, SignedLess, 0, failed);
    to.jump_if(R9, NotEqual, 0, succeeded);
    // The child of a fork begins at the end of its parent's call.
    for &call in FORKING_CALLS {
        to.jump_if(R7, Equal, call as i32, end);
    }
    to.jump(key);
    to.place(failed);
    to.store(Double, R10, ADDED_ERRORS, 1);
    to.jump(key);
    to.place(succeeded);
    jump_if_moving(to, moved, key);
    to.place(moved);
    to.store(Double, R10, ADDED_BYTES, R9);
    add_size(to);
    to.place(key);
    to.store(Word, R10, KEY, R6);
    to.store(Word, R10, KEY_THREAD, R8);
    program.add(|program, nothing| {
        program.look_up_thread(R8);
        let to = &mut program.to;
        to.jump_if(R0, Equal, 0, nothing);
        let [counted, executes] = [(); 2].map(|()| to.label());
        to.load(Word, R1, R0, thread::STATE);
        to.jump_if(R1, Equal, thread::COUNTED, counted);
        to.jump_if(R1, NotEqual, thread::PENDING, nothing);
        to.jump_if(R9, NotEqual, 0, nothing);
        to.jump_if(R7, Equal, libc::SYS_execve as i32, executes);
        to.jump_if(R7, NotEqual, libc::SYS_execveat as i32, nothing);
        to.place(executes);
        to.store(Word, R0, thread::STATE, thread::COUNTED);
        to.jump(nothing);
        to.place(counted);
        program.store_process(R0, R8);
    });
    program.finish()
}

/// Goes on if the call in `R7` returns how many bytes it moved.
fn jump_if_moving(to: &mut Assembler, moving: Label, other: Label) {
    const BITS: libc::c_long = 64;
    for word in 0..=MOVING_CALLS.iter().max().map_or(0, |max| max / BITS) {
        let calls = MOVING_CALLS.iter().filter(|&call| call / BITS == word);
        let mask = calls.fold(0_u64, |mask, call| mask | 1 << (call % BITS));
        let next = to.label();
        to.jump_if(R7, Greater, ((word + 1) * BITS - 1) as i32, next);
        to.set_wide(R1, mask);
        to.set(R2, R7);
        to.compute(And, R2, (BITS - 1) as i32);
        to.compute(ShiftRight, R1, R2);
        to.compute(And, R1, 1);
        to.jump_if(R1, NotEqual, 0, moving);
        to.jump(other);
        to.place(next);
    }
    to.jump(other);
}

/// Adds one more than the binary logarithm of `R9` to `R6`.
fn add_size(to: &mut Assembler) {
    to.compute(Add, R6, 1);
    to.set(R1, R9);
    for bits in [32, 16, 8, 4, 2, 1] {
        let less = to.label();
        to.set(R2, R1);
        to.compute(ShiftRight, R2, bits);
        to.jump_if(R2, Equal, 0, less);
        to.set(R1, R2);
        to.compute(Add, R6, bits);
        to.place(less);
    }
}

/// Another thread gets the CPU.
///
/// # Errors
///
/// `NotFound` if the record has not the expected fields; so of all that follow.
pub(super) fn switch(tables: Tables<'_>, record: &Format) -> io::Result<Vec<u64>> {
    const WAITS: i32 = 0xff;
    let mut program = Program::new(tables);
    let end = program.end;
    let [next, waits, in_call] = [(); 3].map(|()| program.to.label());
    program.to.set(R6, R1);
    program.to.call(Nanoseconds);
    program.to.set(R9, R0);
    program.to.load(Word, R1, R6, record.offset("prev_pid")?);
    program.look_up_thread(R1);
    program.to.jump_if(R0, Equal, 0, next);
    program.unless_counted(next);
    let to = &mut program.to;
    to.set(R8, R0);
    to.store(Double, R8, thread::OFF_SINCE, R9);
    to.store(Double, R8, thread::WOKEN_AT, 0);
    to.load(Double, R1, R6, record.offset("prev_state")?);
    to.compute(And, R1, WAITS);
    to.jump_if(R1, NotEqual, 0, waits);
    to.store(Word, R8, thread::OFF_EVENT, event::PREEMPTED << event::KIND_SHIFT);
    to.jump(next);
    to.place(waits);
    program.current_call(R7);
    let to = &mut program.to;
    to.jump_if(R7, NotSignedLess, 0, in_call);
    to.set(R7, -1);
    to.place(in_call);
    to.compute(Add, R7, 1);
    to.compute(ShiftLeft, R7, event::CALL_SHIFT);
    to.compute(Or, R7, event::WAIT << event::KIND_SHIFT);
    to.store(Word, R8, thread::OFF_EVENT, R7);

    to.place(next);
    to.load(Word, R7, R6, record.offset("next_pid")?);
    program.find_thread(R7);
    program.unless_counted(end);
    program.to.set(R8, R0);
    let pays = |program: &mut Program<'_>, since: i16| {
        program.to.load(Double, R6, R8, since);
        program.to.jump_if(R6, Equal, 0, end);
        program.start_adding();
        program.to.set(R1, R9);
        program.to.compute(Subtract, R1, R6);
        program.to.store(Double, R10, ADDED_NS, R1);
        program.to.store(Double, R8, since, 0);
        program.to.store(Word, R10, KEY_THREAD, R7);
    };
    pays(&mut program, thread::OFF_SINCE);
    program.to.load(Word, R1, R8, thread::OFF_EVENT);
    program.to.store(Word, R10, KEY, R1);
    program.add(|_, _| {});
    pays(&mut program, thread::WOKEN_AT);
    program.to.call(CurrentCpu);
    let to = &mut program.to;
    to.load(Word, R1, R8, thread::WAKER);
    to.compute(ShiftLeft, R1, event::CPU_BITS);
    to.compute(Or, R1, R0);
    to.compute(Or, R1, event::WAKE_UP << event::KIND_SHIFT);
    to.store(Word, R10, KEY, R1);
    program.add(|_, _| {});
    Ok(program.finish())
}

/// A thread is going to be woken.
pub(super) fn waking(tables: Tables<'_>, record: &Format) -> io::Result<Vec<u64>> {
    let mut program = Program::new(tables);
    let end = program.end;
    program.to.load(Word, R1, R1, record.offset("pid")?);
    program.find_thread(R1);
    program.unless_counted(end);
    let to = &mut program.to;
    to.set(R8, R0);
    to.load(Double, R1, R8, thread::OFF_SINCE);
    to.jump_if(R1, Equal, 0, end);
    to.call(Nanoseconds);
    to.store(Double, R8, thread::WOKEN_AT, R0);
    to.call(CurrentIds);
    program.look_up_thread(R0);
    let to = &mut program.to;
    let other = to.label();
    to.set(R7, 0);
    to.jump_if(R0, Equal, 0, other);
    program.unless_counted(other);
    program.to.set(R7, 1 << event::CPU_BITS);
    program.to.place(other);
    program.to.call(CurrentCpu);
    program.to.compute(Or, R7, R0);
    program.to.store(Word, R8, thread::WAKER, R7);
    Ok(program.finish())
}

/// A thread starts another, which is followed as it is.
pub(super) fn fork(tables: Tables<'_>, record: &Format) -> io::Result<Vec<u64>> {
    let mut program = Program::new(tables);
    let end = program.end;
    program.to.set(R6, R1);
    program.to.load(Word, R1, R6, record.offset("parent_pid")?);
    program.find_thread(R1);
    let to = &mut program.to;
    to.load(Word, R7, R0, thread::STATE);
    to.jump_if(R7, Equal, thread::ENDED, end);
    for place in (0..thread::BYTES as i16).step_by(size_of::<u64>()) {
        to.store(Double, R10, NEW_THREAD + place, 0);
    }
    to.store(Word, R10, NEW_THREAD + thread::STATE, R7);
    to.load(Word, R1, R6, record.offset("child_pid")?);
    to.store(Word, R10, THREAD_KEY, R1);
    to.set_map(R1, tables.threads);
    for (register, place) in [(R2, THREAD_KEY), (R3, NEW_THREAD)] {
        to.set(register, R10);
        to.compute(Add, register, i32::from(place));
    }
    to.set(R4, 0);
    to.call(MapUpdate);
    to.jump_if(R0, Equal, 0, end);
    program.start_adding();
    program.lose();
    Ok(program.finish())
}

/// A thread ends. Its last system call, exit(2), does not end.
pub(super) fn thread_ends(tables: Tables<'_>) -> Vec<u64> {
    const NAME_BYTES: i32 = 16;
    let mut program = Program::new(tables);
    let end = program.end;
    program.to.call(CurrentIds);
    program.to.set(R8, R0);
    program.find_thread(R8);
    let to = &mut program.to;
    to.set(R6, R0);
    to.load(Word, R7, R6, thread::STATE);
    to.store(Word, R6, thread::STATE, thread::ENDED);
    to.jump_if(R7, NotEqual, thread::COUNTED, end);
    to.set(R1, R6);
    to.compute(Add, R1, i32::from(thread::NAME));
    to.set(R2, NAME_BYTES);
    to.call(CurrentName);
    to.store(Word, R10, KEY_THREAD, R8);
    program.store_process(R6, R8);
    program.current_call(R7);
    let to = &mut program.to;
    let exits = to.label();
    to.jump_if(R7, Equal, libc::SYS_exit as i32, exits);
    to.jump_if(R7, NotEqual, libc::SYS_exit_group as i32, end);
    to.place(exits);
    to.compute(ShiftLeft, R7, event::CALL_SHIFT);
    to.store(Word, R10, KEY, R7);
    program.start_adding();
    program.add(|_, _| {});
    program.finish()
}

/// An event of the current thread, whose code and bytes are computed from the record at `R6`: the code to `R7`.
fn own_event(
    tables: Tables<'_>,
    code: impl FnOnce(&mut Assembler) -> io::Result<()>,
) -> io::Result<Vec<u64>> {
    let mut program = Program::new(tables);
    program.to.set(R6, R1);
    program.start_adding();
    code(&mut program.to)?;
    let to = &mut program.to;
    to.call(CurrentIds);
    to.set(R8, R0);
    to.store(Word, R10, KEY, R7);
    to.store(Word, R10, KEY_THREAD, R8);
    program.add(|program, nothing| program.current_is_counted(R8, nothing));
    Ok(program.finish())
}

/// A page fault (x86-64).
pub(super) fn fault(tables: Tables<'_>, record: &Format, in_kernel: bool) -> io::Result<Vec<u64>> {
    const PRESENT_AND_WRITE: i32 = 0b11;
    own_event(tables, |to| {
        to.load(Double, R7, R6, record.offset("error_code")?);
        to.compute(And, R7, PRESENT_AND_WRITE);
        to.compute(Or, R7, event::FAULT << event::KIND_SHIFT | i32::from(in_kernel) << 2);
        Ok(())
    })
}

/// A signal is delivered.
pub(super) fn signal(tables: Tables<'_>, record: &Format) -> io::Result<Vec<u64>> {
    own_event(tables, |to| {
        to.load(Word, R7, R6, record.offset("sig")?);
        to.compute(Or, R7, event::SIGNAL << event::KIND_SHIFT);
        Ok(())
    })
}

/// A request goes to a block device.
pub(super) fn block_io(tables: Tables<'_>, record: &Format) -> io::Result<Vec<u64>> {
    own_event(tables, |to| {
        let read = to.label();
        to.load(Word, R1, R6, record.offset("bytes")?);
        to.store(Double, R10, ADDED_BYTES, R1);
        to.load(Byte, R1, R6, record.offset("rwbs")?);
        to.set(R7, event::BLOCK_IO << event::KIND_SHIFT);
        to.jump_if(R1, Equal, i32::from(b'R'), read);
        to.compute(Or, R7, 1);
        to.place(read);
        Ok(())
    })
}
