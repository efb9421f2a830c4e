//! kubectl's JSONPath, evaluated by the RFC 9535 engine of `jsonpath-rust`.
//!
//! kubectl has its own dialect: templates of text and `{paths}`, `{range}…{end}`, names with escaped dots.
//! This module parses the dialect and translates it to the engine's query model, so that nothing has to be
//! quoted twice.
//!
//! Beyond kubectl, a template without braces is a path (`.metadata.name`), filters compare integers with
//! floats, keys in brackets may contain dots and double quotes, `[*]` and filters work on objects, and `{.}`
//! is the whole document. On unexpected data it follows kubectl: a missing key prints nothing; an index out
//! of range and a comparison of a string with a number fail.

mod eval_error;
mod parse;
mod scan;

use jsonpath_rust::parser::model::{JpQuery, Segment};
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use crate::view::go_json::escaped;
pub use eval_error::EvalError;
pub use scan::PathError;

/// A template, such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    parts: Vec<Part>,
}

/// The output of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    pub text: String,
    /// Whether a path has found something; `true` for a template without paths.
    pub matched: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Text between the paths.
    Text(Value),
    Path(Path),
    /// The parts up to `{end}`, printed once for each result of the path.
    Range(Path, Vec<Part>),
}

/// One path, relative to the current object.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Path {
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq)]
enum PathStep {
    Query(JpQuery),
    /// The second query runs if the first finds nothing: `['a.b']` is one key, or as in kubectl a path of two
    /// keys.
    Either(JpQuery, JpQuery),
    /// Text or a number in braces: `{"\n"}`.
    Literal(Value),
}

impl JsonPath {
    pub fn parse(text: &str) -> Result<JsonPath, PathError> {
        parse::template(text).map(|parts| JsonPath { parts })
    }

    /// The output of `-o jsonpath`: blanks separate the results of one path, objects and lists are JSON.
    ///
    /// # Errors
    ///
    /// The data does not have the shape that the template requires.
    pub fn text(&self, document: &Value) -> Result<Printed, EvalError> {
        self.render(&sanitized(sorted(document)), |found| {
            found.iter().map(|value| printed(value)).collect::<Vec<_>>().join(" ")
        })
    }

    /// The output of `-o jsonpath-as-json`: one JSON list for each path and each text.
    ///
    /// # Errors
    ///
    /// The data does not have the shape that the template requires.
    pub fn json(&self, document: &Value) -> Result<Printed, EvalError> {
        self.render(&sorted(document), |found| {
            let list = Value::Array(found.iter().map(|value| whole(value)).collect());
            escaped(&crate::view::go_json::json(&list)).into_owned()
        })
    }

    fn render(&self, document: &Value, write: impl Fn(&[&Value]) -> String) -> Result<Printed, EvalError> {
        let (mut text, mut matched) = (String::new(), !looks_up(&self.parts));
        visit(&self.parts, document, &mut |found, found_by_path| {
            text.push_str(&write(found));
            matched |= found_by_path && !found.is_empty();
        })?;
        Ok(Printed { text, matched })
    }
}

/// Escapes harmful characters in strings of the data, but not in the template's own text.
fn sanitized(value: Value) -> Value {
    let letters = |text: &str| super::harmless_lines(text).into_owned();
    match value {
        Value::String(text) => Value::String(letters(&text)),
        Value::Array(items) => items.into_iter().map(sanitized).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members.map(|(key, value)| (letters(&key), sanitized(value))).collect()
        }
        other => other,
    }
}

/// Whether any of the parts prints a value of the document.
fn looks_up(parts: &[Part]) -> bool {
    parts.iter().any(|part| match part {
        Part::Text(_) => false,
        Part::Path(path) => path.looks_up(),
        Part::Range(_, body) => looks_up(body),
    })
}

/// Passes the results of each part to `print`, in the order of printing.
fn visit<'a>(
    parts: &'a [Part],
    current: &'a Value,
    print: &mut dyn FnMut(&[&'a Value], bool),
) -> Result<(), EvalError> {
    for part in parts {
        match part {
            Part::Text(text) => print(&[text], false),
            Part::Path(path) => print(&path.find(current)?, path.looks_up()),
            Part::Range(path, body) => {
                for each in path.find(current)? {
                    visit(body, each, print)?;
                }
            }
        }
    }
    Ok(())
}

impl Path {
    /// A path on its own, with or without braces and leading dot.
    pub(super) fn parse(text: &str) -> Result<Path, PathError> {
        parse::lone_path(text)
    }

    /// Whether the path reads the document; a literal such as `{"\n"}` does not.
    fn looks_up(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, PathStep::Literal(_)))
    }

    pub(super) fn find<'a>(&'a self, current: &'a Value) -> Result<Vec<&'a Value>, EvalError> {
        let mut from = vec![current];
        for step in &self.steps {
            from = match step {
                PathStep::Query(query) => find(query, from)?,
                PathStep::Either(first, second) => match find(first, from.clone())? {
                    found if found.is_empty() => find(second, from)?,
                    found => found,
                },
                PathStep::Literal(value) => vec![value],
            };
        }
        Ok(from)
    }
}

/// Evaluates a query segment by segment, so that each segment can check its input, such as the length of a
/// list.
fn find<'a>(query: &JpQuery, mut from: Vec<&'a Value>) -> Result<Vec<&'a Value>, EvalError> {
    for segment in &query.segments {
        from.iter().try_for_each(|value| eval_error::check(segment, value))?;
        let one = JpQuery::new(vec![segment.clone()]);
        from = match segment {
            // As in kubectl, each member of a union is applied to all values before the next member.
            Segment::Selectors(members) => members
                .iter()
                .map(|member| JpQuery::new(vec![Segment::Selector(member.clone())]))
                .flat_map(|member| from.iter().flat_map(|v| run(&member, v)).collect::<Vec<_>>())
                .collect(),
            _ => from.iter().flat_map(|value| run(&one, value)).collect(),
        };
    }
    Ok(from)
}

/// Runs a query; the engine fails only for functions, which the dialect does not have.
fn run<'a>(query: &JpQuery, value: &'a Value) -> Vec<&'a Value> {
    let found = js_path_process(query, value).unwrap_or_default();
    found.into_iter().map(|found| found.val).collect()
}

/// The document with sorted keys in all objects: kubectl prints and visits them in this order.
fn sorted(document: &Value) -> Value {
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
fn whole(value: &Value) -> Value {
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

#[cfg(test)]
mod tests;
