//! `openssl speed` (openssl-speed(1)): one algorithm on messages of one size, or the operations of a handshake.

use crate::tool::{Reading, Statistic, Tool};

/// Messages of this many bytes by this algorithm of OpenSSL's EVP, for this many seconds of CPU time. A cipher that
/// authenticates does so, with a tag for each message, as TLS does.
pub fn speed(algorithm: &str, message_bytes: u32, seconds: u32) -> Tool<'static> {
    let aead = if algorithm.starts_with("sha") { "" } else { "-aead" };
    let arguments =
        format!("speed -mr -seconds {seconds} -bytes {message_bytes} {aead} -evp {algorithm}");
    Tool::simple("openssl", Statistic::Mean, &arguments, Reading::By(bytes_per_second))
}

/// What a TLS 1.3 handshake does by X25519 and Ed25519: two key pairs and two agreements, of which each is counted as an
/// agreement, a signature and its verification. Each is measured for this many seconds of CPU time.
pub fn handshake(seconds: u32) -> Tool<'static> {
    let arguments = format!("speed -mr -seconds {seconds} ecdhx25519 ed25519");
    Tool::simple("openssl", Statistic::Mean, &arguments, Reading::By(operations_ns))
}

/// Reads operations per second: `+F5:22:253:24515.0:0.000041`, and `+F6:0:253:Ed25519:20165.0:7633.3`.
fn operations_ns(output: &str) -> Option<f64> {
    let rates = |start: &str| {
        let line = output.lines().find(|line| line.starts_with(start))?;
        Some(line.split(':').skip(3).filter_map(|rate| rate.parse().ok()).collect::<Vec<f64>>())
    };
    let (agreements, signatures) = (rates("+F5:")?, rates("+F6:")?);
    let [sign, verify] = signatures[..] else {
        return None;
    };
    Some(1e9 * (4.0 / agreements.first()? + 1.0 / sign + 1.0 / verify))
}

/// Reads `+F:25:sha256:482553856.00`.
fn bytes_per_second(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("+F:"))?;
    line.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rate_is_read() {
        // OpenSSL 3.0.
        let output = "+H:1024\n+F:25:AES-128-GCM:565639168.00\n";
        assert_eq!(bytes_per_second(output), Some(565_639_168.0));
        for output in ["", "+H:1024", "+F:25:sha256:fast"] {
            assert_eq!(bytes_per_second(output), None, "{output}");
        }
    }

    #[test]
    fn the_operations_of_a_handshake_are_added() {
        let output = "+F5:22:253:25000.0:0.000040\n+F6:0:253:Ed25519:20000.0:10000.0\n";
        let ns = operations_ns(output).unwrap();
        assert!((ns - 310e3).abs() < 1e-3, "{ns}");
        for output in ["", "+F5:22:253:25000.0:0.000040", "+F6:0:253:Ed25519:20000.0:10000.0"] {
            assert_eq!(operations_ns(output), None, "{output}");
        }
    }

    #[test]
    fn a_cipher_authenticates_and_a_hash_does_not() {
        let arguments = |algorithm| (speed(algorithm, 16, 1).arguments)().unwrap();
        assert!(arguments("aes-128-gcm").contains(&"-aead".to_owned()));
        assert!(!arguments("sha256").contains(&"-aead".to_owned()));
    }
}
