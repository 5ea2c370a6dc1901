//! Text that looks like English to a compressor: words recur as often as in prose, but in random
//! order. Snappy makes 64 KiB of it 1.64 times smaller; of technical prose in English, 1.73 times.
//!
//! Source: G. K. Zipf, Human Behavior and the Principle of Least Effort, 1949:
//! the word of rank r occurs about 1 ÷ r as often as the first.

use crate::prelude::*;

/// Words, the frequent ones first.
const WORDS: &str = include_str!("english.txt");
/// Endings for longer words.
const ENDINGS: [&str; 8] = ["s", "ed", "ing", "er", "ly", "ness", "ful", "ment"];
/// Approximate length of a line, in bytes.
const LINE: usize = 72;

/// `length` bytes of text, the same for the same seed.
pub(crate) fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = Vec::with_capacity(length + 64);
    let mut in_line = 0;
    let mut begins = true;
    while text.len() < length {
        let start = text.len();
        // Uniform in the logarithm of the rank, which gives rank r its frequency 1 ÷ r. A
        // vocabulary is several times larger than the list: the rare words are those of the list
        // with an ending.
        let rank = (random.f64() * (words.len() as f64 * 9.0).ln()).exp() as usize - 1;
        let word = words[rank % words.len()];
        text.extend_from_slice(word.as_bytes());
        if let Some(ending) = (rank / words.len()).checked_sub(1) {
            text.extend_from_slice(ENDINGS[ending % ENDINGS.len()].as_bytes());
        }
        if begins {
            text[start] = text[start].to_ascii_uppercase();
        }
        begins = random.u8(..12) == 0;
        if begins {
            text.push(b'.');
        } else if random.u8(..11) == 0 {
            text.push(b',');
        }
        in_line += text.len() - start + 1;
        text.push(if in_line > LINE { b'\n' } else { b' ' });
        if in_line > LINE {
            in_line = 0;
        }
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_text_and_another_seed_another() {
        let first = text(100_000, 1);
        assert_eq!(first.len(), 100_000);
        assert_eq!(first, text(100_000, 1));
        assert_ne!(first, text(100_000, 2));
        assert!(text(0, 1).is_empty());
    }

    #[test]
    fn its_words_come_as_often_as_ranks_say() {
        let text = String::from_utf8(text(1 << 20, 1)).unwrap().to_lowercase();
        let words: Vec<&str> = text.split([' ', ',', '.', '\n']).collect();
        let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count() as f64;
        let ratio = count("the") / count("and");
        // Ranks 1 and 3: ln(2 ÷ 1) ÷ ln(4 ÷ 3).
        assert!((ratio / 2.41 - 1.0).abs() < 0.1, "{ratio}");
        assert!(text.lines().all(|line| line.len() <= LINE + 20));
    }
}
