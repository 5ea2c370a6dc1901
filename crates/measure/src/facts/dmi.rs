//! The memory modules in the firmware's tables.
//! Source: SMBIOS Reference Specification (DSP0134) 3.7, sections 6.1.2, 6.1.3 and 7.18.

use costof_model::facts::Dimm;

const MEMORY_DEVICE: u8 = 17;
const END_OF_TABLE: u8 = 127;

/// The installed modules, in the order of the table; a truncated entry is left out.
pub(super) fn dimms(table: &[u8]) -> Vec<Dimm> {
    let mut dimms = Vec::new();
    let mut rest = table;
    while let Some((structure, after)) = Structure::split(rest) {
        match structure.kind() {
            END_OF_TABLE => break,
            MEMORY_DEVICE => dimms.extend(dimm(&structure)),
            _ => {}
        }
        rest = after;
    }
    dimms
}

/// A header, a formatted part of the length that the header gives, then strings, each ended by a
/// zero, and one more zero.
struct Structure<'a> {
    formatted: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Structure<'a> {
    fn split(table: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let length = usize::from(*table.get(1)?);
        if length < 4 {
            return None;
        }
        let (formatted, rest) = table.split_at_checked(length)?;
        let end = rest.windows(2).position(|pair| pair == [0, 0])?;
        Some((Self { formatted, strings: &rest[..=end] }, &rest[end + 2..]))
    }

    fn kind(&self) -> u8 {
        self.formatted[0]
    }

    fn word(&self, offset: usize) -> Option<u16> {
        let bytes = self.formatted.get(offset..offset + 2)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    fn double_word(&self, offset: usize) -> Option<u32> {
        let bytes = self.formatted.get(offset..offset + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A field that holds the number of a string, counted from 1; 0 means no string.
    fn string(&self, offset: usize) -> Option<String> {
        let number = usize::from(*self.formatted.get(offset)?).checked_sub(1)?;
        let bytes = self.strings.split(|&byte| byte == 0).nth(number)?;
        let text = String::from_utf8_lossy(bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// `None` for an empty slot.
fn dimm(structure: &Structure<'_>) -> Option<Dimm> {
    let size = size_bytes(structure);
    if size == Some(0) {
        return None;
    }
    Some(Dimm {
        place: structure.string(0x10),
        bank: structure.string(0x11),
        size_bytes: size,
        speed_transfers_per_s: speed(structure, 0x15, 0x54),
        configured_transfers_per_s: speed(structure, 0x20, 0x58),
        width_bits: structure
            .word(0x0a)
            .filter(|&width| width != 0 && width != u16::MAX)
            .map(u32::from),
    })
}

/// Section 7.18.1: FFFFh is unknown, 7FFFh refers to the extended size in megabytes, bit 15 means
/// kilobytes.
fn size_bytes(structure: &Structure<'_>) -> Option<u64> {
    match structure.word(0x0c)? {
        u16::MAX => None,
        0x7fff => Some(u64::from(structure.double_word(0x1c)? & 0x7fff_ffff) << 20),
        size if size & 0x8000 != 0 => Some(u64::from(size & 0x7fff) << 10),
        size => Some(u64::from(size) << 20),
    }
}

/// Section 7.18.4: 0 is unknown, FFFFh refers to the extended field; in millions per second.
fn speed(structure: &Structure<'_>, offset: usize, extended: usize) -> Option<u64> {
    let millions = match structure.word(offset)? {
        0 => return None,
        u16::MAX => structure.double_word(extended)? & 0x7fff_ffff,
        speed => u32::from(speed),
    };
    (millions > 0).then(|| u64::from(millions) * 1_000_000)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A type 17 structure of SMBIOS 3.3.
    pub(in super::super) fn module(
        size: u16,
        extended: u32,
        kind: u8,
        speed: u16,
        set: u16,
    ) -> Vec<u8> {
        let mut bytes = vec![0u8; 0x5c];
        bytes[0] = MEMORY_DEVICE;
        bytes[1] = 0x5c;
        bytes[0x0a..0x0c].copy_from_slice(&64u16.to_le_bytes());
        bytes[0x0c..0x0e].copy_from_slice(&size.to_le_bytes());
        bytes[0x10] = 1;
        bytes[0x11] = 2;
        bytes[0x12] = kind;
        bytes[0x15..0x17].copy_from_slice(&speed.to_le_bytes());
        bytes[0x17] = 3;
        bytes[0x1a] = 9;
        bytes[0x1c..0x20].copy_from_slice(&extended.to_le_bytes());
        bytes[0x20..0x22].copy_from_slice(&set.to_le_bytes());
        bytes[0x58..0x5c].copy_from_slice(&8800u32.to_le_bytes());
        bytes.extend(b"DIMM 0\0P0 CHANNEL A\0Micron \0\0");
        bytes
    }

    pub(in super::super) fn end() -> Vec<u8> {
        vec![END_OF_TABLE, 4, 0, 0, 0, 0]
    }

    #[test]
    fn modules_are_read_and_empty_slots_left_out() {
        let other = [1, 6, 0, 0, 9, 9, 0, 0];
        let table = [
            other.to_vec(),
            module(0x7fff, 65_536, 0x22, 5600, u16::MAX),
            module(0, 0, 2, 0, 0),
            module(16_384, 0, 0x1a, 3200, 2933),
            module(u16::MAX, 0, 0xee, 0, 0),
            end(),
            module(1024, 0, 0x1a, 1, 1),
        ]
        .concat();
        let dimms = dimms(&table);
        assert_eq!(dimms.len(), 3);
        assert_eq!(
            dimms[0],
            Dimm {
                place: Some("DIMM 0".to_owned()),
                bank: Some("P0 CHANNEL A".to_owned()),
                size_bytes: Some(64 << 30),
                speed_transfers_per_s: Some(5_600_000_000),
                configured_transfers_per_s: Some(8_800_000_000),
                width_bits: Some(64),
            }
        );
        assert_eq!(dimms[1].size_bytes, Some(16 << 30));
        assert_eq!(dimms[1].configured_transfers_per_s, Some(2_933_000_000));
        assert_eq!(dimms[2].size_bytes, None);
    }

    #[test]
    fn a_table_cut_anywhere_or_full_of_noise_ends_early() {
        let table = [module(1024, 0, 0x1a, 3200, 3200), module(1024, 0, 0x1a, 3200, 3200)].concat();
        for end in 0..=table.len() {
            assert!(dimms(&table[..end]).len() <= 2);
        }
        for length in 0..=255u8 {
            let noise: Vec<u8> =
                (0..600u32).map(|i| if i % 7 == 0 { 0 } else { (i * 37 % 251) as u8 }).collect();
            dimms(&[vec![MEMORY_DEVICE, length], noise].concat());
        }
    }
}
