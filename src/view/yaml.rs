//! A document as YAML.

use std::sync::LazyLock;

use nodewright::text::escape::json;
use regex::Regex;
use serde_json::Value;

use super::{FormatError, is_harmless};

/// YAML with every string on one line, quoted if another reader could take it for something else.
pub fn yaml(document: &Value) -> Result<String, FormatError> {
    let options = serde_saphyr::ser_options! {
        prefer_block_scalars: false,
    };
    let yaml = serde_saphyr::to_string_with_options(document, options)
        .map_err(|error| FormatError(format!("cannot write YAML: {error}")))?;
    let yaml = if is_harmless(&yaml) { yaml } else { escaped(document) };
    Ok(if yaml.ends_with('\n') { yaml } else { yaml + "\n" })
}

/// YAML with every string as in JSON: the only way to escape characters that the serializer does not escape.
fn escaped(document: &Value) -> String {
    let json = json(document);
    // YAML cannot join surrogate pairs.
    static PAIR: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})";
        Regex::new(pattern).expect("the pattern is valid")
    });
    let whole = PAIR.replace_all(&json, |halves: &regex::Captures<'_>| {
        let half = |n: usize| u16::from_str_radix(&halves[n], 16).unwrap_or_default();
        let letter = char::decode_utf16([half(1), half(2)]).next().and_then(Result::ok).unwrap_or_default();
        format!("\\U{:08x}", u32::from(letter))
    });
    whole.into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_strings_stay_strings_and_stay_readable() {
        let long =
            "a sentence that is far longer than eighty columns, with `quotes`, and goes on and on and on";
        let strings = [
            "=",
            "<<",
            "yes",
            "No",
            "null",
            "~",
            "on",
            "y",
            "1e3",
            "0x10",
            "012",
            "1_000",
            "12:30:45",
            "2026-01-01",
            ".5",
            "",
            " a ",
            "a: b",
            "- a",
            "#a",
            "a #b",
            "@a",
            "`a`",
            "%a",
            "!a",
            "&a",
            "*a",
            "?",
            "{a}",
            "[a]",
            "'a'",
            "\"a\"",
            "two\nlines\n",
            "tab\there",
            "\u{1b}[31m",
            long,
            "{\"a|1.0\":{\"state\":\"complete\"}}",
        ];
        let document = json!({ "list": strings.to_vec(), "<<": 1, "yes": 2, "a: b": 3 });
        let yaml = yaml(&document).expect("it renders");
        assert_eq!(
            yaml,
            r##"list:
- "="
- "<<"
- "yes"
- "No"
- "null"
- "~"
- "on"
- "y"
- "1e3"
- "0x10"
- "012"
- "1_000"
- "12:30:45"
- "2026-01-01"
- ".5"
- ""
- " a "
- "a: b"
- "- a"
- "#a"
- "a #b"
- "@a"
- "`a`"
- "%a"
- "!a"
- "&a"
- "*a"
- "?"
- "{a}"
- "[a]"
- "'a'"
- "\"a\""
- "two\nlines\n"
- "tab\there"
- "\e[31m"
- a sentence that is far longer than eighty columns, with `quotes`, and goes on and on and on
- "{\"a|1.0\":{\"state\":\"complete\"}}"
"<<": 1
"yes": 2
"a: b": 3
"##
        );
        let read: Value = serde_saphyr::from_str(&yaml).expect("YAML");
        assert_eq!(read, document);
    }
}
