//! Masks secrets in output and stored data.

pub mod log;
pub mod placeholder;

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The placeholder of a secret.
pub const MASKED: &str = "<masked>";

/// A URL for display. Removes the part before an `@`, which may be a password, and masks the query, which may
/// contain one.
pub fn url(url: &str) -> String {
    let (scheme, address) = match url.split_once("://") {
        Some((scheme, address)) => (format!("{scheme}://"), address),
        None => (String::new(), url),
    };
    // A password may contain any character, even an invalid one: treat everything up to the last @ as
    // credentials.
    let address = address.rsplit_once('@').map_or(address, |(_, host)| host);
    match address.find(['?', '#']) {
        Some(at) => format!("{scheme}{}{MASKED}", &address[..=at]),
        None => format!("{scheme}{address}"),
    }
}

/// The address of a server, without credentials, query and trailing slashes.
pub fn address(server: &str) -> String {
    let url = url(server);
    let address = url.split(['?', '#']).next().unwrap_or_default();
    address.trim_end_matches('/').to_owned()
}

/// Removes or masks everything in the URLs of a text that may be a credential.
pub fn urls(text: &str) -> String {
    static USER: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(?i)(?-u:\b)([a-z][a-z0-9+.-]*://)(?:[^\s"'<>]|<masked:[0-9a-f]+>)*@"#));
    static QUERY: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?i)([?&][^=&\s]*(?:token|passw|pwd|secret|api-?key|auth|credential|signature)[^=&\s]*=)[^&\s"<>\\]*"#,
        )
    });
    let text = USER.replace_all(text, "${1}");
    let masked = |found: &Captures<'_>| format!("{}{MASKED}{}", &found[1], punctuation(&found[0]));
    QUERY.replace_all(&text, masked).into_owned()
}

/// The punctuation that ends a value: it belongs to the sentence.
fn punctuation(value: &str) -> &str {
    &value[value.trim_end_matches([')', ']', '}', ':', ',', '.', ';', '!', '\'']).len()..]
}

/// Words that follow "bearer" and "basic" in error messages without being a credential.
const NO_CREDENTIALS: [&str; 33] = [
    "token",
    "tokens",
    "auth",
    "authentication",
    "authorization",
    "credential",
    "credentials",
    "scheme",
    "header",
    "realm",
    "it",
    "the",
    "this",
    "is",
    "was",
    "has",
    "are",
    "not",
    "no",
    "failed",
    "expired",
    "invalid",
    "rejected",
    "required",
    "missing",
    "cannot",
    "could",
    "must",
    "for",
    "from",
    "of",
    "in",
    "and",
];

/// Masks everything in a text that looks like a credential, even if it is truncated.
pub fn text(text: &str) -> String {
    static MEMBERS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?i)("[^"]*(?:token|password|passwd|secret|api-?key|key-data|keydata|credential)"\s*:\s*")(?:[^"\\]|\\.)*"#,
        )
    });
    static BARE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(?i:bearer|basic)(?P<words>(?:\s+(?i:token|credentials?|auth(?:entication|orization)?|scheme|header|basic|bearer)(?-u:\b):?)*)\s+(?P<value>[^\s"'\\]+)|eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*"#,
        )
    });
    let masked = format!("${{1}}{MASKED}");
    let text = MEMBERS.replace_all(text, masked.as_str());
    let bare = |found: &Captures<'_>| {
        let whole = &found[0];
        let value = found.name("value").map_or(whole, |value| value.as_str());
        let end = punctuation(value);
        let word = value[..value.len() - end.len()].to_ascii_lowercase();
        match found.name("words").map_or("", |words| words.as_str()) {
            _ if NO_CREDENTIALS.contains(&word.as_str()) => whole.to_owned(),
            "" => format!("{MASKED}{end}"),
            _ => format!("{}{MASKED}{end}", &whole[..whole.len() - value.len()]),
        }
    };
    BARE.replace_all(&urls(&text), bare).into_owned()
}

/// A character of a name, including all characters outside ASCII. `\w` and `\b` are avoided: compiling their
/// Unicode tables takes longer than a diagnosis.
const IN_NAME: &str = r"(?-i:[0-9A-Za-z_.\x{80}-\x{10FFFF}-])";

/// Words in the names of secret values, as a pattern.
const SECRET_WORDS: &str = "token|passw(?:or)?d|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key\
                            |key-?data|credentials?";

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_looks_like_a_secret_is_said() {
        for (original, shown) in [
            (r#"{"kind":"X","token":"abc","name":"n"}"#, r#"{"kind":"X","token":"<masked>","name":"n"}"#),
            (r#"{"status":{"Token" : "a\"b"}}"#, r#"{"status":{"Token" : "<masked>"}}"#),
            (r#"{"clientKeyData":"abc"#, r#"{"clientKeyData":"<masked>"#),
            (r#"{"client-key-data":"abc"}"#, r#"{"client-key-data":"<masked>"}"#),
            (r#"{"dbPassword":"abc"}"#, r#"{"dbPassword":"<masked>"}"#),
            ("the Bearer abc.def was no good", "the <masked> was no good"),
            ("Basic dXNlcjpwYXNz", "<masked>"),
            ("(Bearer abc.def): connection refused", "(<masked>): connection refused"),
            ("bearer token abc123: expired", "bearer token <masked>: expired"),
            ("invalid bearer token: it has expired", "invalid bearer token: it has expired"),
            ("basic authentication failed for ann", "basic authentication failed for ann"),
            ("basic authorization: Basic abc123 was sent", "basic authorization: Basic <masked> was sent"),
            ("Bearer authabc expired", "<masked> expired"),
            (
                r#"{"url":"/api?token=abc","reason":"denied"}"#,
                r#"{"url":"/api?token=<masked>","reason":"denied"}"#,
            ),
            (
                "request for url (https://h/?token=abc): refused",
                "request for url (https://h/?token=<masked>): refused",
            ),
            ("x eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOi.c2ln y", "x <masked> y"),
            ("/api?token=abc&x=1", "/api?token=<masked>&x=1"),
            ("no route to http://me:p/w@proxy:3128: refused", "no route to http://proxy:3128: refused"),
            (r#"{"name":"token-reader"}"#, r#"{"name":"token-reader"}"#),
            (
                "registry/image@sha256:0123 of https://host/path",
                "registry/image@sha256:0123 of https://host/path",
            ),
        ] {
            assert_eq!(text(original), shown);
        }
    }

    #[test]
    fn a_url_keeps_its_address_alone() {
        for (given, shown) in [
            ("https://host:6443/k8s", "https://host:6443/k8s"),
            ("host:6443", "host:6443"),
            ("https://me:pw@host:6443/k8s", "https://host:6443/k8s"),
            ("https://me:p@w/d@host", "https://host"),
            ("https://me:p?w@host/k8s", "https://host/k8s"),
            ("me:pw@host", "host"),
            ("https://host/?token=abc", "https://host/?<masked>"),
            ("https://me:pw@host?a=b#c", "https://host?<masked>"),
            ("https://host#abc", "https://host#<masked>"),
            ("https://host?mail=a@b", "https://b"),
        ] {
            assert_eq!(url(given), shown, "{given}");
        }
    }
}
