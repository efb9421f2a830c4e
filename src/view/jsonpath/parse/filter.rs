//! Filters: `[?(@.type=="Ready")]`.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment, Test,
};

use super::{MAX_DEPTH, ParseContext, path};
use crate::view::jsonpath::scan::{PathError, Scanner};

/// Parses one condition in parentheses, after the question mark.
pub(super) fn filter(scanner: &mut Scanner<'_>, depth: usize) -> Result<Filter, PathError> {
    scanner.blanks();
    if depth > MAX_DEPTH {
        return Err(scanner.error("too many nested filters"));
    }
    let start = *scanner;
    if !scanner.eat("(") {
        return Err(scanner.unexpected("`(`"));
    }
    let filter = condition(scanner, depth)?;
    scanner.blanks();
    match (scanner.eat(")"), scanner.peek()) {
        (true, _) => Ok(filter),
        (false, None) => Err(start.error("unclosed `(`")),
        (false, Some('&' | '|')) => {
            Err(scanner.error("unsupported second condition in a filter, as in kubectl,"))
        }
        (false, Some(_)) => Err(scanner.unexpected("`)`")),
    }
}

fn condition(scanner: &mut Scanner<'_>, depth: usize) -> Result<Filter, PathError> {
    let start = *scanner;
    let left = operand(scanner, depth)?;
    scanner.blanks();
    match scanner.take_while(|c| matches!(c, '=' | '!' | '<' | '>' | '~')) {
        "" => match left {
            Operand::Path(segments) => Ok(exists(segments)),
            Operand::Literal(_) => Err(scanner.unexpected("a comparison")),
        },
        operator @ ("==" | "!=" | "<" | "<=" | ">" | ">=") => {
            let second = *scanner;
            let right = operand(scanner, depth)?;
            compare(operator, (left, &start), (right, &second))
        }
        operator => {
            Err(start.error(format!("unknown operator `{operator}`, expected ==, !=, <, <=, > or >=,")))
        }
    }
}

enum Operand {
    Path(Vec<Segment>),
    Literal(Literal),
}

fn operand(scanner: &mut Scanner<'_>, depth: usize) -> Result<Operand, PathError> {
    scanner.blanks();
    let start = *scanner;
    match scanner.peek() {
        Some('@' | '$' | '.' | '[') => {
            let segments = path(scanner, ParseContext::Filter(depth))?.segments();
            let segments = segments.ok_or_else(|| start.error("unexpected text within a path"))?;
            Ok(Operand::Path(segments))
        }
        Some('"' | '\'') => Ok(Operand::Literal(Literal::String(scanner.quoted()?))),
        _ => {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '/');
            let word = scanner.take_while(word);
            let literal = match (word, word.parse::<i64>(), word.parse::<f64>()) {
                ("true", ..) => Literal::Bool(true),
                ("false", ..) => Literal::Bool(false),
                ("null", ..) => Literal::Null,
                (_, Ok(integer), _) => Literal::Int(integer),
                (_, _, Ok(float)) if word.starts_with(|c: char| !c.is_alphabetic()) => Literal::Float(float),
                ("", ..) => return Err(start.unexpected("a path that starts with `@`, or a value")),
                _ => return Err(start.error(format!("missing quotes around `{word}`"))),
            };
            Ok(Operand::Literal(literal))
        }
    }
}

fn exists(segments: Vec<Segment>) -> Filter {
    let test = Test::RelQuery(segments);
    Filter::Atom(FilterAtom::test(test, false))
}

/// Parses a comparison. As in kubectl, a comparison with a missing side is false; in RFC 9535, a missing value differs
/// from every other.
fn compare(
    operator: &str,
    (left, at_left): (Operand, &Scanner<'_>),
    (right, at_right): (Operand, &Scanner<'_>),
) -> Result<Filter, PathError> {
    let mut all = Vec::new();
    let mut side = |operand: Operand, at: &Scanner<'_>| match operand {
        Operand::Literal(literal) => Ok(Comparable::Literal(literal)),
        Operand::Path(segments) => {
            let single = segments.iter().map(single).collect::<Option<Vec<_>>>();
            let single =
                single.ok_or_else(|| at.error("comparison with a path that can match several values"))?;
            all.push(exists(segments));
            Ok(Comparable::SingularQuery(SingularQuery::Current(single)))
        }
    };
    let (left, right) = (side(left, at_left)?, side(right, at_right)?);
    let comparison = match operator {
        "==" => Comparison::Eq(left, right),
        "!=" => Comparison::Ne(left, right),
        "<" => Comparison::Lt(left, right),
        "<=" => Comparison::Lte(left, right),
        ">" => Comparison::Gt(left, right),
        _ => Comparison::Gte(left, right),
    };
    all.push(Filter::Atom(FilterAtom::cmp(Box::new(comparison))));
    Ok(Filter::And(all))
}

fn single(segment: &Segment) -> Option<SingularQuerySegment> {
    match segment {
        Segment::Selector(Selector::Name(name)) => Some(SingularQuerySegment::Name(name.clone())),
        Segment::Selector(Selector::Index(index)) => Some(SingularQuerySegment::Index(*index)),
        _ => None,
    }
}
