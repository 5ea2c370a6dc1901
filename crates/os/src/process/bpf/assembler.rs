//! Assembles eBPF programs from text.
//!
//! A line is an instruction and its operands, a label (`@name`), the head of a section (`[name]`), a constant
//! (`const NAME number`), or a comment (`#`). `use section operand` stands for the lines of a section, with the operand in place
//! of `$`; of a section of another name for each architecture, `use name` takes `[name.x86_64]`. Labels belong to the section in
//! which they stand, but `end` is the end of the program, which then returns 0 unless it ends with `exit`. Calls return in `r0`, take `r1` to `r5` and lose these; `r10` points
//! behind the stack frame. `.field` is the place of a field in the tracepoint's record or in a structure of the kernel, `sys:name` the number of a system call,
//! and `jin` jumps if a register is one of the calls of a list; it
//! takes `r1`.
//!
//! Source: Linux Documentation/bpf/standardization/instruction-set.rst, include/uapi/linux/bpf.h.

use std::collections::HashMap;
use std::env::consts::ARCH;
use std::io;
use std::str::FromStr;

use crate::system_call::invalid;
use syscalls::Sysno;

/// The functions of the kernel that programs call. `task_registers` is the newest, of Linux 5.15.
const FUNCTIONS: &[(&str, i32)] = &[
    ("map_lookup", 1),
    ("map_update", 2),
    ("nanoseconds", 5),
    ("current_cpu", 8),
    ("current_ids", 14),
    ("current_name", 16),
    ("read_kernel", 113),
    ("current_task", 158),
    ("task_registers", 175),
];

/// The codes of the instructions. Their lower three bits are the class: how the operands stand, and whether the code of the same
/// instruction with a register as its last operand is greater by 1 or by 8.
const CODES: &[(&str, u8)] = &[
    ("load8", 0x71),
    ("load32", 0x61),
    ("load64", 0x79),
    ("store32", 0x62),
    ("store64", 0x7a),
    ("jump", 0x05),
    ("jeq", 0x15),
    ("jgt", 0x25),
    ("jne", 0x55),
    ("jsge", 0x75),
    ("jslt", 0xc5),
    ("call", 0x85),
    ("exit", 0x95),
    ("add", 0x07),
    ("sub", 0x17),
    ("or", 0x47),
    ("and", 0x57),
    ("shl", 0x67),
    ("shr", 0x77),
    ("set", 0xb7),
    ("sar", 0xc7),
    ("map", WIDE),
];

/// A number of 64 bits; a map if 1 stands for the second register.
const WIDE: u8 = 0x18;
const EXIT: u64 = 0x95;
const CLASS: u8 = 0x07;
const LOAD: u8 = 1;
const STORE: u8 = 2;
const JUMP: u8 = 5;

/// What a program's text refers to.
#[derive(Clone, Copy)]
pub(super) struct Assembler<'s> {
    pub(super) source: &'s str,
    /// The descriptors of maps.
    pub(super) maps: &'s [(&'s str, i32)],
    /// The names of system calls.
    pub(super) lists: &'s [(&'s str, &'s str)],
}

impl Assembler<'_> {
    /// The program of a section. `field` says where a field stands.
    ///
    /// # Errors
    ///
    /// Those of `field`; `InvalidInput` with the line for what cannot be assembled.
    pub(super) fn assemble(
        &self,
        section: &str,
        field: impl Fn(&str) -> io::Result<i16>,
    ) -> io::Result<Vec<u64>> {
        let mut program = Program {
            text: *self,
            field: &field,
            steps: Vec::new(),
            labels: HashMap::new(),
            jumps: Vec::new(),
            sections: 0,
        };
        program.section(section, "")?;
        if program.steps.last() != Some(&EXIT) {
            program.labels.insert("end".to_owned(), program.steps.len());
            program.line("set r0 0", 0)?;
            program.line("exit", 0)?;
        }
        for (place, label) in program.jumps {
            let target =
                program.labels.get(&label).ok_or_else(|| invalid(format!("no label {label}")))?;
            let distance = (*target as i64 - place as i64 - 1) as i16;
            program.steps[place] |= u64::from(distance.cast_unsigned()) << 16;
        }
        Ok(program.steps)
    }
}

/// A program that is being assembled.
struct Program<'p> {
    text: Assembler<'p>,
    field: &'p dyn Fn(&str) -> io::Result<i16>,
    steps: Vec<u64>,
    /// Where each label stands: those of a section with its number.
    labels: HashMap<String, usize>,
    jumps: Vec<(usize, String)>,
    /// How many sections were begun.
    sections: usize,
}

impl Program<'_> {
    fn section(&mut self, name: &str, operand: &str) -> io::Result<()> {
        self.sections += 1;
        let number = self.sections;
        let heads = [format!("[{name}]"), format!("[{name}.{ARCH}]")];
        let mut lines = self.text.source.lines();
        lines
            .find(|line| heads.iter().any(|head| head == line))
            .ok_or_else(|| invalid(format!("no section {name}")))?;
        for line in lines.take_while(|line| !line.starts_with('[')) {
            if !line.is_empty()
                && !line.starts_with("const ")
                && !line.trim_start().starts_with('#')
            {
                self.line(&line.replace('$', operand), number)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str, section: usize) -> io::Result<()> {
        let wrong = || invalid(format!("cannot assemble `{line}`"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |place: usize| words.get(place).copied().ok_or_else(wrong);
        let named = |label: &str| match label.starts_with('@') {
            true => format!("{label} of {section}"),
            false => label.to_owned(),
        };
        let mnemonic = word(0)?;
        if mnemonic.starts_with('@') {
            self.labels.insert(named(mnemonic), self.steps.len());
            return Ok(());
        }
        match mnemonic {
            "use" => return self.section(word(1)?, words.get(2).copied().unwrap_or("")),
            "jin" => {
                let list = found(self.text.lists, word(2)?).ok_or_else(wrong)?;
                return self.jump_in(word(1)?, list, word(3)?, section);
            }
            _ => {}
        }
        let code = found(CODES, mnemonic).ok_or_else(wrong)?;
        let class = code & CLASS;
        if class == JUMP && !matches!(mnemonic, "call" | "exit") {
            let label = words.last().copied().ok_or_else(wrong)?;
            self.jumps.push((self.steps.len(), named(label)));
        }
        match mnemonic {
            "jump" | "exit" => self.step(code, 0, 0, 0, 0),
            "call" => {
                let function = found(FUNCTIONS, word(1)?).ok_or_else(wrong)?;
                self.step(code, 0, 0, 0, function);
            }
            "map" => {
                let map = found(self.text.maps, word(2)?).ok_or_else(wrong)?;
                self.step(code, register(word(1)?)?, 1, 0, map);
                self.step(0, 0, 0, 0, 0);
            }
            _ if class == LOAD => {
                let offset = self.number(word(3)?)? as i16;
                self.step(code, register(word(1)?)?, register(word(2)?)?, offset, 0);
            }
            _ => {
                let target = register(word(1)?)?;
                let (offset, operand, by_register) = match class {
                    STORE => (self.number(word(2)?)? as i16, word(3)?, 1),
                    _ => (0, word(2)?, 8),
                };
                match register(operand) {
                    Ok(operand) => self.step(code + by_register, target, operand, offset, 0),
                    Err(_) => {
                        let number = self.number(operand)?;
                        self.step(code, target, 0, offset, number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Jumps if a register is one of these calls, by a bit for each call. `r1` is lost.
    fn jump_in(
        &mut self,
        register: &str,
        calls: &str,
        label: &str,
        section: usize,
    ) -> io::Result<()> {
        const BITS: i32 = u64::BITS as i32;
        // Some architectures lack some.
        let numbers = calls.split_whitespace().filter_map(|call| Sysno::from_str(call).ok());
        let numbers: Vec<i32> = numbers.map(|call| call.id()).collect();
        let place = self.steps.len();
        for word in 0..=numbers.iter().max().map_or(0, |max| max / BITS) {
            let among = numbers.iter().filter(|number| *number / BITS == word);
            let mask = among.fold(0_u64, |mask, number| mask | 1 << (number % BITS));
            let next = format!("@{place}.{word}");
            self.line(&format!("jgt {register} {} {next}", (word + 1) * BITS - 1), section)?;
            self.step(WIDE, 1, 0, 0, mask as i32);
            self.step(0, 0, 0, 0, (mask >> 32) as i32);
            // By the lower six bits of the number.
            self.line(&format!("shr r1 {register}"), section)?;
            self.line("and r1 1", section)?;
            self.line(&format!("jne r1 0 {label}"), section)?;
            self.line(&format!("jump @{place}"), section)?;
            self.line(&next, section)?;
        }
        self.line(&format!("@{place}"), section)
    }

    /// A number, by itself or by its name.
    fn number(&self, word: &str) -> io::Result<i32> {
        let wrong = || invalid(format!("`{word}` is no number"));
        if let Some(field) = word.strip_prefix('.') {
            return (self.field)(field).map(i32::from);
        }
        if let Some(call) = word.strip_prefix("sys:") {
            return Sysno::from_str(call).map(|call| call.id()).map_err(|()| wrong());
        }
        let mut constants = self.text.source.lines().filter_map(|line| line.strip_prefix("const "));
        let value = constants.find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let value = value.unwrap_or(word);
        let number = match value.strip_prefix("0x") {
            Some(digits) => i32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        number.map_err(|_| wrong())
    }

    fn step(&mut self, code: u8, target: u8, source: u8, offset: i16, number: i32) {
        let registers = u64::from(target) | u64::from(source) << 4;
        let offset = u64::from(offset.cast_unsigned());
        let number = u64::from(number.cast_unsigned());
        self.steps.push(u64::from(code) | registers << 8 | offset << 16 | number << 32);
    }
}

fn register(word: &str) -> io::Result<u8> {
    let number = word.strip_prefix('r').and_then(|number| number.parse().ok());
    number.ok_or_else(|| invalid(format!("`{word}` is no register")))
}

fn found<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(each, _)| *each == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(source: &str) -> io::Result<Vec<u64>> {
        let assembler =
            Assembler { source, maps: &[("table", 7)], lists: &[("TWO", "read write")] };
        assembler.assemble("main", |field| match field {
            "pid" => Ok(8),
            other => Err(invalid(format!("no field {other}"))),
        })
    }

    const END: [u64; 2] = [0xb7, 0x95];

    #[test]
    fn instructions_are_encoded_as_the_standard_says() {
        let source = "const KEY -4\n\
                      [main]\n    load64  r7 r1 .pid\n    store32 r10 KEY r7\n    jslt    r7 -1 @on\n    # Half.\n    \
                      shl     r7 32\n@on\n    use     other 3\n    map     r1 table\n\
                      [other]\n    set     r2 $\n    jump    @on\n@on\n    or      r2 r1\n";
        let expected = [
            0x0000_0000_0008_1779,
            0x0000_0000_fffc_7a63,
            0xffff_ffff_0001_07c5,
            0x0000_0020_0000_0767,
            0x0000_0003_0000_02b7,
            0x05,
            0x0000_0000_0000_124f,
            0x0000_0007_0000_1118,
            0,
        ];
        assert_eq!(assembled(source).unwrap(), [&expected[..], &END].concat());
    }

    #[test]
    fn a_list_is_a_bit_for_each_call() {
        assert_eq!(assembled("[main]\n    exit\n").unwrap(), [EXIT]);
        let steps = assembled("[main]\n    jin     r7 TWO end\n").unwrap();
        let [read, write] = [libc::SYS_read, libc::SYS_write].map(|call| 1_u64 << call);
        assert_eq!(steps[1], 0x118 | (read | write) << 32);
        let by_bit = [0x717f, 0x0000_0001_0000_0157, 0x0000_0000_0001_0155, 0x05];
        assert_eq!(steps[3..], [&by_bit[..], &END].concat());
    }

    #[test]
    fn what_cannot_be_assembled_is_named() {
        for (line, error) in [
            ("leap r1", "cannot assemble `leap r1`"),
            ("set r1", "cannot assemble `set r1`"),
            ("set r1 MANY", "`MANY` is no number"),
            ("load32 r1 r1 .tid", "no field tid"),
            ("jump @nowhere", "no label @nowhere of 1"),
            ("use nothing", "no section nothing"),
        ] {
            let wrong = assembled(&format!("[main]\n{line}\n")).unwrap_err().to_string();
            assert_eq!(wrong, error);
        }
    }
}
