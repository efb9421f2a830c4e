//! Numbers and lists in sentences.

use std::fmt::Display;

/// A number with its noun: `1 node`, `3 nodes`, `2 policies`, `0 batches`.
pub fn plural(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {}", count(number), nouns(noun)),
    }
}

/// A number with thousands separators: `870`, `15,000`.
pub fn count(number: impl Display) -> String {
    let text = number.to_string();
    let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
    let mut grouped = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A list for a sentence: `a`, `a and b`, `a, b and c`.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first.join(", "), last.as_ref())
        }
    }
}

/// The first `most` names, and the number of other names.
pub fn some_of(names: &[String], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {} more", count(more)),
    }
}

/// The plural of an English noun; of several words, the last word's plural.
fn nouns(noun: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| noun.ends_with(ending));
    match noun.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "x", "ch", "sh"]) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_nouns() {
        let texts = [
            plural(0, "node"),
            plural(1, "node"),
            plural(3, "node"),
            plural(15_000, "custom resource"),
            plural(2, "deployment policy"),
            plural(2, "key"),
            plural(2, "batch"),
            plural(1_234_567, "pod"),
        ];
        assert_eq!(
            texts,
            [
                "0 nodes",
                "1 node",
                "3 nodes",
                "15,000 custom resources",
                "2 deployment policies",
                "2 keys",
                "2 batches",
                "1,234,567 pods",
            ]
        );
    }

    #[test]
    fn thousands_are_apart() {
        let numbers = [0_i64, 999, 1_000, 375_000, -12, -1_500].map(count);
        assert_eq!(numbers, ["0", "999", "1,000", "375,000", "-12", "-1,500"]);
    }

    #[test]
    fn lists_as_in_a_sentence() {
        assert_eq!(list::<&str>(&[]), "");
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
