//! JSON in Go's notation.

use std::borrow::Cow;

use serde::Serialize;

use super::harmless_json;

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
    let written = document.serialize(&mut serializer);
    written.expect("a document is plain data");
    let mut json = String::from_utf8(json).expect("JSON is UTF-8");
    if let Cow::Owned(harmless) = harmless_json(&json) {
        json = harmless;
    }
    json + "\n"
}
