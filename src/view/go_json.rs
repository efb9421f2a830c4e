//! JSON as Go writes it.

use std::borrow::Cow;

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
