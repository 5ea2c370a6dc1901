//! `cpu.transform`: what encrypting, hashing, checking or compressing a message costs.

#[cfg(feature = "quic")]
mod role;

use crate::prelude::*;

words! {
    /// What is done to a message.
    pub(crate) enum By {
        /// encrypt and authenticate with AES-128-GCM, as TLS 1.3 does first
        Aes128Gcm = "aes_128_gcm",
        /// encrypt and authenticate with ChaCha20-Poly1305, for CPUs without AES instructions
        ChaCha20Poly1305 = "chacha20_poly1305",
        /// hash with SHA-256
        Sha256 = "sha256",
        /// hash with BLAKE3
        Blake3 = "blake3",
        /// the checksum CRC32C, as iSCSI, ext4 and databases use it
        Crc32c = "crc32c",
        /// compress to an LZ4 block
        Lz4 = "lz4",
        /// compress to a Zstandard frame, at its default level 3
        Zstd = "zstd",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Transform>();

point! {
    /// What does it cost to encrypt, hash, checksum or compress a message?
    ///
    /// The same message of English words each time, in the first caches where it fits; to compress, another one of a MiB of
    /// them, since a CPU learns all branches of a message that is repeated. Ciphers encrypt in place with one
    /// key and a new nonce each time. The result is compared: an encrypted message is decrypted, a compressed one is
    /// decompressed, a hash is that of the message in parts. LZ4's cost includes the table that it allocates for each message;
    /// Zstandard's context is used again.
    /// cpu.memcpy is a pass over the same bytes, os.syscall what a call that sends them costs at least.
    ///
    /// # Predicted from
    /// cycles for a call and for each byte (cpu.frequency): as wide as CPUs with and without instructions for AES, SHA and
    /// vectors differ
    ///
    /// # Sources
    /// - RFC 5116 and 8439 (AEAD), FIPS 180-4 (SHA-256), RFC 3720 appendix B.4 (CRC32C), the BLAKE3 paper (2020), the LZ4
    ///   block format, RFC 8878 (Zstandard)
    /// - the crates ring 0.17 (code of BoringSSL), blake3 1, crc32c 0.6, lz4_flex 0.11, zstd 0.14 (libzstd 1.5)
    /// - openssl-speed(1), for comparison
    ///
    /// # Needs
    /// - a build with the feature quic
    pub(crate) struct Transform of "cpu.transform" {
        /// bytes of the message
        size: usize = bytes(16..=1 << 20, &[1 << 10, 16, 256, 16 << 10, 1 << 20]),
        /// what is done to it
        by: By = words(),
    }
}

impl Measure for Transform {
    const METRICS: &'static [Metric] = metrics! {
        /// one message
        cost: Nanoseconds Lower,
        /// bytes of messages per second, by the cost
        throughput: BytesPerSecond Higher,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["size", "by"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 10, 60));
    const ROUNDS: u32 = 2;
    #[cfg(feature = "quic")]
    const ROLES: &'static [StartRole] = &[alone::<_, role::Transformer>];
    #[cfg(not(feature = "quic"))]
    const ROLES: &'static [StartRole] = &[alone::<Transform, crate::setup::WithoutCryptography>];

    headlines! {
        "hash 1 KiB with SHA-256": { by: By::Sha256 },
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let is_short = point.size <= 4 << 10;
        let (call, byte) = match point.by {
            By::Aes128Gcm => ((100.0, 900.0), (0.2, 2.0)),
            By::ChaCha20Poly1305 => ((200.0, 1_500.0), (0.5, 3.0)),
            By::Sha256 => ((80.0, 900.0), (1.0, 12.0)),
            // A message of several KiB is hashed in several vectors at a time.
            By::Blake3 if is_short => ((50.0, 600.0), (0.5, 5.0)),
            By::Blake3 => ((50.0, 600.0), (0.2, 2.0)),
            By::Crc32c => ((5.0, 80.0), (0.03, 0.6)),
            By::Lz4 => ((200.0, 6_000.0), (1.0, 20.0)),
            By::Zstd => ((500.0, 40_000.0), (3.0, 60.0)),
        };
        let size = point.size as f64;
        let each = cycles(measured, (byte.0 * size, byte.1 * size), "for the bytes")?;
        (cycles(measured, call, "for a call")? + each).predict("cost")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::with_throughput(reports, point.size as u64)
    }
}
