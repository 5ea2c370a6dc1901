//! Bytes that both ends of an exchange know, and that are not all zero; and checksums by which ends compare bytes.

/// `size` bytes, the same in every process.
pub fn pattern(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..size).map(|_| next()).collect()
}

/// The checksum of no bytes.
pub const CHECKSUM_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// The checksum of content that goes on with these bytes, after content with this checksum: FNV-1a of 64 bits. Content in
/// another order has another one; nobody is kept from making content that has the same.
pub fn extend_checksum(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The checksum of these bytes.
pub fn checksum(bytes: &[u8]) -> u64 {
    extend_checksum(CHECKSUM_OF_NOTHING, bytes)
}
