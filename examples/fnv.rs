use std::hint::black_box;

static MESSAGE: [u8; 4096] = [b'a'; 4096];

#[unsafe(no_mangle)]
pub extern "C" fn fnv(n: u64, size: u64) {
    for _ in 0..n {
        let message = black_box(&MESSAGE[..size as usize]);
        let hash = message.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        black_box(hash);
    }
}
