//! Assembles eBPF programs, with labels.
//!
//! Source: Linux Documentation/bpf/standardization/instruction-set.rst.

use std::os::fd::{AsRawFd, OwnedFd};

/// One of the eleven registers. Calls return in `R0`, take `R1` to `R5` and lose these; `R10` points behind the stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

pub(super) const R0: Register = Register(0);
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R6: Register = Register(6);
pub(super) const R7: Register = Register(7);
pub(super) const R8: Register = Register(8);
pub(super) const R9: Register = Register(9);
pub(super) const R10: Register = Register(10);

/// A register, or a number that the instruction holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Register),
    Number(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Byte = 0x10,
    Word = 0x00,
    Double = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add = 0x00,
    Subtract = 0x10,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Set = 0xb0,
    ShiftRightSigned = 0xc0,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    NotSignedLess = 0x70,
    SignedLess = 0xc0,
}

/// Functions of the kernel (include/uapi/linux/bpf.h).
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    MapLookup = 1,
    MapUpdate = 2,
    Nanoseconds = 5,
    CurrentCpu = 8,
    CurrentIds = 14,
    CurrentName = 16,
    /// Linux 5.11.
    CurrentTask = 158,
    /// Linux 5.15.
    TaskRegisters = 175,
}

/// A place in a program to jump to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// A program that is being written.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    steps: Vec<u64>,
    /// Where each label stands, once it does.
    labels: Vec<Option<usize>>,
    /// The jumps, by their position.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label that stands nowhere yet.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.steps.len());
    }

    fn step(&mut self, code: u8, target: Register, source: Register, offset: i16, number: i32) {
        let registers = u64::from(target.0) | u64::from(source.0) << 4;
        let offset = u64::from(offset.cast_unsigned());
        let number = u64::from(number.cast_unsigned());
        self.steps.push(u64::from(code) | registers << 8 | offset << 16 | number << 32);
    }

    /// Computes with a register.
    pub(super) fn compute(
        &mut self,
        operation: Operation,
        target: Register,
        by: impl Into<Operand>,
    ) {
        const NUMBER: u8 = 0x07;
        const REGISTER: u8 = 0x0f;
        match by.into() {
            Operand::Register(by) => self.step(REGISTER | operation as u8, target, by, 0, 0),
            Operand::Number(by) => self.step(NUMBER | operation as u8, target, R0, 0, by),
        }
    }

    /// Sets a register.
    pub(super) fn set(&mut self, target: Register, to: impl Into<Operand>) {
        self.compute(Operation::Set, target, to);
    }

    /// Sets a register to a number of 64 bits.
    pub(super) fn set_wide(&mut self, target: Register, number: u64) {
        self.wide(target, R0, number);
    }

    /// Sets a register to a map, for a function that takes one.
    pub(super) fn set_map(&mut self, target: Register, map: &OwnedFd) {
        const MAP_DESCRIPTOR: Register = Register(1);
        self.wide(target, MAP_DESCRIPTOR, map.as_raw_fd() as u64);
    }

    fn wide(&mut self, target: Register, source: Register, number: u64) {
        self.step(0x18, target, source, 0, (number as u32).cast_signed());
        self.step(0, R0, R0, 0, ((number >> 32) as u32).cast_signed());
    }

    /// Loads from an address and an offset, and fills up with zeroes.
    pub(super) fn load(&mut self, width: Width, target: Register, from: Register, offset: i16) {
        self.step(0x61 | width as u8, target, from, offset, 0);
    }

    /// Stores at an address and an offset.
    pub(super) fn store(
        &mut self,
        width: Width,
        to: Register,
        offset: i16,
        what: impl Into<Operand>,
    ) {
        match what.into() {
            Operand::Register(what) => self.step(0x63 | width as u8, to, what, offset, 0),
            Operand::Number(what) => self.step(0x62 | width as u8, to, R0, offset, what),
        }
    }

    /// Calls a function of the kernel.
    pub(super) fn call(&mut self, function: Function) {
        self.step(0x85, R0, R0, 0, function as i32);
    }

    /// Jumps to a label.
    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.steps.len(), label));
        self.step(0x05, R0, R0, 0, 0);
    }

    /// Jumps to a label if a register compares so with another, or a number.
    pub(super) fn jump_if(
        &mut self,
        register: Register,
        condition: Condition,
        with: impl Into<Operand>,
        label: Label,
    ) {
        self.jumps.push((self.steps.len(), label));
        match with.into() {
            Operand::Register(with) => self.step(0x0d | condition as u8, register, with, 0, 0),
            Operand::Number(with) => self.step(0x05 | condition as u8, register, R0, 0, with),
        }
    }

    /// Ends the program with what is in `R0`.
    pub(super) fn exit(&mut self) {
        self.step(0x95, R0, R0, 0, 0);
    }

    /// The program's instructions.
    pub(super) fn assembled(mut self) -> Vec<u64> {
        for (position, label) in self.jumps {
            let target =
                self.labels[label.0].expect("each label that is jumped to stands somewhere");
            let distance = target as i64 - position as i64 - 1;
            let distance =
                i16::try_from(distance).expect("programs have a few hundred instructions");
            self.steps[position] |= u64::from(distance.cast_unsigned()) << 16;
        }
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_standard_says() {
        let mut program = Assembler::default();
        let end = program.label();
        program.set(R0, 0);
        program.load(Width::Double, R7, R1, 8);
        program.store(Width::Word, R10, -4, R7);
        program.jump_if(R7, Condition::SignedLess, -1, end);
        program.compute(Operation::ShiftLeft, R7, 32);
        program.set_wide(R2, 0x1_0000_0002);
        program.place(end);
        program.exit();
        let expected = [
            0x0000_0000_0000_00b7,
            0x0000_0000_0008_1779,
            0x0000_0000_fffc_7a63,
            0xffff_ffff_0003_07c5,
            0x0000_0020_0000_0767,
            0x0000_0002_0000_0218,
            0x0000_0001_0000_0000,
            0x95,
        ];
        assert_eq!(program.assembled(), expected);
    }
}
