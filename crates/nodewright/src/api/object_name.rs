//! Names that the API server accepts.
//!
//! Names appear in printed command lines. Anyone who can annotate a node could inject a flag there, so names that no
//! object can have are rejected.

/// Whether the text is a DNS-1123 subdomain, as the names of nodes, pods and custom resources are.
pub fn is_object_name(text: &str) -> bool {
    const LONGEST: usize = 253;
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| alphanumeric(*first) && alphanumeric(*last))
            && bytes.iter().all(|b| alphanumeric(*b) || *b == b'-')
    };
    text.len() <= LONGEST && text.split('.').all(label)
}

/// Whether the text cannot be mistaken for a flag on a command line.
pub fn is_word(text: &str) -> bool {
    !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_server_takes_for_one() {
        for name in ["a", "gpu-0001", "node-1.example.com", "0"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", ".", "..", "a..b", "a/b", "a%2Fb", "a b", "a\n", "a#b", "a?b", "A", "a_b", "-a", "a-",
            "a-.b", &long,
        ] {
            assert!(!is_object_name(name), "{name:?}");
        }
    }
}
