//! Splits text into documents: consecutive JSON values, or YAML documents.

use serde_json::Value;

const TEXT: &str = "it is plain text, not Kubernetes objects";
/// Number of YAML nodes allowed beyond one per byte of text, so that small texts may use aliases.
const SMALL: usize = 1 << 20;
/// Maximum number of bytes that aliases may repeat.
const ALIASED: usize = 16 << 20;

/// Rejects text that cannot contain objects, judged by its first bytes, before the rest is read.
///
/// # Errors
///
/// Fails if the text is a zip archive, is not UTF-8, or contains neither a key nor a comment, but other text.
pub fn look(head: &[u8]) -> Result<(), String> {
    if head.starts_with(b"PK\x03\x04") {
        return Err("a zip archive; unpack it, and pass the directory to --from".to_owned());
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(error.to_string()),
    };
    // The head may lie within a comment, so keys may follow.
    let keyed = text.contains([':', '{', '[']) || text.starts_with('#');
    let blank = |c: char| c.is_whitespace() || c == '\0';
    if text.trim_matches(blank).is_empty() || keyed { Ok(()) } else { Err(TEXT.to_owned()) }
}

/// Beginnings of lines that kubectl writes to stderr, and that `2>&1` adds to its output.
const MESSAGES: [&str; 3] =
    ["Warning: ", "Error from server", "error: the server doesn't have a resource type"];
/// Maximum number of characters of a quoted line.
const QUOTED: usize = 160;

/// Whether a line is a message of kubectl, not a part of an object.
pub fn is_message(line: &[u8]) -> bool {
    MESSAGES.iter().any(|start| line.starts_with(start.as_bytes()))
}

/// A line for an error or a note, without secrets.
pub fn quoted(line: &str) -> String {
    crate::redact::log::lines([line]).concat().trim().chars().take(QUOTED).collect()
}

/// Splits messages of kubectl off the beginning and the end of a text.
pub fn without_messages(text: &str) -> (&str, Vec<&str>) {
    let (mut rest, mut messages) = (text, Vec::new());
    while let Some((line, after)) = rest.split_once('\n').filter(|(line, _)| is_message(line.as_bytes())) {
        messages.push(line);
        rest = after;
    }
    loop {
        let end = rest.trim_end();
        let start = end.rfind('\n').map_or(0, |at| at + 1);
        if !is_message(&end.as_bytes()[start..]) {
            return (rest, messages);
        }
        messages.push(&end[start..]);
        rest = &rest[..start];
    }
}

/// The first line of a text whose next lines are JSON.
pub fn text_before_json(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next()?;
    lines.next().is_some_and(|next| next.starts_with(['{', '['])).then_some(first)
}

/// Whether a text begins with an action of a Go template. JSON never does.
pub fn begins_template(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(b"{{")
}

/// Whether a text contains Go template actions. Objects such as ConfigMaps may contain some as well.
pub fn has_actions(text: &str) -> bool {
    text.split_once("{{").is_some_and(|(_, rest)| rest.contains("}}"))
}

/// Whether the name or kind of an object is a template action. An unquoted action is a mapping in YAML.
pub fn has_template_name(object: &Value) -> bool {
    let action = |value: &Value| match value {
        Value::String(text) => has_actions(text),
        Value::Object(_) => true,
        _ => false,
    };
    action(&object["metadata"]["name"]) || action(&object["kind"])
}

/// Splits text into its documents. Empty text has none.
///
/// # Errors
///
/// Fails with one line that has the position of the syntax error. It never quotes the text, which may contain
/// secrets.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if text.trim_start().starts_with(['{', '[']) {
        // Flow-style YAML also starts like this, but kubectl never writes it.
        return serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|e| if e.is_eof() { format!("cut off: {e}") } else { e.to_string() });
    }
    // Limits for YAML grow with the text, as every YAML node takes at least one byte: a capture of 15,000
    // nodes has tens of millions of YAML nodes. Nodes that aliases repeat count each time.
    let size = text.len() + SMALL;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: size.saturating_mul(2),
            max_nodes: size,
            max_documents: 1_000_000,
            max_total_scalar_bytes: size + ALIASED,
        },
        with_snippet: false,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|e| first_line(&e.to_string()))?;
    // Plain text parses as a YAML string.
    match documents.iter().find(|d| !d.is_object()) {
        Some(_) => Err(TEXT.to_owned()),
        None => Ok(documents),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_yaml_in_a_row() {
        for text in ["{\"a\":1}\n{\"a\":2}\n", "a: 1\n---\na: 2\n", "---\na: 1\n---\n---\na: 2\n"] {
            let documents = parse(text).expect(text);
            assert_eq!(documents, [serde_json::json!({"a": 1}), serde_json::json!({"a": 2})], "{text}");
        }
        assert_eq!(parse(" \n"), Ok(vec![]));
    }

    #[test]
    fn templates_are_recognized() {
        for text in ["{{- if .Values.a }}\n", " {{ include \"a\" . }}"] {
            assert!(begins_template(text.as_bytes()), "{text}");
        }
        assert!(!begins_template(br#"{"a": {"b": 1}}"#));
        assert!(has_actions("a: {{ .Values.a }}\n") && !has_actions("a: {b: {c: 1}}"));
        let name = |name: Value| serde_json::json!({"kind": "Node", "metadata": {"name": name}});
        assert!(has_template_name(&name("{{ .Release.Name }}-a".into())));
        assert!(!has_template_name(&name("a".into())));
        assert!(!has_template_name(&serde_json::json!({"kind": "List"})));
    }

    #[test]
    fn messages_of_kubectl_around_objects_are_split_off() {
        for (text, rest, count) in [
            ("Warning: a is deprecated\nkind: A\n", "kind: A\n", 1),
            ("kind: A\nError from server (Forbidden): no\n\n", "kind: A\n", 1),
            ("Warning: a\nWarning: b\nkind: A\nError from server (NotFound): c", "kind: A\n", 3),
            ("error: the server doesn't have a resource type \"a\"\n", "", 1),
            ("kind: A\nnote: |\n  Warning: b\n", "kind: A\nnote: |\n  Warning: b\n", 0),
            ("Unable to connect\nkind: A\n", "Unable to connect\nkind: A\n", 0),
        ] {
            let (found, messages) = without_messages(text);
            assert_eq!((found, messages.len()), (rest, count), "{text}");
        }
        assert_eq!(text_before_json("I am text\n{\n"), Some("I am text"));
        assert_eq!(text_before_json("kind: A\nspec: {\n"), None);
    }

    #[test]
    fn what_is_neither_says_where() {
        assert_eq!(parse("{\"a\": [1,"), Err("cut off: EOF while parsing a value at line 1 column 9".into()));
        assert_eq!(
            parse("error: no server\n").map_err(|_| ()),
            Ok(vec![serde_json::json!({"error": "no server"})])
        );
        assert_eq!(parse("no server\n"), Err("it is plain text, not Kubernetes objects".into()));
    }
}
