//! Sets of hosts, as ClusterShell and Slurm write them: `node[01-03,07]`.

use crate::harmless::beginning;
use std::collections::BTreeMap;

/// At most this many hosts are named by one set.
const MAX_HOSTS: usize = 10_000;
/// At most this many characters are in the name of one host.
const LONGEST_NAME: usize = 255;
/// An error shows so many characters of what is wrong.
const SHOWN: usize = 100;

/// The hosts of a set: names separated by commas, of which each may have numbers in brackets. `[01-10]` gives all
/// numbers two digits. Brackets with a colon are an address of IP version 6, and stay.
///
/// # Errors
/// The set is malformed or too large. The error says how.
pub fn unfolded(set: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    let mut depth = 0_i32;
    let names = set.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth <= 0
    });
    for name in names {
        hosts.extend(of_name(name.trim())?);
        if hosts.len() > MAX_HOSTS {
            return Err(too_many(set));
        }
    }
    Ok(hosts)
}

fn too_many(set: &str) -> String {
    let set = beginning(set, SHOWN);
    format!("`{set}` names more than {MAX_HOSTS} hosts")
}

fn too_long(name: &str) -> String {
    let name = beginning(name, SHOWN);
    format!("`{name}` is too long for the name of a host")
}

fn of_name(name: &str) -> Result<Vec<String>, String> {
    let mut hosts = vec![String::new()];
    let mut rest = name;
    let unopened = || {
        let name = beginning(name, SHOWN);
        Err(format!("`{name}` has a ] without its ["))
    };
    while let Some((before, more)) = rest.split_once('[') {
        if before.contains(']') {
            return unopened();
        }
        let inside = more.split_once(']');
        let Some((inside, after)) = inside.filter(|(inside, _)| !inside.contains('[')) else {
            let name = beginning(name, SHOWN);
            return Err(format!("`{name}` has a [ without its ]"));
        };
        let numbers =
            if inside.contains(':') { vec![format!("[{inside}]")] } else { numbers(inside)? };
        if hosts.len() * numbers.len() > MAX_HOSTS {
            return Err(too_many(name));
        }
        let each = |host: &String| {
            let host = format!("{host}{before}");
            let numbered = numbers.iter().map(move |number| format!("{host}{number}"));
            numbered.collect::<Vec<_>>()
        };
        hosts = hosts.iter().flat_map(each).collect();
        // Else many brackets would take for ever.
        if hosts[0].len() > LONGEST_NAME {
            return Err(too_long(name));
        }
        rest = after;
    }
    if rest.contains(']') {
        return unopened();
    }
    hosts.iter_mut().for_each(|host| host.push_str(rest));
    if hosts.iter().any(|host| host.len() > LONGEST_NAME) {
        return Err(too_long(name));
    }
    Ok(hosts)
}

/// The numbers of `01-03,07`.
fn numbers(list: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| digits)
        };
        let (from, to) = match (number(first), number(last)) {
            (Some(from), Some(to)) if from <= to => (from, to),
            _ => {
                let range = beginning(range, SHOWN);
                return Err(format!(
                    "`{range}` is not a number or a range of numbers, such as 01-16"
                ));
            }
        };
        // Wider numbers would take all memory, and cannot be formatted.
        if first.len() > LONGEST_NAME {
            return Err(too_long(first));
        }
        if to - from >= (MAX_HOSTS - all.len()) as u64 {
            return Err(too_many(&format!("[{list}]")));
        }
        let digits = if first.starts_with('0') { first.len() } else { 0 };
        all.extend((from..=to).map(|number| format!("{number:0digits$}")));
    }
    Ok(all)
}

/// Names of hosts, those alike but for a number as one: `login, node[01-03,07]`.
pub fn folded(names: &[&str]) -> String {
    let mut alike: BTreeMap<(&str, usize, &str), Vec<u64>> = BTreeMap::new();
    let mut others: Vec<String> = Vec::new();
    for name in names {
        let last = name.rfind(|c: char| c.is_ascii_digit());
        let end = last.filter(|_| !name.contains('[')).map(|last| last + 1);
        let digits =
            end.map(|end| name[..end].bytes().rev().take_while(u8::is_ascii_digit).count());
        let digits = digits.filter(|digits| *digits <= LONGEST_NAME);
        let number = end.zip(digits).and_then(|(end, digits)| {
            let number = name[end - digits..end].parse().ok()?;
            Some(((&name[..end - digits], digits, &name[end..]), number))
        });
        match number {
            Some((parts, number)) => alike.entry(parts).or_default().push(number),
            None => others.push((*name).to_owned()),
        }
    }
    let sets = alike.into_iter().map(|((before, digits, after), mut numbers)| {
        numbers.sort_unstable();
        match &numbers[..] {
            [one] => format!("{before}{one:0digits$}{after}"),
            _ => format!("{before}[{}]{after}", ranges(&numbers, digits)),
        }
    });
    let mut all: Vec<String> = sets.chain(others).collect();
    all.sort();
    all.join(", ")
}

/// `01-03,07`, of numbers in ascending order.
fn ranges(numbers: &[u64], digits: usize) -> String {
    let runs =
        numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next)).map(|run| match run {
            [one] => format!("{one:0digits$}"),
            [first, .., last] => format!("{first:0digits$}-{last:0digits$}"),
            [] => String::new(),
        });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number whose width no format can have.
    fn wide() -> String {
        "0".repeat(70_000) + "1"
    }

    #[test]
    fn hosts_are_folded_into_sets_and_unfolded_again() {
        for (names, set) in [
            (&["node01", "node02", "node03", "node07"][..], "node[01-03,07]"),
            (&["n9", "n10", "n11"], "n9, n[10-11]"),
            (&["login", "rack1-a", "rack2-a"], "login, rack[1-2]-a"),
            (&["99999999999999999999999"], "99999999999999999999999"),
            (&["me@[fd00::1]"], "me@[fd00::1]"),
            (&["x[::1]", "x[::2]"], "x[::1], x[::2]"),
            (&["n18446744073709551615"; 2], "n[18446744073709551615,18446744073709551615]"),
        ] {
            assert_eq!(folded(names), set);
            assert_eq!(unfolded(set).unwrap(), names, "{set}");
        }
        for (set, names) in [
            ("a,b", &["a", "b"][..]),
            ("n[08-10]", &["n08", "n09", "n10"]),
            ("r[1-2]n[1,3].x", &["r1n1.x", "r1n3.x", "r2n1.x", "r2n3.x"]),
            ("ssh://me@n[1-2]:22", &["ssh://me@n1:22", "ssh://me@n2:22"]),
            ("", &[""]),
        ] {
            assert_eq!(unfolded(set).unwrap(), names, "{set}");
        }
        let wide = wide();
        assert_eq!(folded(&[&wide]), wide);
        assert_eq!(unfolded("n[00001-10000]").unwrap().len(), 10_000);
    }

    #[test]
    fn what_is_no_set_is_refused_with_the_reason() {
        let long = format!("n[1-100]{}", "[1]".repeat(10_000));
        let wide = format!("n[{}]", wide());
        for (set, why) in [
            ("n[1-1000000000]", "more than 10000 hosts"),
            ("n[0-18446744073709551615]", "more than 10000 hosts"),
            ("n[1-5000],m[1-5001]", "more than 10000 hosts"),
            ("n[1-200]m[1-200]", "more than 10000 hosts"),
            ("n[1,1-10000]", "more than 10000 hosts"),
            (&long, "too long"),
            (&wide, "too long"),
            ("n[99999999999999999999]", "not a number"),
            ("n[3-1]", "not a number"),
            ("n[+1-2]", "not a number"),
            ("n[]", "not a number"),
            ("n[1-2,]", "not a number"),
            ("n[1-2", "without its ]"),
            ("n[1-[2]]", "without its ]"),
            ("r[1-2]n[1,7[::1]", "without its ]"),
            ("n1-2]", "without its ["),
            ("n1] [::1]", "without its ["),
        ] {
            let error = unfolded(set).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
