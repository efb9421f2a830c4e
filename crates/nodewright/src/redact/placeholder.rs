//! Placeholders for secrets in stored data: equal secrets have equal placeholders, which cannot be reversed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use ring::hmac;
use ring::rand::SystemRandom;

use super::{IN_NAME, SECRET_WORDS, pattern};

/// Prefix of a placeholder.
pub const BEGIN: &str = "<masked:";
/// Number of bytes of the digest in a placeholder.
const SHOWN: usize = 6;
/// Minimum length of a secret to search for in logs. Shorter values match too much.
const TELLING: usize = 8;

/// Creates placeholders with a random key that is never stored.
pub struct Placeholders(hmac::Key);

impl Default for Placeholders {
    fn default() -> Placeholders {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Placeholders(key.expect("the system provides random numbers"))
    }
}

impl Placeholders {
    /// The placeholder for a secret. Empty text and placeholders are returned unchanged.
    pub fn of(&self, secret: &str) -> String {
        if secret.is_empty() || secret.starts_with(BEGIN) {
            return secret.to_owned();
        }
        let digest = hmac::sign(&self.0, secret.as_bytes());
        let hex = digest.as_ref().iter().take(SHOWN);
        let hex: String = hex.map(|byte| format!("{byte:02x}")).collect();
        format!("{BEGIN}{hex}>")
    }

    /// Replaces everything in a text that looks like a credential by placeholders.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.with(text, &PATTERNS)
    }

    /// Replaces credentials in the log of a program. Uses more patterns than [`Placeholders::text`], and
    /// replaces all occurrences of those `secrets` that have at least `TELLING` bytes.
    pub fn log(&self, text: &str, secrets: &BTreeSet<String>) -> String {
        let mut text = self.with(text, &PATTERNS).into_owned();
        text = self.with(&text, &IN_LOGS).into_owned();
        let mut secrets: Vec<&String> = secrets.iter().filter(|s| s.len() >= TELLING).collect();
        // Longest first: a secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), &self.of(secret));
            }
        }
        text
    }

    fn with<'a>(&self, text: &'a str, patterns: &[Regex]) -> Cow<'a, str> {
        if !HINT.is_match(text) {
            return Cow::Borrowed(text);
        }
        let mut text = Cow::Borrowed(text);
        for pattern in patterns {
            let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
                let whole = found.get(0).expect("a match has a whole");
                let named = ["s", "double", "single"].iter();
                let mut named = named.filter_map(|name| found.name(name));
                let secret = named.next().unwrap_or(whole);
                let before = &whole.as_str()[..secret.start() - whole.start()];
                let behind = &whole.as_str()[secret.end() - whole.start()..];
                format!("{before}{}{behind}", self.of(secret.as_str()))
            });
            if let Cow::Owned(masked) = masked {
                text = Cow::Owned(masked);
            }
        }
        text
    }
}

/// Whether a name denotes a secret value.
pub fn names_a_secret(name: &str) -> bool {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)(?:token|passw(?:or)?d|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|key-?data|credentials?)$",
        )
    });
    // Pull secrets are names, not values.
    NAME.is_match(name) && !name.to_ascii_lowercase().ends_with("pullsecret")
}

/// Fast path: text without any of these words matches no pattern.
static HINT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i:token|passw|passphrase|pwd|secret|key|credential|cookie|bearer|basic|authorization|://)|eyJ|PRIVATE KEY|gh[pousr]_|github_pat_|glpat-|xox|AKIA|ASIA|nvapi-|hf_|sk-|AIza",
    )
});

/// A value as shells and programs write it. Quoted text is one value.
const VALUE: &str = r#"(?:"(?P<double>[^"\\\n]+)|'(?P<single>[^'\\\n]+)|(?P<s>[^\s"'\\,;&]+))"#;

/// Patterns of credentials. The secret is the group `s`, `double` or `single`, or else the whole match.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        &format!(r#"(?i)"[^"]*(?:{SECRET_WORDS})"\s*:\s*"(?P<s>(?:[^"\\]|\\.)*)"#),
        &format!(r#"(?i)\\"[^"\\]*(?:{SECRET_WORDS})\\"\s*:\s*\\"(?P<s>[^"\\]*)"#),
        r#"(?i)(?-u:\b)(?:bearer|basic)\s+(?P<s>[^\s"'\\]{6,})"#,
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*",
        r#"(?i)(?-u:\b)[a-z][a-z0-9+.-]*://(?P<s>[^\s"'<>]*)@"#,
        &format!(r"(?i){IN_NAME}*(?:{SECRET_WORDS}){IN_NAME}*\s?=>?\s?{VALUE}"),
        &format!(
            r#"(?i)--{IN_NAME}*(?:{SECRET_WORDS})\s+(?:"(?P<double>[^"\\\n]+)|'(?P<single>[^'\\\n]+)|(?P<s>[^\s"'-][^\s"']*))"#
        ),
    ]
    .map(pattern)
    .into()
});

static IN_LOGS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r#"(?i)(?-u:\b)authorization["']?\s*:\s*["']?(?P<s>(?:bearer|basic|negotiate)\s+[^\s"'\\]+)"#,
        super::log::COOKIE,
        &format!(r#"(?i){IN_NAME}*(?:{SECRET_WORDS}|authorization){IN_NAME}*["']?\s*(?::|=>)\s*{VALUE}"#),
        // The key's beginning is missing: treat all text before the END marker as key material.
        r"(?s)\A.*-----END [A-Z ]*PRIVATE KEY-----",
        super::log::TOKENS,
    ]
    .map(pattern)
    .into()
});

#[cfg(test)]
mod tests {
    use super::*;

    /// The text with `*` for each placeholder.
    fn starred(text: &str) -> String {
        let placeholder = pattern("<masked:[0-9a-f]{12}>");
        placeholder.replace_all(text, "*").into_owned()
    }

    #[test]
    fn equal_secrets_have_equal_placeholders_under_one_key() {
        let (one, other) = (Placeholders::default(), Placeholders::default());
        assert_eq!(one.of("hunter2"), one.of("hunter2"));
        assert_ne!(one.of("hunter2"), one.of("hunter3"));
        assert_ne!(one.of("hunter2"), other.of("hunter2"));
        assert_eq!(one.of(""), "");
        assert_eq!(one.of(&one.of("hunter2")), one.of("hunter2"));
    }

    #[test]
    fn credentials_are_masked() {
        let masks = Placeholders::default();
        for (given, shown) in [
            (r#"{"token":"abc","name":"n"}"#, r#"{"token":"*","name":"n"}"#),
            (r#"{\"password\":\"abc\"}"#, r#"{\"password\":\"*\"}"#),
            ("the Bearer abc.def was no good", "the Bearer * was no good"),
            ("x eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOi.c2ln y", "x * y"),
            ("http://me:p/w@proxy:3128", "http://*@proxy:3128"),
            ("curl '/api?token=abc&x=1'", "curl '/api?token=*&x=1'"),
            ("AWS_SECRET_ACCESS_KEY=abc/1+ go", "AWS_SECRET_ACCESS_KEY=* go"),
            ("sh -c 'x --token abc'", "sh -c 'x --token *'"),
            ("ключ_token_für_x=abc", "ключ_token_für_x=*"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nz", "*\nz"),
            (r#"secret "registry" not found"#, r#"secret "registry" not found"#),
            ("image@sha256:0123 key: value", "image@sha256:0123 key: value"),
            ("the token-reader is basic", "the token-reader is basic"),
        ] {
            assert_eq!(starred(&masks.text(given)), shown, "{given}");
        }
    }

    #[test]
    fn logs_are_masked_more() {
        let masks = Placeholders::default();
        let secrets = BTreeSet::from(["correct horse".to_owned(), "short".to_owned()]);
        let log = "password: abc\n+ export X='correct horse' a short one\n";
        let shown = "password: *\n+ export X='*' a short one\n";
        assert_eq!(starred(&masks.log(log, &secrets)), shown);
    }

    #[test]
    fn secrets_of_several_words_are_masked_whole() {
        let masks = Placeholders::default();
        let log = |text: &str| starred(&masks.log(text, &BTreeSet::new()));
        for (given, shown) in [
            (r#"db.password: "a b" on"#, r#"db.password: "*" on"#),
            ("export PASSWORD='a b' on", "export PASSWORD='*' on"),
            (r#"PASSWORD="it's a" on"#, r#"PASSWORD="*" on"#),
            ("PASSWORD=\"a b\non", "PASSWORD=\"*\non"),
            ("login --token 'a b' on", "login --token '*' on"),
            (r#"login --token "a b" on"#, r#"login --token "*" on"#),
            ("curl -H 'Authorization: Bearer abc.def' on", "curl -H 'Authorization: *' on"),
            ("authorization: negotiate abc", "authorization: *"),
            ("Set-Cookie: session=abc; path=/", "Set-Cookie: *"),
            ("passphrase: abc on", "passphrase: * on"),
            ("token => abc on", "token => * on"),
            (r#""password" => "a b" on"#, r#""password" => "*" on"#),
            (r#"{"privateKey":"abc"}"#, r#"{"privateKey":"*"}"#),
        ] {
            assert_eq!(log(given), shown, "{given}");
        }
    }

    /// Logs from a capture are displayed like logs from a cluster.
    #[test]
    fn masked_log_is_shown_like_the_original() {
        let masks = Placeholders::default();
        for original in [
            "curl -H 'Authorization: Bearer abc.def' https://me:pw@host/",
            r#"db.password: "a b" on"#,
            "export PASSWORD='a b' on",
            "login --token 'a b' on",
            "using AKIA0123456789ABCDEF and ghp_0123456789abcdefghij",
            "password=abc&x=1",
            "> cookie: session=abc; other=def",
            "passphrase=abc x",
            "token => abc x",
        ] {
            let kept = masks.log(original, &BTreeSet::new());
            let line = crate::redact::log::line;
            assert_eq!(line(&kept), line(original), "{kept}");
        }
    }

    #[test]
    fn names_of_secrets() {
        for name in ["token", "dbPassword", "clientSecret", "AWS_ACCESS_KEY"] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["name", "imagePullSecret", "secretName", "key", "tokens"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }

    #[test]
    fn tokens_and_ends_of_keys_are_masked_in_logs() {
        let masks = Placeholders::default();
        let log = |text: &str| starred(&masks.log(text, &BTreeSet::new()));
        assert_eq!(log("with ghp_0123456789abcdefABCD now"), "with * now");
        assert_eq!(log("AKIA0123456789ABCDEF"), "*");
        assert_eq!(
            log(
                "2026-11-20T10:00:00Z MIIEpAIBAAKC\n2026-11-20T10:00:01Z -----END RSA PRIVATE KEY-----\nnext"
            ),
            "*\nnext"
        );
        // Objects may contain names of this form.
        assert_eq!(masks.text("node sk-rack-0001-of-the-cluster"), "node sk-rack-0001-of-the-cluster");
    }
}
