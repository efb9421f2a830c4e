//! Errors of kubectl for unexpected data: lists that are too short, values of the wrong kind.

use std::cmp::Ordering;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment,
};
use serde_json::Value;

/// The data does not have the shape that the template requires. As in kubectl, nothing is printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvalError(String);

/// Fails if the segment cannot be applied to the value.
pub(super) fn check(segment: &Segment, value: &Value) -> Result<(), EvalError> {
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
