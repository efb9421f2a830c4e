//! Foreign text made safe to print.
//!
//! Anyone with write access to the cluster can write annotations, events and messages. An escape sequence
//! could repaint the terminal; a bidirectional override could disguise a command as another.

use std::borrow::Cow;
use std::fmt::Write;

use serde::Serialize;
use shlex::Quoter;

use super::Joined;

/// Text for one line: control characters, invisible characters and unusual blanks are spelled out.
///
/// ESC becomes `^[` as in kubectl, a newline `\n`, a tab `\t`, other controls `^A`, the rest `<U+202E>`.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false, spell)
}

/// Text of several lines: [`sanitize`] that keeps newlines and tabs.
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| matches!(c, '\n' | '\t'), spell)
}

/// JSON text with harmful characters escaped as `\u202e`.
///
/// Such characters occur only in JSON strings, where the escape means the same character, so readers get the
/// same data. Newlines and tabs are layout: within strings, JSON escapes them anyway.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    replaced(
        json,
        |c| matches!(c, '\n' | '\t' | '\r'),
        |out, c| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// XML with harmful characters spelled out as `<U+202E>`, and escaped: they occur only in text and attributes.
pub fn harmless_xml(xml: &str) -> Cow<'_, str> {
    replaced(
        xml,
        |c| matches!(c, '\n' | '\t' | '\r'),
        |out, c| {
            let _ = write!(out, "&lt;U+{:04X}&gt;", u32::from(c));
        },
    )
}

/// Whether multi-line text can be printed unchanged.
pub fn is_harmless(text: &str) -> bool {
    !text.contains(|c| c != '\n' && is_harmful(c))
}

fn replaced(text: &str, keep: fn(char) -> bool, write: fn(&mut String, char)) -> Cow<'_, str> {
    let harm = |c: char| is_harmful(c) && !keep(c);
    // Fast path: most text is ASCII, whose bytes need no decoding.
    let plain = |byte: u8| matches!(byte, b' '..=b'~') || byte.is_ascii() && keep(byte.into());
    if text.bytes().all(plain) || !text.contains(harm) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harm(c) {
            write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn spell(out: &mut String, c: char) {
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        '\0'..='\x1f' => write!(out, "^{}", char::from(c as u8 + 0x40)),
        '\x7f' => write!(out, "^?"),
        _ => write!(out, "<U+{:04X}>", u32::from(c)),
    };
}

/// Whether a character moves the cursor, changes the reading direction, is invisible, is a blank other than the ASCII
/// space, or is not allowed in XML.
fn is_harmful(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(c,
        // C1 controls: U+009B alone starts an escape sequence.
        '\u{80}'..='\u{9f}'
        // Blanks: they split a name into two words, or hide at its end.
        | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}'
        // Line and paragraph separators, embeddings and overrides.
        | '\u{2028}'..='\u{202e}'
        // Unicode's Default_Ignorable_Code_Point: joiners, marks, isolates, fillers, variation selectors,
        // tags.
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}'..='\u{ffff}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Quotes the words of a command for a shell.
pub fn shell_words<S: AsRef<str>>(argv: &[S]) -> String {
    argv.iter().map(|word| shell_word(word.as_ref())).joined(" ")
}

/// Quotes a word if necessary; for a flag, only its value: `--for=deleted`, `--for='a b'`.
fn shell_word(word: &str) -> String {
    match word.split_once('=') {
        _ if is_bare(word) => word.to_owned(),
        Some((flag, value)) if is_bare(flag) => format!("{flag}={}", quoted(value)),
        _ => quoted(word),
    }
}

/// Whether a word needs no quotes. Shells do not interpret `=` and `,` within a word.
fn is_bare(word: &str) -> bool {
    let mut parts = word.split(['=', ',']).filter(|part| !part.is_empty());
    !word.is_empty() && !word.starts_with('=') && parts.all(|part| quoted(part) == part)
}

fn quoted(word: &str) -> String {
    Quoter::new().allow_nul(true).quote(word).expect("only NUL cannot be quoted").into_owned()
}

/// Characters that Go escapes for HTML and JavaScript. In JSON they occur only in strings.
const ESCAPED: [(char, &str); 5] =
    [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// Escapes the characters that Go escapes.
pub fn escaped(json: &str) -> Cow<'_, str> {
    let mut json = Cow::from(json);
    for (character, sequence) in ESCAPED {
        if json.contains(character) {
            json = json.replace(character, sequence).into();
        }
    }
    json
}

/// JSON with kubectl's indentation.
pub fn json<T: Serialize + ?Sized>(document: &T) -> String {
    let mut json = Vec::new();
    let pretty = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, pretty);
    document.serialize(&mut serializer).expect("a document is plain data");
    let mut json = String::from_utf8(json).expect("JSON is UTF-8");
    if let Cow::Owned(harmless) = harmless_json(&json) {
        json = harmless;
    }
    json + "\n"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spells_out_what_could_do_harm() {
        assert_eq!(sanitize("gpu-0001: ok, naïve 日本"), "gpu-0001: ok, naïve 日本");
        assert_eq!(sanitize("\x1b[31mred\x1b[0m\r\n\ta\x07\x7f"), "^[[31mred^[[0m\\r\\n\\ta^G^?");
        assert_eq!(
            sanitize("a\u{9b}31m\u{202e}b\u{200b}\u{feff}\u{e0041}"),
            "a<U+009B>31m<U+202E>b<U+200B><U+FEFF><U+E0041>"
        );
        assert_eq!(harmless_lines("a\tb\r\nc\x1b[2J"), "a\tb\\r\nc^[[2J");
        // Blanks, and fillers that look like a space or are invisible.
        assert_eq!(
            sanitize("gpu\u{3164}\u{fe0f}\u{2800}\u{a0}\u{ffa0}tune"),
            "gpu<U+3164><U+FE0F><U+2800><U+00A0><U+FFA0>tune"
        );
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}31m\x1b\u{e0041}", "日本\n\u{7f}"]});
        let json = serde_json::to_string_pretty(&value).expect("a value");
        let safe = harmless_json(&json);
        assert_eq!(
            safe,
            "{\n  \"a\\u202e\": [\n    \"\\u009b31m\\u001b\\udb40\\udc41\",\n    \"日本\\n\\u007f\"\n  ]\n}"
        );
        let read: serde_json::Value = serde_json::from_str(&safe).expect("still JSON");
        assert_eq!(read, value);
    }

    proptest! {
        #[test]
        fn nothing_harmful_is_left(text in any::<String>()) {
            prop_assert!(!sanitize(&text).chars().any(is_harmful));
        }
    }

    #[test]
    fn a_shell_reads_the_same_words() {
        for (words, line) in [
            (&["wait", "gpu", "--for=deleted"][..], "wait gpu --for=deleted"),
            (&["-l", "pool=gpu", ""], "-l pool=gpu ''"),
            (&["--reason=two words"], "--reason='two words'"),
            (&["it's", "$HOME", "a;b", "{a,b}"], r#""it's" '$HOME' 'a;b' '{a,b}'"#),
            (&["=x", "x=", "a,b=c"], "'=x' x= a,b=c"),
        ] {
            let argv: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(shell_words(&argv), line);
            assert_eq!(shlex::split(line), Some(argv));
        }
    }
}
