//! Where the fields of the kernel's structures stand, by its type information.
//!
//! Source: Linux Documentation/bpf/btf.rst, include/uapi/linux/btf.h.

use std::fs;
use std::io;

use crate::system_call::invalid;

const PATH: &str = "/sys/kernel/btf/vmlinux";
const STRUCT: u32 = 4;
/// The kernel's type information.
#[derive(Debug)]
pub(super) struct Btf {
    types: Vec<u32>,
    names: Vec<u8>,
}

impl Btf {
    /// Reads that of this kernel.
    ///
    /// # Errors
    ///
    /// Those of reading it: `NotFound` without CONFIG_DEBUG_INFO_BTF; `InvalidInput` if it is none.
    pub(super) fn read() -> io::Result<Self> {
        Self::parse(&fs::read(PATH)?).ok_or_else(|| invalid(format!("{PATH} cannot be read")))
    }

    /// A header of 24 bytes: a magic number, its own length, and the place and length of the types and of the names.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks().0.iter().copied().map(u32::from_ne_bytes).collect()
        };
        let head = words(bytes.get(..24)?);
        let part = |place: u32, length: u32| {
            let start = head[1] as usize + place as usize;
            bytes.get(start..start + length as usize)
        };
        let is_btf = head[0] & 0xffff == 0xeb9f;
        is_btf.then_some(())?;
        Some(Self {
            types: words(part(head[2], head[3])?),
            names: part(head[4], head[5])?.to_vec(),
        })
    }

    /// Where `structure.field` stands in bytes.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if there is no such field.
    pub(super) fn offset(&self, field: &str) -> io::Result<i16> {
        let found = field.split_once('.').and_then(|(of, field)| self.find(of, field));
        found.ok_or_else(|| invalid(format!("this kernel has no field {field}")))
    }

    fn find(&self, structure: &str, field: &str) -> Option<i16> {
        let is_name = |place: u32, name: &str| {
            let text = self.names.get(place as usize..).unwrap_or_default();
            text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
        };
        let mut rest = &self.types[..];
        while let [name, info, _, following @ ..] = rest {
            // How many words follow depends on the kind of a type, and on how many members it has.
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let length = match kind {
                1 | 14 | 17 => 1,
                3 => 3,
                4 | 5 | 15 | 19 => 3 * members,
                6 | 13 => 2 * members,
                0 | 2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
            if kind == STRUCT && is_name(*name, structure) {
                let members: &[[u32; 3]] = following.get(..length)?.as_chunks().0;
                // Bits; those of bit fields have their width above.
                let found = members.iter().find(|member| is_name(member[0], field));
                if let Some(member) = found {
                    return i16::try_from((member[2] & 0xff_ffff) / 8).ok();
                }
            }
            rest = following.get(length..)?;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, `file { f_pos, f_inode }` and `inode { f_pos }`.
    fn example() -> Vec<u8> {
        let names = b"\0int\0file\0f_pos\0f_inode\0inode\0";
        let int = [1, 1 << 24, 4, 0];
        let file = [5, STRUCT << 24 | 2, 16, 10, 1, 0, 16, 1, 64];
        let inode = [24, STRUCT << 24 | 1, 8, 10, 1, 32];
        let types: Vec<u32> = [&int[..], &file, &inode].concat();
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let head = [0x0001_eb9f, 24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
        let head: Vec<u8> = head.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        [head, types, names.to_vec()].concat()
    }

    #[test]
    fn fields_are_found_in_their_structure() {
        let btf = Btf::parse(&example()).unwrap();
        assert_eq!(btf.offset("file.f_inode").unwrap(), 8);
        assert_eq!(btf.offset("inode.f_pos").unwrap(), 4);
        for none in ["file.f", "inode.f_inode", "int.f_pos", "f_pos", ""] {
            let error = btf.offset(none).unwrap_err().to_string();
            assert!(error.contains(none) && error.contains("no field"), "{error}");
        }
    }

    #[test]
    fn what_is_cut_is_no_type_information() {
        let whole = example();
        for length in 0..whole.len() {
            assert!(Btf::parse(&whole[..length]).is_none(), "{length}");
        }
        // A kind that is not known, which may be followed by anything.
        let mut other = whole;
        other[24 + 7] = 31;
        assert_eq!(Btf::parse(&other).unwrap().find("file", "f_inode"), None);
    }
}
