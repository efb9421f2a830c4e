//! The syntax of label keys and values, label selectors and durations, as Kubernetes validates it.

use super::LabelSelector;
use super::object_name::is_object_name;

/// Why a text is not a qualified name such as `example.com/pool`; `None` if it is one.
pub fn qualified_name_error(text: &str) -> Option<&'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if prefix.is_some_and(|prefix| !is_object_name(prefix)) {
        return Some("has a prefix that is not a DNS name");
    }
    match name {
        "" => Some("has no name"),
        name => label_value_error(name),
    }
}

/// Why a text is not a label value; `None` if it is one.
pub fn label_value_error(text: &str) -> Option<&'static str> {
    let alphanumeric = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    if bytes.len() > 63 {
        Some("is longer than 63 characters")
    } else if !bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)) {
        Some("contains other characters than letters, digits, '-', '_' and '.'")
    } else if !(alphanumeric(bytes.first()) && alphanumeric(bytes.last())) {
        Some("must begin and end with a letter or digit")
    } else {
        None
    }
}

/// The invalid requirements of a selector: the path within the selector, and the error.
pub fn selector_errors(selector: &LabelSelector) -> Vec<(Vec<String>, String)> {
    let mut errors = Vec::new();
    for (key, value) in &selector.match_labels {
        let key_error = qualified_name_error(key).map(|why| format!("the key {key:?} {why}"));
        let value_error = label_value_error(value).map(|why| format!("the value {value:?} {why}"));
        for why in [key_error, value_error].into_iter().flatten() {
            errors.push((vec!["matchLabels".to_owned(), key.clone()], why));
        }
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let operator = requirement.operator.as_str();
        let why = match (operator, requirement.values.is_empty()) {
            ("In" | "NotIn", true) => Some(format!("{operator} requires values")),
            ("Exists" | "DoesNotExist", false) => Some(format!("{operator} takes no values")),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            _ => Some(format!("the operator must be In, NotIn, Exists or DoesNotExist, but is {operator:?}")),
        };
        let key = &requirement.key;
        let key_error = qualified_name_error(key).map(|why| format!("the key {key:?} {why}"));
        let values = requirement.values.iter();
        let value_errors =
            values.filter_map(|value| Some(format!("the value {value:?} {}", label_value_error(value)?)));
        for why in why.into_iter().chain(key_error).chain(value_errors) {
            errors.push((vec!["matchExpressions".to_owned(), index.to_string()], why));
        }
    }
    errors
}

/// Whether Go parses a text as a duration: `90s`, `1h30m`, `-1.5h`, `0`.
pub fn is_duration(text: &str) -> bool {
    duration_seconds(text).is_some()
}

/// The seconds of a duration of Go; `None` if the text is none.
pub fn duration_seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim_start_matches(['-', '+']);
    if text.len() - rest.len() > 1 || rest.is_empty() {
        return None;
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if rest == "0" {
        return Some(0.0);
    }
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = rest[..rest.len() - unit.len()].parse().ok()?;
        let matched = units.iter().filter_map(|(name, length)| Some((unit.strip_prefix(name)?, length)));
        let (after, length) = matched.min_by_key(|(rest, _)| rest.len())?;
        seconds += number * length;
        rest = after;
    }
    Some(sign * seconds)
}
