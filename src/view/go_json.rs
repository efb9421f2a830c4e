//! JSON as Go writes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::harmless_json;

/// The characters that Go escapes, for the sake of HTML and of JavaScript. In JSON they stand in strings alone.
const ESCAPED: [(char, &str); 5] = [
    ('<', "\\u003c"),
    ('>', "\\u003e"),
    ('&', "\\u0026"),
    ('\u{2028}', "\\u2028"),
    ('\u{2029}', "\\u2029"),
];

/// The same JSON with the characters escaped that Go escapes.
pub fn escaped(json: &str) -> Cow<'_, str> {
    let mut json = Cow::from(json);
    for (character, sequence) in ESCAPED {
        if json.contains(character) {
            json = json.replace(character, sequence).into();
        }
    }
    json
}

/// JSON as kubectl indents it.
pub fn json(document: &Value) -> String {
    let mut json = Vec::new();
    let pretty = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, pretty);
    let written = document.serialize(&mut serializer);
    written.expect("a JSON value can always be written to memory");
    let json = String::from_utf8(json).expect("JSON is UTF-8");
    harmless_json(&json).into_owned() + "\n"
}
