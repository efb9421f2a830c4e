//! Masks secrets in output and stored data.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use ring::hmac;
use ring::rand::SystemRandom;

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
    url(server).split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_owned()
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
            _ if is_interrupt(whole) => whole.to_owned(),
            _ if NO_CREDENTIALS.contains(&word.as_str()) => whole.to_owned(),
            "" => format!("{MASKED}{end}"),
            _ => format!("{}{MASKED}{end}", &whole[..whole.len() - value.len()]),
        }
    };
    BARE.replace_all(&urls(&text), bare).into_owned()
}

/// Whether a text is the interrupt of a package as its container gets it, which is in the spec: base64 of
/// `{"type":"service_restart"…` or `{"type":"node_restart"…`. Longer beginnings than `{"type":"`, because keys of Google Cloud
/// begin with `{"type":"service_account"`.
fn is_interrupt(text: &str) -> bool {
    ["eyJ0eXBlIjoic2VydmljZV9yZXN0", "eyJ0eXBlIjoibm9kZV9yZXN0"].iter().any(|start| text.starts_with(start))
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

/// The header with all its cookies.
const COOKIE: &str = r#"(?i)(cookie["']?\s*(?:=>|[:=])\s*)(?P<s>[^\n]+)"#;

/// Pattern of tokens with a known prefix.
const TOKENS: &str = r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[0-9A-Za-z_]{16,}|glpat-[0-9A-Za-z_-]{16,}|xox[abeprs]-[0-9A-Za-z_-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|nvapi-[0-9A-Za-z_-]{16,}|hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|AIza[0-9A-Za-z_-]{30,})";

/// Masks everything in the lines of a log that looks like a credential: the patterns of [`text`],
/// values that follow the name of a secret, keys and tokens of known formats, and private keys over several
/// lines.
pub fn log_lines<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut inside = false;
    let mut shown = Vec::new();
    for line in lines {
        let line = line.as_ref();
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            inside = !line.contains("-----END");
            shown.push(MASKED.to_owned());
        } else if inside {
            inside = !line.contains("-----END");
        } else if line.contains("PRIVATE KEY-----") {
            // The key's beginning is missing: treat all text before the END marker as key material.
            shown = vec![MASKED.to_owned()];
        } else {
            shown.push(log_line(line));
        }
    }
    // The END marker may be missing as well: drop leading lines that look like key material.
    shown.drain(..lines_of_a_key(&shown));
    shown
}

/// Masks one line, for [`lines`].
pub fn log_line(line: &str) -> String {
    // A capture contains placeholders instead of secrets. Mask both in the same way.
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| pattern("<masked:[0-9a-f]{12}>"));
    let text = replaced(&text(line), [&*ASSIGNMENTS, &IN_LOGS], |_| MASKED.to_owned()).into_owned();
    PLACEHOLDER.replace_all(&text, MASKED).into_owned()
}

/// Number of leading lines that look like a private key: only base64, with a line length that is usual for
/// keys.
fn lines_of_a_key(lines: &[String]) -> usize {
    const WIDTHS: [usize; 2] = [64, 76];
    let of_key = |line: &&String| {
        let line = line.trim();
        WIDTHS.contains(&line.len())
            && line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    };
    lines.iter().take_while(of_key).count()
}

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
        let hex: String = digest.as_ref().iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
        format!("{BEGIN}{hex}>")
    }

    /// Replaces everything in a text that looks like a credential by placeholders.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        replaced(text, [&*PATTERNS, &ASSIGNMENTS], |secret| self.of(secret))
    }

    /// Replaces credentials in the log of a program. Uses more patterns than [`Placeholders::text`], and
    /// replaces all occurrences of those `secrets` that have at least `TELLING` bytes.
    pub fn log(&self, text: &str, secrets: &BTreeSet<String>) -> String {
        let mut text =
            replaced(text, [&*PATTERNS, &ASSIGNMENTS, &IN_LOGS], |secret| self.of(secret)).into_owned();
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
}

/// Replaces the secrets that the patterns find.
fn replaced<'a, const N: usize>(
    text: &'a str,
    patterns: [&[Regex]; N],
    mask: impl Fn(&str) -> String,
) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    if !HINT.is_match(&text) {
        return text;
    }
    for pattern in patterns.into_iter().flatten() {
        let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
            let whole = found.get(0).expect("a match has a whole");
            let secret = ["s", "double", "single"].iter().find_map(|name| found.name(name)).unwrap_or(whole);
            if is_interrupt(secret.as_str()) {
                return whole.as_str().to_owned();
            }
            let before = &whole.as_str()[..secret.start() - whole.start()];
            let behind = &whole.as_str()[secret.end() - whole.start()..];
            format!("{before}{}{behind}", mask(secret.as_str()))
        });
        if let Cow::Owned(masked) = masked {
            text = Cow::Owned(masked);
        }
    }
    text
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

/// A value in a log, also with backslashes.
const LOGGED: &str =
    r#"(?:"(?P<double>[^"\n]+)|'(?P<single>[^'\n]+)|(?P<s>(?:(?:bearer|basic|negotiate)\s+)?[^\s"',;&]+))"#;

/// The value of a flag.
const ARGUMENT: &str = r#"(?:"(?P<double>[^"\\\n]+)|'(?P<single>[^'\\\n]+)|(?P<s>[^\s"'-][^\s"']*))"#;

/// Patterns of credentials. The secret is the group `s`, `double` or `single`, or else the whole match.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        &format!(r#"(?i)"[^"]*(?:{SECRET_WORDS})"\s*:\s*"(?P<s>(?:[^"\\]|\\.)*)"#),
        &format!(r#"(?i)\\"[^"\\]*(?:{SECRET_WORDS})\\"\s*:\s*\\"(?P<s>[^"\\]*)"#),
        r#"(?i)(?-u:\b)(?:bearer|basic)\s+(?P<s>[^\s"'\\]{6,})"#,
        r"(?-u:\b)eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*",
        r#"(?i)(?-u:\b)[a-z][a-z0-9+.-]*://(?P<s>[^\s"'<>]*)@"#,
    ]
    .map(pattern)
    .into()
});

/// Patterns of values that are assigned to the name of a secret.
static ASSIGNMENTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        format!(r"(?i){IN_NAME}*(?:{SECRET_WORDS}){IN_NAME}*\s?=>?\s?{VALUE}"),
        format!(r"(?i)--{IN_NAME}*(?:{SECRET_WORDS})\s+{ARGUMENT}"),
    ]
    .map(|text| pattern(&text))
    .into()
});

static IN_LOGS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r#"(?i)(?-u:\b)authorization["']?\s*:\s*["']?(?P<s>(?:bearer|basic|negotiate)\s+[^\s"'\\]+)"#,
        COOKIE,
        &format!(r#"(?i){IN_NAME}*(?:{SECRET_WORDS}|authorization){IN_NAME}*["']?\s*(?:=>|[:=])\s*{LOGGED}"#),
        &format!(r"(?i)(?:^|\s)-{IN_NAME}*(?:{SECRET_WORDS}){IN_NAME}*\s+{ARGUMENT}"),
        // The key's beginning is missing: treat all text before the END marker as key material.
        r"(?s)\A.*-----END [A-Z ]*PRIVATE KEY-----",
        TOKENS,
    ]
    .map(pattern)
    .into()
});

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
            // The interrupt of a package, and a key with the same beginning.
            ("/root eyJ0eXBlIjoibm9kZV9yZXN0YXJ0In0=", "/root eyJ0eXBlIjoibm9kZV9yZXN0YXJ0In0="),
            ("/root eyJ0eXBlIjoic2VydmljZV9hY2NvdW50IiwicHJpdmF0ZV9rZXki", "/root <masked>"),
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

    #[test]
    fn nothing_that_looks_like_a_secret_is_left() {
        for (original, shown) in [
            ("DB_PASSWORD=hunter2 ./apply.sh", "DB_PASSWORD=<masked> ./apply.sh"),
            ("password: hunter2", "password: <masked>"),
            ("Zugangstoken_für_x=hunter2", "Zugangstoken_für_x=<masked>"),
            ("export TOKEN='a b'", "export TOKEN='<masked>'"),
            ("+ login --token hunter2 host", "+ login --token <masked> host"),
            ("+ login -password hunter2 host", "+ login -password <masked> host"),
            ("password   = hunter2", "password   = <masked>"),
            (r#""db_password" = "hunter2""#, r#""db_password" = "<masked>""#),
            ("HTTP_AUTHORIZATION=Negotiate YIIabc", "HTTP_AUTHORIZATION=<masked>"),
            (r"PASSWORD=hun\ter2 a", "PASSWORD=<masked> a"),
            (r"token=\abc", "token=<masked>"),
            ("+ login --token 'a b' host", "+ login --token '<masked>' host"),
            ("curl -H 'Authorization: Bearer abc.def' host", "curl -H 'Authorization: <masked>' host"),
            ("+ login --password=hunter2 host", "+ login --password=<masked> host"),
            ("Authorization: Bearer abc.def", "Authorization: <masked>"),
            (r#"{"apiKey": "hunter2", "a": 1}"#, r#"{"apiKey": "<masked>", "a": 1}"#),
            ("AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=<masked>"),
            ("using ghp_0123456789abcdefghij", "using <masked>"),
            ("id AKIA0123456789ABCDEF", "id <masked>"),
            ("cannot reach https://me:pw@host/x", "cannot reach https://host/x"),
            ("Set-Cookie: session=abc; path=/", "Set-Cookie: <masked>"),
            ("passphrase => hunter2 x", "passphrase => <masked> x"),
            ("no secrets here, token expired", "no secrets here, token expired"),
            ("bash: nvidia-smi: command not found", "bash: nvidia-smi: command not found"),
        ] {
            assert_eq!(log_line(original), shown);
        }
    }

    #[test]
    fn private_keys_go_over_several_lines() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let key = ["a", "-----BEGIN RSA PRIVATE KEY-----", body, "-----END RSA PRIVATE KEY-----", "b"];
        assert_eq!(log_lines(key), ["a", MASKED, "b"]);
        assert_eq!(log_lines([body, "c2hvcnQ=", "-----END PRIVATE KEY-----", "b"]), [MASKED, "b"]);
        assert_eq!(log_lines([body, body, "b"]), ["b"]);
    }

    /// The text with `*` for each placeholder.
    fn starred(text: &str) -> String {
        pattern("<masked:[0-9a-f]{12}>").replace_all(text, "*").into_owned()
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
            assert_eq!(log_line(&kept), log_line(original), "{kept}");
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
