//! Masks secrets in the logs of containers.

use std::sync::LazyLock;

use regex::Regex;

use super::{IN_NAME, MASKED, SECRET_WORDS, pattern};

/// The header with all its cookies.
pub(super) const COOKIE: &str = r#"(?i)(cookie["']?\s*(?:=>|[:=])\s*)(?P<s>[^\n]+)"#;

/// Pattern of tokens with a known prefix.
pub(super) const TOKENS: &str = r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[0-9A-Za-z_]{16,}|glpat-[0-9A-Za-z_-]{16,}|xox[abeprs]-[0-9A-Za-z_-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|nvapi-[0-9A-Za-z_-]{16,}|hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|AIza[0-9A-Za-z_-]{30,})";

/// Masks everything in the lines of a log that looks like a credential: the patterns of [`super::text`],
/// values that follow the name of a secret, keys and tokens of known formats, and private keys over several
/// lines.
pub fn lines<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Vec<String> {
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
            shown.push(self::line(line));
        }
    }
    // The END marker may be missing as well: drop leading lines that look like key material.
    shown.drain(..lines_of_a_key(&shown));
    shown
}

/// Masks one line, for [`lines`].
pub fn line(line: &str) -> String {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"(?ix)
            ( (?-u:\b) {IN_NAME}* (?: {SECRET_WORDS} | authorization ) {IN_NAME}*
              ["']? \s* (?: => | [:=] ) \s* )
            (?: "[^"]*"? | '[^']*'? | (?:bearer|basic|negotiate)\s+[^\s"']+ | [^\s"',;&]+ )"#,
        ))
    });
    static FLAG: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r#"(?i)(--?{IN_NAME}*(?:{SECRET_WORDS}){IN_NAME}*\s+)(?:"[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
        ))
    });
    static COOKIES: LazyLock<Regex> = LazyLock::new(|| pattern(COOKIE));
    static KNOWN: LazyLock<Regex> = LazyLock::new(|| pattern(TOKENS));
    // A capture contains placeholders instead of secrets. Mask both in the same way.
    static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| pattern("<masked:[0-9a-f]{12}>"));
    let masked = format!("${{1}}{MASKED}");
    let text = super::text(line);
    let text = NAMED.replace_all(&text, masked.as_str());
    let text = FLAG.replace_all(&text, masked.as_str());
    let text = COOKIES.replace_all(&text, masked.as_str());
    let text = KNOWN.replace_all(&text, MASKED);
    PLACEHOLDER.replace_all(&text, MASKED).into_owned()
}

/// Number of leading lines that look like a private key: only base64, with a line length that is usual for
/// keys.
fn lines_of_a_key(lines: &[String]) -> usize {
    const WIDTHS: [usize; 2] = [64, 76];
    let of_key = |line: &&String| {
        let line = line.trim();
        let mut bytes = line.bytes();
        WIDTHS.contains(&line.len())
            && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
    };
    lines.iter().take_while(of_key).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_looks_like_a_secret_is_left() {
        for (original, shown) in [
            ("DB_PASSWORD=hunter2 ./apply.sh", "DB_PASSWORD=<masked> ./apply.sh"),
            ("password: hunter2", "password: <masked>"),
            ("Zugangstoken_für_x=hunter2", "Zugangstoken_für_x=<masked>"),
            ("export TOKEN='a b'", "export TOKEN=<masked>"),
            ("+ login --token hunter2 host", "+ login --token <masked> host"),
            ("+ login --token 'a b' host", "+ login --token <masked> host"),
            ("curl -H 'Authorization: Bearer abc.def' host", "curl -H 'Authorization: <masked>' host"),
            ("+ login --password=hunter2 host", "+ login --password=<masked> host"),
            ("Authorization: Bearer abc.def", "Authorization: <masked>"),
            (r#"{"apiKey": "hunter2", "a": 1}"#, r#"{"apiKey": <masked>, "a": 1}"#),
            ("AWS_SECRET_ACCESS_KEY=a/b+c", "AWS_SECRET_ACCESS_KEY=<masked>"),
            ("using ghp_0123456789abcdefghij", "using <masked>"),
            ("id AKIA0123456789ABCDEF", "id <masked>"),
            ("cannot reach https://me:pw@host/x", "cannot reach https://host/x"),
            ("Set-Cookie: session=abc; path=/", "Set-Cookie: <masked>"),
            ("passphrase => hunter2 x", "passphrase => <masked> x"),
            ("no secrets here, token expired", "no secrets here, token expired"),
            ("bash: nvidia-smi: command not found", "bash: nvidia-smi: command not found"),
        ] {
            assert_eq!(line(original), shown);
        }
    }

    #[test]
    fn private_keys_go_over_several_lines() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let key = ["a", "-----BEGIN RSA PRIVATE KEY-----", body, "-----END RSA PRIVATE KEY-----", "b"];
        assert_eq!(lines(key), ["a", MASKED, "b"]);
        assert_eq!(lines([body, "c2hvcnQ=", "-----END PRIVATE KEY-----", "b"]), [MASKED, "b"]);
        assert_eq!(lines([body, body, "b"]), ["b"]);
    }
}
