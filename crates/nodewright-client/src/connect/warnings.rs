//! The `Warning:` headers of an API server's responses.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex};

use http::HeaderMap;
use http::header::WARNING;
use regex::Regex;

/// Collects the server's warnings without duplicates until they are printed.
///
/// Clones share their warnings.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    seen: HashSet<String>,
    fresh: Vec<String>,
}

impl Warnings {
    /// The new warnings since the last call, in order. Each warning is returned only once.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().fresh)
    }

    /// Reads the warnings of one response.
    pub(super) fn note(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            for warning in parse(&text) {
                self.say(warning);
            }
        }
    }

    /// Adds a warning of the client itself.
    pub(super) fn say(&self, warning: String) {
        let mut state = self.lock();
        if state.seen.insert(warning.clone()) {
            state.fresh.push(warning);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding the lock")
    }
}

/// The texts of one header: `299 AGENT "TEXT" ["DATE"]`, separated by commas.
///
/// Ignores malformed warnings and warnings with other codes, which are not from Kubernetes, as client-go
/// does.
fn parse(header: &str) -> Vec<String> {
    static WARNING: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"(?-u:\b)(?<code>[0-9]{3}) +\S+ +"(?<text>(?:[^"\\]|\\.)*)"(?: +"[^"]*")?"#;
        Regex::new(pattern).expect("the pattern is valid")
    });
    let warnings = WARNING.captures_iter(header);
    let ours = warnings.filter(|warning| &warning["code"] == "299");
    let texts = ours.map(|warning| unescaped(&warning["text"]));
    texts.filter(|text| !text.is_empty()).collect()
}

/// The text with escape sequences resolved, and without control characters.
fn unescaped(text: &str) -> String {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\(.)").expect("the pattern is valid"));
    let text = ESCAPE.replace_all(text, "$1");
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_client_go_reads_them() {
        for (header, texts) in [
            (r#"299 - "a is deprecated""#, vec!["a is deprecated"]),
            (r#"299 - "say \"b\"" "Sun, 01 Jan 2026""#, vec![r#"say "b""#]),
            (r#"299 - "a", 299 apiserver "b""#, vec!["a", "b"]),
            (r#"199 - "other""#, vec![]),
            (r#"299 - "open"#, vec![]),
            ("", vec![]),
        ] {
            assert_eq!(parse(header), texts, "{header}");
        }
    }

    #[test]
    fn each_is_given_out_once() {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        headers.append(WARNING, r#"299 - "a""#.parse().expect("a header"));
        headers.append(WARNING, r#"299 - "b""#.parse().expect("a header"));
        warnings.note(&headers);
        warnings.note(&headers);
        assert_eq!(warnings.take(), ["a", "b"]);
        warnings.note(&headers);
        assert_eq!(warnings.take(), Vec::<String>::new());
    }
}
