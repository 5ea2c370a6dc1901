//! `cpu.tls`: what a TLS 1.3 handshake and a message over TLS cost both ends, without a network.

#[cfg(feature = "quic")]
mod role;

use crate::prelude::*;

words! {
    /// What the two ends do.
    pub(crate) enum Step {
        /// connect: X25519, a signature by Ed25519 and its verification
        Handshake = "handshake",
        /// connect again with what the server has issued before: X25519 without a signature
        Resumed = "resumed",
        /// encrypt a message at one end of a connection and decrypt it at the other
        Message = "message",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Tls>();

point! {
    /// What does TLS 1.3 cost the CPUs of both ends, to connect and per message?
    ///
    /// A client and a server of rustls in one thread pass each other bytes in memory: cost is the work of both ends
    /// together, without a system call or a network. The server proves who it is by a raw public key (RFC 7250); a
    /// certificate adds the verification of its chain, a signature or two. rustls says for each connection whether it was
    /// resumed. A handshake over a network also takes a round trip (net.rtt) after that of TCP (net.connect).
    ///
    /// # Predicted from
    /// cycles (cpu.frequency) of X25519 and Ed25519 in ring, as supercop lists them for such code, with HKDF and the
    /// library; for a message, twice those of cpu.transform, and the library's buffers
    ///
    /// # Sources
    /// - RFC 8446 (TLS 1.3); RFC 7748 (X25519); RFC 8032 (Ed25519)
    /// - rustls 0.23 with ring 0.17, which has no post-quantum key exchange
    /// - D. J. Bernstein, T. Lange, eBACS: ECRYPT Benchmarking of Cryptographic Systems
    ///
    /// # Needs
    /// - a build with the feature quic
    pub(crate) struct Tls of "cpu.tls" {
        /// what the two ends do
        step: Step = words(),
        /// bytes of a message; not used to connect
        size: usize = bytes(1..=16 << 10, &[1 << 10, 16 << 10]),
    }
}

impl Measure for Tls {
    const METRICS: &'static [Metric] = metrics! {
        /// the work of both ends
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["step", "size"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 5, 30));
    const ROUNDS: u32 = 2;
    #[cfg(feature = "quic")]
    const ROLES: &'static [StartRole] = &[alone::<_, role::Connections>];
    #[cfg(not(feature = "quic"))]
    const ROLES: &'static [StartRole] = &[alone::<Tls, crate::setup::WithoutCryptography>];

    headlines! {
        "TLS 1.3 handshake: both ends": {},
    }

    fn check_axes(point: &At<Tls>) -> Result {
        if point.step != Step::Message && point.size != 1 << 10 {
            unsupported!("to connect, no message is sent (leave out size)");
        }
        Ok(())
    }

    fn predict(point: &At<Tls>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        match point.step {
            Step::Handshake => {
                cost_cycles(measured, (3e5, 2e6), "two key exchanges, a signature and its check")
            }
            Step::Resumed => cost_cycles(measured, (2e5, 1.5e6), "two key exchanges"),
            Step::Message => by_cycles(point.size, measured)?.predict("cost"),
        }
    }
}

fn by_cycles(size: usize, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let size = size as f64;
    let bytes = cycles(measured, (0.6 * size, 8.0 * size), "for the bytes")?;
    Some(bytes + cycles(measured, (600.0, 8_000.0), "for both ends of the library")?)
}

/// A message that one end encrypts and the other decrypts: as measured, or from cycles.
pub(crate) fn message(size: usize, measured: &MeasuredRows<'_>) -> Option<Cost> {
    match measured.at(&Tls { step: Step::Message, size }) {
        Some(ns) => Some(Cost::new(ns, "for a message over TLS") * (0.8, 1.5)),
        None => by_cycles(size, measured),
    }
}
