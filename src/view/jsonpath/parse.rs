//! The parser of templates and paths.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, JpQuery, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment, Test,
};
use serde_json::Value;

use super::{Part, Path, PathError, PathStep, Scanner};

/// Maximum nesting of ranges and filters; limits the use of the stack.
pub(super) const MAX_DEPTH: usize = 32;

/// Parses text with paths in braces; a text without braces is a path.
pub(super) fn template(text: &str) -> Result<Vec<Part>, PathError> {
    if !text.contains(['{', '}']) && !text.is_empty() {
        return lone_path(text).map(|path| vec![Part::Path(path)]);
    }
    let mut scanner = Scanner::new(text);
    parts(&mut scanner, 0)
}

/// Parses `{.a.b}`, `{a.b}`, `.a.b` or `a.b`, and nothing else.
pub(super) fn lone_path(text: &str) -> Result<Path, PathError> {
    let mut scanner = Scanner::new(text);
    let braced = scanner.eat("{");
    let path = path(&mut scanner, ParseContext::Template)?;
    if braced && !scanner.eat("}") {
        return Err(scanner.unexpected("`}`"));
    }
    match scanner.rest() {
        "" => Ok(path),
        _ => Err(scanner.unexpected("the end")),
    }
}

/// Parses the parts up to their `{end}`. As in kubectl, the end of the template closes all ranges.
fn parts(scanner: &mut Scanner<'_>, depth: usize) -> Result<Vec<Part>, PathError> {
    let mut parsed = Vec::new();
    loop {
        let text = scanner.take_while(|c| c != '{');
        if !text.is_empty() {
            parsed.push(Part::Text(text.into()));
        }
        let start = *scanner;
        if !scanner.eat("{") {
            return Ok(parsed);
        }
        scanner.blanks();
        let inside = *scanner;
        match scanner.take_while(|c| !ends_name(c, ParseContext::Template)) {
            "end" if depth == 0 => return Err(start.error("`{end}` without `{range}`")),
            "end" => {
                close(scanner, &start)?;
                return Ok(parsed);
            }
            "range" if depth == MAX_DEPTH => {
                return Err(start.error("too many nested `{range}`"));
            }
            "range" => {
                let path = path(scanner, ParseContext::Template)?;
                close(scanner, &start)?;
                let body = parts(scanner, depth + 1)?;
                parsed.push(Part::Range(path, body));
            }
            _ => {
                *scanner = inside;
                let path = path(scanner, ParseContext::Template)?;
                close(scanner, &start)?;
                parsed.push(Part::Path(path));
            }
        }
    }
}

fn close(scanner: &mut Scanner<'_>, start: &Scanner<'_>) -> Result<(), PathError> {
    scanner.blanks();
    match scanner.peek() {
        Some('}') => {
            scanner.next();
            Ok(())
        }
        None => Err(start.error("unclosed `{`")),
        Some(_) => Err(scanner.unexpected("`}`")),
    }
}

/// Where a path is used: in a filter, an operator ends the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseContext {
    Template,
    Filter(usize),
}

fn ends_name(c: char, place: ParseContext) -> bool {
    let filter =
        place != ParseContext::Template && matches!(c, '=' | '!' | '<' | '>' | '&' | '|' | '(' | ')');
    filter || c.is_whitespace() || matches!(c, '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses a path, up to the first character that cannot belong to it.
pub(super) fn path(scanner: &mut Scanner<'_>, place: ParseContext) -> Result<Path, PathError> {
    let mut path = Path::default();
    scanner.blanks();
    // kubectl does not distinguish the root from the current object.
    let _ = scanner.eat("$") || scanner.eat("@");
    let mut first = true;
    loop {
        scanner.blanks();
        if scanner.eat("..") {
            let _ = scanner.eat(".");
            let segment = match scanner.peek() {
                Some('[') => match bracket(scanner, place)? {
                    Bracket::Segment(segment) | Bracket::Dotted(segment, _) => segment,
                },
                _ => Segment::Selector(name(scanner, place)?),
            };
            path.push(Segment::Descendant(Box::new(segment)));
        } else if scanner.eat(".") {
            let alone = scanner.peek().is_none_or(|c| c == '}' || c.is_whitespace());
            if scanner.peek() == Some('[') || (first && alone) {
                first = false;
                continue;
            }
            path.push(Segment::Selector(name(scanner, place)?));
        } else {
            match scanner.peek() {
                Some('[') => match bracket(scanner, place)? {
                    Bracket::Segment(segment) => path.push(segment),
                    Bracket::Dotted(exact, _) if place != ParseContext::Template => path.push(exact),
                    Bracket::Dotted(exact, split) => {
                        path.steps.push(PathStep::Either(JpQuery::new(vec![exact]), JpQuery::new(split)))
                    }
                },
                Some('"' | '\'') if place == ParseContext::Template => {
                    let text = scanner.quoted()?;
                    path.steps.push(PathStep::Literal(text.into()));
                }
                Some(c) if first && place == ParseContext::Template && starts_word(c) => {
                    path.push_word(scanner)?;
                }
                _ => return Ok(path),
            }
        }
        first = false;
    }
}

fn starts_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '+' | '-')
}

impl Path {
    fn push(&mut self, segment: Segment) {
        match self.steps.last_mut() {
            Some(PathStep::Query(query)) => query.segments.push(segment),
            _ => self.steps.push(PathStep::Query(JpQuery::new(vec![segment]))),
        }
    }

    /// Parses a word at the start of a path: a number, a Boolean, or a name without its dot.
    fn push_word(&mut self, scanner: &mut Scanner<'_>) -> Result<(), PathError> {
        let start = *scanner;
        let number = scanner.take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
        let alone = scanner.peek().is_none_or(|c| c == '}' || c.is_whitespace());
        let literal = match (alone, number.parse::<i64>(), number.parse::<f64>()) {
            (true, Ok(integer), _) => Some(integer.into()),
            (true, Err(_), Ok(float)) => Some(float.into()),
            _ => {
                *scanner = start;
                None
            }
        };
        let literal: Option<Value> = literal.or_else(|| {
            let word = scanner.take_while(|c| !ends_name(c, ParseContext::Template));
            word.parse::<bool>().ok().map(Value::from)
        });
        match literal {
            Some(value) => self.steps.push(PathStep::Literal(value)),
            None => {
                *scanner = start;
                let selector = name(scanner, ParseContext::Template)?;
                self.push(Segment::Selector(selector));
            }
        }
        Ok(())
    }

    /// The path as one query; `None` if it has parts other than keys, indices and filters.
    pub(super) fn segments(self) -> Option<Vec<Segment>> {
        let mut steps = self.steps.into_iter();
        match (steps.next(), steps.next()) {
            (None, _) => Some(Vec::new()),
            (Some(PathStep::Query(query)), None) => Some(query.segments),
            _ => None,
        }
    }
}

/// Parses a key after a dot: `name`, `a\.b`, `*`.
fn name(scanner: &mut Scanner<'_>, place: ParseContext) -> Result<Selector, PathError> {
    let start = *scanner;
    let mut name = String::new();
    let mut escaped = false;
    while let Some(c) = scanner.peek() {
        if c == '\\' {
            scanner.next();
            escaped = true;
            name.extend(scanner.next());
        } else if ends_name(c, place) {
            break;
        } else {
            scanner.next();
            name.push(c);
        }
    }
    match name.as_str() {
        "" => Err(start.unexpected("a key")),
        "*" if !escaped => Ok(Selector::Wildcard),
        _ => Ok(Selector::Name(name)),
    }
}

enum Bracket {
    Segment(Segment),
    /// A key with dots, and the path that kubectl would read instead.
    Dotted(Segment, Vec<Segment>),
}

/// Parses the content of brackets, from the opening bracket on.
fn bracket(scanner: &mut Scanner<'_>, place: ParseContext) -> Result<Bracket, PathError> {
    let start = *scanner;
    scanner.next();
    scanner.blanks();
    if scanner.eat("?") {
        let depth = match place {
            ParseContext::Template => 0,
            ParseContext::Filter(depth) => depth + 1,
        };
        let filter = filter(scanner, depth)?;
        scanner.blanks();
        return if scanner.eat("]") {
            Ok(Bracket::Segment(Segment::Selector(Selector::Filter(filter))))
        } else {
            Err(scanner.unexpected("`]`"))
        };
    }
    let mut selectors = Vec::new();
    let mut split = Vec::new();
    loop {
        scanner.blanks();
        let selector = match scanner.peek() {
            None => return Err(start.error("unclosed `[`")),
            Some('*') => {
                scanner.next();
                Selector::Wildcard
            }
            Some('"' | '\'') => {
                let (key, parts) = key(scanner)?;
                split = parts;
                Selector::Name(key)
            }
            // As in kubectl, a missing index is 0.
            Some(']') if selectors.is_empty() => Selector::Index(0),
            Some(_) => index_or_slice(scanner)?,
        };
        selectors.push(selector);
        scanner.blanks();
        if scanner.eat("]") {
            break;
        }
        if !scanner.eat(",") {
            return match scanner.peek() {
                None => Err(start.error("unclosed `[`")),
                Some(_) => Err(scanner.unexpected("`,` or `]`")),
            };
        }
    }
    if selectors.len() > 1 {
        return Ok(Bracket::Segment(Segment::Selectors(selectors)));
    }
    let only = selectors.pop().expect("the loop pushes before it breaks");
    let only = Segment::Selector(only);
    Ok(match split.len() {
        0 | 1 => Bracket::Segment(only),
        _ => Bracket::Dotted(only, split.iter().map(|name| Segment::name(name)).collect()),
    })
}

/// Parses a quoted key: the whole key, and its parts split at dots that have no backslash before them.
fn key(scanner: &mut Scanner<'_>) -> Result<(String, Vec<String>), PathError> {
    let start = *scanner;
    let quote = scanner.next();
    let mut key = String::new();
    let mut parts = vec![String::new()];
    loop {
        let next = scanner.next();
        let (c, escaped) = match next {
            None => return Err(start.error("unclosed quote")),
            _ if next == quote => return Ok((key, parts)),
            Some('\\') => (scanner.next(), true),
            Some(_) => (next, false),
        };
        key.extend(c);
        match (c, parts.last_mut()) {
            (Some('.'), _) if !escaped => parts.push(String::new()),
            (c, Some(part)) => part.extend(c),
            (_, None) => {}
        }
    }
}

/// Parses an index or a slice: `1`, `-1`, `1:3`, `::2`.
fn index_or_slice(scanner: &mut Scanner<'_>) -> Result<Selector, PathError> {
    let start = *scanner;
    let first = number(scanner)?;
    scanner.blanks();
    if !scanner.eat(":") {
        let index = first.map(Selector::Index);
        return index
            .ok_or_else(|| start.unexpected("an index, a slice, a key in quotes, `*` or `?(filter)`"));
    }
    scanner.blanks();
    let second = number(scanner)?;
    scanner.blanks();
    let third = if scanner.eat(":") {
        scanner.blanks();
        number(scanner)?
    } else {
        None
    };
    match third {
        Some(..=0) => Err(start.error("invalid slice step, expected 1 or more,")),
        step => Ok(Selector::Slice(first, second, step)),
    }
}

fn number(scanner: &mut Scanner<'_>) -> Result<Option<i64>, PathError> {
    let start = *scanner;
    let digits = scanner.take_while(|c| c.is_ascii_digit() || c == '-');
    if digits.is_empty() {
        return Ok(None);
    }
    // No list is longer than an `i32`, and sums of such numbers do not overflow.
    let number = digits.parse::<i32>().map(|number| Some(number.into()));
    number.map_err(|_| start.error("invalid index"))
}

/// Parses one condition in parentheses, after the question mark.
fn filter(scanner: &mut Scanner<'_>, depth: usize) -> Result<Filter, PathError> {
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
