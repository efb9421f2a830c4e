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

mod parse;

use std::collections::HashMap;

use std::cmp::Ordering;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, JpQuery, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment,
};
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use crate::view::Joined;
use nodewright::text::escape::{escaped, json};

/// A template, such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    parts: Vec<Part>,
}

/// The output of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    pub text: String,
    /// Whether each path has found something.
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
            found.iter().map(|value| printed(value)).joined(" ")
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
            escaped(&json(&list)).into_owned()
        })
    }

    fn render(&self, document: &Value, write: impl Fn(&[&Value]) -> String) -> Result<Printed, EvalError> {
        let mut text = String::new();
        // Whether each path has found something.
        let mut found_any: HashMap<*const Path, bool> = HashMap::new();
        visit(&self.parts, document, &mut |part, found| {
            if !matches!(part, Part::Range(..)) {
                text.push_str(&write(found));
            }
            if let Part::Path(path) | Part::Range(path, _) = part {
                *found_any.entry(path).or_default() |= !found.is_empty() || !path.looks_up();
            }
        })?;
        Ok(Printed { text, matched: found_any.values().all(|any| *any) })
    }
}

/// Escapes harmful characters in strings of the data, but not in the template's own text.
fn sanitized(value: Value) -> Value {
    let letters = |text: &str| super::harmless_lines(text).into_owned();
    match value {
        Value::String(text) => Value::String(letters(&text)),
        Value::Array(items) => items.into_iter().map(sanitized).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (letters(&key), sanitized(value))).collect()
        }
        other => other,
    }
}

/// Passes each part with its results to `print`, in the order of printing; a range comes before its parts.
fn visit<'a>(
    parts: &'a [Part],
    current: &'a Value,
    print: &mut dyn FnMut(&'a Part, &[&'a Value]),
) -> Result<(), EvalError> {
    for part in parts {
        match part {
            Part::Text(text) => print(part, &[text]),
            Part::Path(path) => print(part, &path.find(current)?),
            Part::Range(path, body) => {
                let found = path.find(current)?;
                print(part, &found);
                for each in found {
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
        from.iter().try_for_each(|value| check(segment, value))?;
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

/// The data does not have the shape that the template requires. As in kubectl, nothing is printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(String);

/// Fails if the segment cannot be applied to the value.
fn check(segment: &Segment, value: &Value) -> Result<(), EvalError> {
    match segment {
        // Every value below is searched.
        Segment::Descendant(_) => Ok(()),
        Segment::Selector(selector) => selects(selector, value),
        Segment::Selectors(all) => all.iter().try_for_each(|s| selects(s, value)),
    }
}

fn selects(selector: &Selector, value: &Value) -> Result<(), EvalError> {
    match selector {
        Selector::Name(_) | Selector::Wildcard => Ok(()),
        Selector::Index(index) => bounds(value, Some(*index), Some(*index), true),
        Selector::Slice(start, end, _) => bounds(value, *start, *end, false),
        Selector::Filter(filter) => match value {
            Value::Array(items) => items.iter().try_for_each(|item| compares(filter, item)),
            Value::Object(_) | Value::Null => Ok(()),
            other => Err(EvalError(format!("{} is not a list and cannot be filtered", kind(other)))),
        },
    }
}

/// Checks a slice; an index (`one`) is the slice of one item that starts there.
fn bounds(value: &Value, start: Option<i64>, end: Option<i64>, one: bool) -> Result<(), EvalError> {
    let length = match value {
        Value::Array(items) => i64::try_from(items.len()).unwrap_or(i64::MAX),
        Value::Null => return Ok(()),
        other => return Err(EvalError(format!("{} is not a list", kind(other)))),
    };
    let from_end = |at: i64| if at < 0 { at + length } else { at };
    let start = from_end(start.unwrap_or(0));
    let end = if one { start + 1 } else { from_end(end.unwrap_or(length)) };
    let outside =
        |index: i64| Err(EvalError(format!("index {index} is out of bounds for a list of length {length}")));
    match start.cmp(&end) {
        Ordering::Equal => Ok(()),
        _ if start >= length || start < 0 => outside(start),
        _ if end > length || end < 0 => outside(end - 1),
        Ordering::Greater => Err(EvalError(format!("a slice that starts at {start} cannot end at {end}"))),
        Ordering::Less => Ok(()),
    }
}

fn compares(filter: &Filter, item: &Value) -> Result<(), EvalError> {
    match filter {
        Filter::Or(all) | Filter::And(all) => all.iter().try_for_each(|f| compares(f, item)),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => compares(expr, item),
        Filter::Atom(FilterAtom::Test { .. }) => Ok(()),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = match &**comparison {
                Comparison::Eq(left, right)
                | Comparison::Ne(left, right)
                | Comparison::Gt(left, right)
                | Comparison::Gte(left, right)
                | Comparison::Lt(left, right)
                | Comparison::Lte(left, right) => (left, right),
            };
            match (side(left, item), side(right, item)) {
                (Some(left), Some(right)) if left != right => {
                    Err(EvalError(format!("{left} and {right} cannot be compared: {comparison}")))
                }
                _ => Ok(()),
            }
        }
    }
}

/// The type of an operand; `None` if it is missing or null.
fn side(side: &Comparable, item: &Value) -> Option<&'static str> {
    match side {
        Comparable::Literal(Literal::Int(_) | Literal::Float(_)) => Some("a number"),
        Comparable::Literal(Literal::String(_)) => Some("a string"),
        Comparable::Literal(Literal::Bool(_)) => Some("a boolean"),
        Comparable::Literal(Literal::Null) | Comparable::Function(_) => None,
        Comparable::SingularQuery(SingularQuery::Current(segments) | SingularQuery::Root(segments)) => {
            let found = segments.iter().try_fold(item, |at, segment| match segment {
                SingularQuerySegment::Name(name) => at.get(name),
                SingularQuerySegment::Index(index) => {
                    let items = at.as_array()?;
                    let from_end = i64::try_from(items.len()).ok()? + index;
                    let at = if *index < 0 { from_end } else { *index };
                    items.get(usize::try_from(at).ok()?)
                }
            })?;
            (!found.is_null()).then(|| kind(found))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A template error with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at character {at}{}", after(.before))]
pub struct PathError {
    what: String,
    /// Position in characters, counted from one.
    at: usize,
    /// Text before the position.
    before: String,
}

fn after(before: &str) -> String {
    match before {
        "" => String::new(),
        _ => format!(", after `{before}`"),
    }
}

#[derive(Debug, Clone, Copy)]
struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Scanner<'s> {
    fn new(text: &'s str) -> Scanner<'s> {
        Scanner { text, at: 0 }
    }

    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn error(&self, what: impl Into<String>) -> PathError {
        const SHOWN: usize = 24;
        let before = &self.text[..self.at];
        let length = before.chars().count();
        let tail: String = before.chars().skip(length.saturating_sub(SHOWN)).collect();
        PathError {
            what: what.into(),
            at: length + 1,
            before: if length > SHOWN { format!("…{tail}") } else { tail },
        }
    }

    /// An error with the found and the expected token.
    fn unexpected(&self, expected: &str) -> PathError {
        match self.peek() {
            Some(c) => self.error(format!("expected {expected}, found `{c}`")),
            None => self.error(format!("expected {expected}, found the end")),
        }
    }

    /// Parses a quoted string with Go's escapes, from the opening quote on.
    fn quoted(&mut self) -> Result<String, PathError> {
        let start = *self;
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(start.error("unclosed quote")),
                c if c == quote => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, PathError> {
        let start = *self;
        let digits = match self.next() {
            Some('n') => return Ok('\n'),
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('a') => return Ok('\x07'),
            Some('b') => return Ok('\x08'),
            Some('f') => return Ok('\x0c'),
            Some('v') => return Ok('\x0b'),
            Some(c @ ('\\' | '"' | '\'')) => return Ok(c),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(start.error("unknown escape sequence")),
        };
        let code = self.rest().get(..digits);
        let code = code.filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        self.at += code.map_or(0, |_| digits);
        code.and_then(char::from_u32).ok_or_else(|| start.error("invalid character escape"))
    }
}
