//! What a page shows, and what no run file can make it do.

use super::*;
use costof_model::testing::run_without_facts as run;
use std::process::Command;

#[test]
fn the_digest_is_that_of_the_script() {
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page/script.js");
    let Ok(shown) = Command::new("sha256sum").arg(script).output() else {
        eprintln!("skipped: there is no sha256sum here (coreutils)");
        return;
    };
    let shown = String::from_utf8(shown.stdout).unwrap();
    let digits = shown.chars().take(64);
    let mut bits: String = digits
        .map(|digit| format!("{:04b}", digit.to_digit(16).unwrap()))
        .collect();
    assert_eq!(bits.len(), 256, "{shown}");
    bits += "00";
    let letters = bits.as_bytes().chunks(6).map(|six| {
        let value = six
            .iter()
            .fold(0, |value, bit| 2 * value + usize::from(bit - b'0'));
        char::from(BASE64[value])
    });
    assert_eq!(
        SCRIPT_SHA256.trim(),
        letters.chain(['=']).collect::<String>()
    );
}

#[test]
fn a_page_of_nothing_says_so() {
    let page = page(&run(), &[]);
    assert!(page.contains("No point was measured"));
    assert!(page.contains("Everything that was asked has a number"));
}
