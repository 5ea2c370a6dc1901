//! Which encoding a text file has that is not UTF-8: a shell's redirection, an editor or a compressor may have
//! converted it.
//!
//! Source: The Unicode Standard, section 23.8 (byte order marks); file(1) (`magic`).

/// The first bytes of what is no UTF-8, the longest first: its name, and the command that converts it.
const MARKED: [(&[u8], &str, &str); 8] = [
    (b"\xff\xfe\0\0", "UTF-32", "iconv -f UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32", "iconv -f UTF-32"),
    (b"\xff\xfe", "UTF-16", "iconv -f UTF-16"),
    (b"\xfe\xff", "UTF-16", "iconv -f UTF-16"),
    (b"\x1f\x8b", "compressed by gzip", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc"),
    (b"\xfd7zXZ\0", "compressed by xz", "xz -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
];

/// If a file that begins with these bytes is certainly not UTF-8 text: what it is, and how to convert it. Without a
/// byte order mark, UTF-16 and UTF-32 are recognised by the zeros of an ASCII character.
pub fn foreign(start: &[u8]) -> Option<String> {
    let marked = MARKED.iter().find(|(mark, ..)| start.starts_with(mark));
    let marked = marked.map(|(_, name, command)| (*name, *command));
    // Which of the first four bytes are zeros.
    let zeros = start.first_chunk().map(|four: &[u8; 4]| four.map(|byte| byte == 0));
    let (name, command) = marked.or(match zeros {
        Some([false, true, true, true]) => Some(("UTF-32", "iconv -f UTF-32LE")),
        Some([true, true, true, false]) => Some(("UTF-32", "iconv -f UTF-32BE")),
        Some([false, true, false, true]) => Some(("UTF-16", "iconv -f UTF-16LE")),
        Some([true, false, true, false]) => Some(("UTF-16", "iconv -f UTF-16BE")),
        _ => None,
    })?;
    let target = if command.starts_with("iconv") { " -t UTF-8" } else { "" };
    Some(format!(
        "it is {name}, and costof reads UTF-8 (convert it: `{command}{target} FILE > NEW`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certainly_no_utf_8_is_named() {
        let utf_16 = |unit: fn(u16) -> [u8; 2]| "{\"a".encode_utf16().flat_map(unit).collect();
        let [little, big]: [Vec<u8>; 2] = [utf_16(u16::to_le_bytes), utf_16(u16::to_be_bytes)];
        for (bytes, name) in [
            (&little[..], "UTF-16LE"),
            (&big, "UTF-16BE"),
            (&[b"\xff\xfe", &little[..]].concat(), "UTF-16 -t"),
            (b"\xff\xfe\0\0{\0\0\0", "UTF-32 -t"),
            (b"{\0\0\0\"\0\0\0", "UTF-32LE"),
            (b"\0\0\0{\0\0\0\"", "UTF-32BE"),
            (b"\x1f\x8b\x08\0", "gzip"),
        ] {
            let named = foreign(bytes).unwrap_or_default();
            assert!(named.contains(name), "{bytes:?}: {named}");
        }
        for text in ["", "{", "\u{feff}{", "\0\0\0\0", "{\0", "{\"type\":\"run\"", "µ"] {
            assert_eq!(foreign(text.as_bytes()), None, "{text:?}");
        }
    }
}
