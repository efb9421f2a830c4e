//! Parses YAML and JSON to the values that kubectl sends, with the lines of every field.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Number, Value};

use crate::plan::pointer;

/// Maximum size of a request to the API server, and so of a value.
const MAX_REQUEST: usize = 3 << 20;

/// Maximum number of values that aliases may add to one document.
const MAX_ALIASED: usize = 1 << 16;

/// The first and last line of a field, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub first: usize,
    pub last: usize,
    /// The column of its beginning in the first line, from 1.
    pub column: usize,
}

/// One parsed document.
#[derive(Debug, Default)]
pub struct Parsed {
    pub value: Value,
    pub positions: Positions,
}

/// The lines of the fields and comments of a document.
#[derive(Debug, Default)]
pub struct Positions {
    /// The lines of each field, by JSON pointer.
    pub ranges: HashMap<String, Range>,
    /// JSON pointers and lines of repeated keys.
    pub duplicates: Vec<(String, usize)>,
    /// Lines and texts of comments, without `#`.
    pub comments: Vec<(usize, String)>,
}

/// A parse error, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub line: usize,
    pub reason: String,
}

/// Splits a text into documents with their first lines. A syntax error in one document does not affect the
/// others.
pub fn split(text: &str) -> Vec<(usize, &str)> {
    if text.trim_start().starts_with('{')
        && let Some(values) = split_json(text)
    {
        return values;
    }
    let mut documents = Vec::new();
    let (mut start, mut first, mut at) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let separator = line.strip_prefix("---");
        if separator.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            documents.push((first, &text[start..at]));
            (start, first) = (at, number + 1);
        }
        at += line.len();
    }
    documents.push((first, &text[start..]));
    documents.retain(|(_, document)| has_content(document));
    documents
}

/// Whether a document contains more than comments and separators.
fn has_content(document: &str) -> bool {
    let lines = document.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).any(|line| line != "---" && line != "...")
}

/// Splits a sequence of JSON values; `None` unless the whole text is JSON.
fn split_json(text: &str) -> Option<Vec<(usize, &str)>> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    let (mut documents, mut start, mut line) = (Vec::new(), 0, 1);
    while let Some(value) = values.next() {
        value.ok()?;
        let whole = &text[start..values.byte_offset()];
        let document = whole.trim_start();
        let blank = whole[..whole.len() - document.len()].matches('\n').count();
        documents.push((line + blank, document));
        line += blank + document.matches('\n').count();
        start = values.byte_offset();
    }
    Some(documents)
}

/// Parses one document, which begins at this line of its file.
///
/// # Errors
///
/// Neither YAML nor JSON.
pub fn parse(text: &str, first_line: usize) -> Result<Parsed, SyntaxError> {
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        offset: first_line - 1,
        anchors: HashMap::new(),
        aliased: 0,
        last_line: first_line,
        exceeds: false,
        positions: Positions::default(),
    };
    match reader.document() {
        Ok(value) => Ok(Parsed { value, positions: reader.positions }),
        // YAML cannot join surrogate pairs.
        Err(error) => match serde_json::from_str(text) {
            Ok(_) if reader.exceeds => Err(error),
            Ok(value) => Ok(Parsed { value, ..Parsed::default() }),
            Err(_) => Err(error),
        },
    }
}

/// Appends a key or an index to a JSON pointer.
pub fn child(at: &str, key: &str) -> String {
    at.to_owned() + &pointer(&[key])
}

struct Reader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    offset: usize,
    anchors: HashMap<usize, Value>,
    aliased: usize,
    /// The last line of the scalars and aliases read so far.
    last_line: usize,
    /// Whether a value exceeds [`MAX_REQUEST`].
    exceeds: bool,
    positions: Positions,
}

impl<'t> Reader<'t> {
    fn error(&self, error: &ScanError) -> SyntaxError {
        SyntaxError { line: error.marker().line() + self.offset, reason: error.info().to_owned() }
    }

    /// Returns the next event that is not a comment; collects comments.
    fn next(&mut self) -> Result<(Event<'t>, Span), SyntaxError> {
        loop {
            let Some(next) = self.events.next() else {
                return Err(SyntaxError { line: self.last_line, reason: "unexpected end".to_owned() });
            };
            let (event, span) = next.map_err(|error| self.error(&error))?;
            let line = span.start.line() + self.offset;
            if let Event::Comment(text, _) = event {
                self.positions.comments.push((line, text.into_owned()));
                continue;
            }
            if matches!(event, Event::Scalar(..) | Event::Alias(_)) {
                self.last_line = self.last_line.max(line);
            }
            return Ok((event, span));
        }
    }

    fn document(&mut self) -> Result<Value, SyntaxError> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
                event => {
                    let value = self.value(event, span, "")?;
                    // Read the rest for errors and comments after the value.
                    while !matches!(self.next()?.0, Event::StreamEnd) {}
                    return Ok(value);
                }
            }
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, at: &str) -> Result<Value, SyntaxError> {
        let line = span.start.line() + self.offset;
        self.positions.ranges.entry(at.to_owned()).or_insert(Range {
            first: line,
            last: line,
            column: span.start.col() + 1,
        });
        let (value, anchor) = match event {
            Event::Scalar(text, ..) if text.len() > MAX_REQUEST => {
                self.exceeds = true;
                let reason = format!(
                    "a value has {} bytes; the API server accepts requests of at most {MAX_REQUEST} bytes",
                    text.len()
                );
                return Err(SyntaxError { line, reason });
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = tag.is_some_and(|tag| tag.suffix() == "str");
                let plain = style == ScalarStyle::Plain && !text_tag;
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    let end = span.end.line() + self.offset;
                    self.last_line = self.last_line.max(end.saturating_sub(1));
                }
                let value = if plain { scalar(&text) } else { text.into_owned().into() };
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    let at = child(at, &items.len().to_string());
                    items.push(self.value(event, span, &at)?);
                }
                (items.into(), anchor)
            }
            Event::MappingStart(_, anchor, _) => (self.mapping(at)?, anchor),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().unwrap_or_default();
                self.aliased += size(&value);
                if self.aliased > MAX_ALIASED {
                    let reason = "aliases expand to too many values".to_owned();
                    return Err(SyntaxError { line, reason });
                }
                (value, 0)
            }
            event => {
                let reason = format!("unexpected {event:?}");
                return Err(SyntaxError { line, reason });
            }
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        if let Some(range) = self.positions.ranges.get_mut(at) {
            range.last = self.last_line.max(range.first);
        }
        Ok(value)
    }

    fn mapping(&mut self, at: &str) -> Result<Value, SyntaxError> {
        let mut members = Map::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line() + self.offset;
            let (key, plain) = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, ..) => (text.into_owned(), style == ScalarStyle::Plain),
                _ => {
                    let reason = "a key is not a string".to_owned();
                    return Err(SyntaxError { line, reason });
                }
            };
            let below = child(at, &key);
            if members.contains_key(&key) {
                self.positions.duplicates.push((below.clone(), line));
            }
            // The field begins at its key.
            let range = Range { first: line, last: line, column: span.start.col() + 1 };
            self.positions.ranges.insert(below.clone(), range);
            let (event, span) = self.next()?;
            let value = self.value(event, span, &below)?;
            if plain && key == "<<" {
                merged.push(value);
            } else {
                members.insert(key, value);
            }
        }
        for value in merged {
            let sources = match value {
                Value::Array(sources) => sources,
                source => vec![source],
            };
            for source in sources {
                for (key, value) in source.as_object().into_iter().flatten() {
                    members.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
        Ok(members.into())
    }
}

/// Number of values in `value`, including `value` itself.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => members.values().map(size).sum(),
        _ => 0,
    }
}

/// Resolves a plain scalar as in YAML 1.1, like kubectl, Helm and Kustomize: `yes` is a boolean.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            return true.into();
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return false.into();
        }
        _ => {}
    }
    integer(&text.replace('_', ""))
        .or_else(|| float(&text.replace('_', "")))
        .map_or_else(|| text.into(), Value::Number)
}

fn integer(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (&text[..1], digits),
        None => ("", text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    let digits = Some(digits).filter(|digits| digits.starts_with(|c: char| c.is_digit(radix)))?;
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok().map(Number::from)
}

fn float(text: &str) -> Option<Number> {
    let starts = text.trim_start_matches(['-', '+']).trim_start_matches('.');
    if !starts.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    // Go writes whole floats as integers.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number within range")]
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_those_that_kubectl_sends() {
        let text = "a: yes\nb: 0o17\nc: 1.0\nd: 2.5\ne: \"1\"\nf: 1.2.3\ng: !!str 7\nh: 1e3\ni:\n";
        let parsed = parse(text, 1).expect("YAML");
        let expected = json!({"a": true, "b": 15, "c": 1, "d": 2.5, "e": "1", "f": "1.2.3",
            "g": "7", "h": 1000, "i": null});
        assert_eq!(parsed.value, expected);
    }

    #[test]
    fn fields_have_lines() {
        let text = "---\na:\n  b: |\n    x\n    y\n  c: [1,\n    2]\n# note\nd: {e: 1}\n";
        let parsed = parse(text, 11).expect("YAML");
        let range = |pointer: &str| {
            let range = parsed.positions.ranges[pointer];
            (range.first, range.last)
        };
        assert_eq!(range("/a"), (12, 17));
        assert_eq!(range("/a/b"), (13, 15));
        assert_eq!(range("/a/c/1"), (17, 17));
        assert_eq!(range("/d/e"), (19, 19));
        assert_eq!(parsed.positions.comments, [(18, " note".to_owned())]);
    }

    #[test]
    fn anchors_merges_and_duplicates() {
        let text = "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\ne: *x\na: 4\n";
        let parsed = parse(text, 1).expect("YAML");
        let expected = json!({"a": 4, "d": {"c": 3, "b": 1}, "e": {"b": 1, "c": 2}});
        assert_eq!(parsed.value, expected);
        assert_eq!(parsed.positions.duplicates, [("/a".to_owned(), 6)]);
    }

    #[test]
    fn documents_are_independent() {
        let text = "# head\n---\na: 1\n---\nb: [\n---\n# nothing\n---\nc: 3\n";
        let lines: Vec<usize> = split(text).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 4, 8]);
        let json = "{\"a\": 1}\n{\n\"b\": 2}\n";
        let lines: Vec<usize> = split(json).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2]);
        let error = parse("---\nb: [\n", 4).expect_err("unclosed");
        assert!(error.line >= 5, "{error:?}");
    }
}
