//! Values in Go's notation, as kubectl prints them.

use serde_json::Value;

use crate::view::go_json::escaped;

/// The document with sorted keys in all objects: kubectl prints and visits them in this order.
pub(super) fn sorted(document: &Value) -> Value {
    let mut document = document.clone();
    document.sort_all_objects();
    document
}

/// A value as text: bare strings, floats in Go's shortest form, everything else as JSON.
pub(in crate::view) fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        other => escaped(&whole(other).to_string()).into_owned(),
    }
}

/// Writes floats without a fraction as integers, as Go does in JSON: `2.0` becomes `2`.
pub(super) fn whole(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| (key.clone(), whole(value)));
            Value::Object(members.collect())
        }
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            let text = float.map(|f| format!("{f:.0}")).filter(|t| t.parse().ok() == float);
            text.and_then(|t| t.parse::<i64>().ok()).map_or_else(|| value.clone(), Value::from)
        }
        plain => plain.clone(),
    }
}

/// Go's `%v`: the shortest exact digits, with an exponent below 1e-4 and from 1e6 on.
fn float(number: f64) -> String {
    let spelled = format!("{number:e}");
    let Some((digits, exponent)) = spelled.split_once('e') else {
        return spelled;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..6 => format!("{number}"),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}
