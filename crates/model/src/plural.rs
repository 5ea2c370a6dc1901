//! Counts with their noun.

use std::fmt::Display;

/// `1 CPU`, `2 CPUs`, `3 launches`: a count and a noun, which is regular.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    match &*count {
        "1" => format!("1 {noun}"),
        _ => format!("{count} {}", plural(noun)),
    }
}

/// `CPUs`, `launches`: the plural of a noun, which is regular.
pub fn plural(noun: &str) -> String {
    let ending = if noun.ends_with("ch") { "es" } else { "s" };
    format!("{noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_no_plural() {
        let shown = [0, 1, 2].map(|count| counted(count, "CPU"));
        assert_eq!(shown, ["0 CPUs", "1 CPU", "2 CPUs"]);
        assert_eq!(counted(2, "launch"), "2 launches");
        assert_eq!(counted(1.0, "CPU"), "1 CPU");
        assert_eq!(counted(1.5, "CPU"), "1.5 CPUs");
    }
}
