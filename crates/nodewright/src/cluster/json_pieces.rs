//! Splits a stream of JSON into its values. Only one value is in memory at a time.
//!
//! For items of a list, finds only where they begin and end. Errors within an item are found when it is
//! decoded.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter, memchr2, memrchr};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::lenient::without_place;

/// Number of bytes per read.
const PIECE: usize = 1 << 18;

/// JSON text that is read in pieces.
pub struct Pieces<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Number of consumed bytes at the start of the buffer.
    start: usize,
    ended: bool,
    place: TextPosition,
}

/// A position in a text: line from 1, and byte offset in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    pub line: usize,
    pub column: usize,
}

impl TextPosition {
    pub const START: TextPosition = TextPosition { line: 1, column: 0 };

    /// The position after this text.
    pub fn after(self, text: &[u8]) -> TextPosition {
        let lines = memchr_iter(b'\n', text).count();
        match memrchr(b'\n', text) {
            Some(at) => TextPosition { line: self.line + lines, column: text.len() - at - 1 },
            None => TextPosition { column: self.column + text.len(), ..self },
        }
    }
}

impl<R: Read> Pieces<R> {
    pub fn new(stream: R) -> Pieces<R> {
        Pieces { stream, buffer: Vec::new(), start: 0, ended: false, place: TextPosition::START }
    }

    /// The position of the next byte.
    pub fn place(&self) -> TextPosition {
        self.place
    }

    /// The buffered bytes that are not consumed.
    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The next byte, not consumed; `None` at the end.
    pub fn peek(&mut self) -> io::Result<Option<u8>> {
        while self.rest().is_empty() {
            if !self.fill()? {
                return Ok(None);
            }
        }
        Ok(Some(self.buffer[self.start]))
    }

    /// Consumes buffered bytes.
    pub fn take(&mut self, bytes: usize) -> &[u8] {
        let taken = self.start..self.start + bytes;
        self.start = taken.end;
        self.place = self.place.after(&self.buffer[taken.clone()]);
        &self.buffer[taken]
    }

    /// Skips whitespace and the bytes in `also`; returns the next byte, if any.
    pub fn skip(&mut self, also: &[u8]) -> io::Result<Option<u8>> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() && !also.contains(&byte) {
                return Ok(Some(byte));
            }
            let blank = |b: &&u8| b.is_ascii_whitespace() || also.contains(*b);
            let blanks = self.rest().iter().take_while(blank).count();
            self.take(blanks);
        }
        Ok(None)
    }

    /// Consumes the rest of the line, without its end.
    pub fn line(&mut self) -> io::Result<&[u8]> {
        let mut end = memchr(b'\n', self.rest());
        while end.is_none() && self.fill()? {
            end = memchr(b'\n', self.rest());
        }
        Ok(self.take(end.unwrap_or(self.rest().len())))
    }

    /// Length in bytes of the value at the current position; `None` if the text ends within the value.
    pub fn value(&mut self) -> io::Result<Option<usize>> {
        let mut scan = Scan::default();
        let mut at = 0;
        loop {
            if let Some(end) = scan.end_in(&self.buffer[self.start + at..]) {
                return Ok(Some(at + end));
            }
            at = self.rest().len();
            if !self.fill()? {
                return Ok((scan.is_plain() && at > 0).then_some(at));
            }
        }
    }

    /// Reads more bytes into the buffer; returns `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let piece = (&mut self.stream).take(PIECE as u64);
        let read = { piece }.read_to_end(&mut self.buffer)?;
        self.ended = read == 0;
        Ok(!self.ended)
    }
}

/// The syntax error of a text that begins at this position of the document.
pub fn syntax(before: &[u8], text: &[u8], start: TextPosition) -> String {
    let text = [before, text].concat();
    match serde_json::Deserializer::from_slice(&text).into_iter::<Value>().find_map(Result::err) {
        Some(error) => placed(&error, before, start),
        None => "it is not JSON".to_owned(),
    }
}

/// Formats an error with its position in the document.
fn placed(error: &serde_json::Error, before: &[u8], start: TextPosition) -> String {
    let (line, column) = (error.line(), error.column());
    let message = without_place(error);
    let skipped = TextPosition::START.after(before);
    let (line, column) = match line.saturating_sub(skipped.line) {
        0 => {
            let behind = column.saturating_sub(skipped.column);
            (start.line, start.column + behind)
        }
        more => (start.line + more, column),
    };
    let cut = if error.is_eof() { "cut off: " } else { "" };
    format!("{cut}{message} at line {line} column {column}")
}

/// Scans for the end of a value, piece by piece.
#[derive(Default)]
struct Scan {
    depth: usize,
    /// Context at the end of the scanned text.
    within: Within,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// A list or an object.
    Group,
    /// A number or a literal.
    Plain,
    Text,
    /// A string, after a backslash.
    Escape,
}

impl Scan {
    fn is_plain(&self) -> bool {
        self.within == Within::Plain
    }

    /// Position after the end of the value, if the value ends in this piece.
    fn end_in(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < piece.len() {
            match self.within {
                Within::Escape => {
                    self.within = Within::Text;
                    at += 1;
                }
                Within::Text => {
                    let found = memchr2(b'"', b'\\', &piece[at..])?;
                    at += found + 1;
                    if piece[at - 1] == b'\\' {
                        self.within = Within::Escape;
                    } else if self.depth == 0 {
                        return Some(at);
                    } else {
                        self.within = Within::Group;
                    }
                }
                Within::Group => {
                    let special = |b: &u8| matches!(b, b'"' | b'{' | b'}' | b'[' | b']');
                    let found = piece[at..].iter().position(special)?;
                    at += found + 1;
                    match piece[at - 1] {
                        b'"' => self.within = Within::Text,
                        b'{' | b'[' => self.depth += 1,
                        _ if self.depth == 1 => return Some(at),
                        _ => self.depth -= 1,
                    }
                }
                Within::Nothing => {
                    self.within = match piece[at] {
                        b'{' | b'[' => {
                            self.depth = 1;
                            Within::Group
                        }
                        b'"' => Within::Text,
                        _ => Within::Plain,
                    };
                    at += 1;
                }
                Within::Plain => {
                    let ends = |b: &u8| b.is_ascii_whitespace() || b",:]}[{\"".contains(b);
                    return piece[at..].iter().position(ends).map(|found| at + found);
                }
            }
        }
        None
    }
}

/// Receiver of the items of a list.
pub trait Items {
    type Error;

    /// Returns whether to receive the items one by one. `before` is the text before the items.
    fn begin(&mut self, before: &[u8]) -> bool;

    /// Receives the text of one item, and its position.
    ///
    /// # Errors
    ///
    /// An error stops the list.
    fn take(&mut self, item: &[u8], place: TextPosition) -> Result<(), Self::Error>;
}

/// The reason why an object was not read to its end.
pub enum Stop<E> {
    Unreadable(io::Error),
    /// A syntax error with its position.
    Syntax(String),
    /// An error of the receiver of the items.
    Item(E),
}

impl<E> From<io::Error> for Stop<E> {
    fn from(error: io::Error) -> Stop<E> {
        Stop::Unreadable(error)
    }
}

impl<R: Read> Pieces<R> {
    /// Reads the object at the current position. In the returned text, which is still JSON, `0` replaces each
    /// item that `items` has received.
    pub fn object<I: Items>(&mut self, items: &mut I) -> Result<Vec<u8>, Stop<I::Error>> {
        let mut text = self.take(1).to_vec();
        loop {
            match self.skip(b"")? {
                Some(b'}') if !text.ends_with(b",") => break,
                Some(b',') if !text.ends_with(b"{") && !text.ends_with(b",") => {}
                Some(b'"') if text.ends_with(b"{") || text.ends_with(b",") => {
                    let key = self.whole(&text)?.to_vec();
                    text.extend_from_slice(&key);
                    if self.skip(b"")? != Some(b':') {
                        return Err(self.syntax(&text));
                    }
                    text.extend_from_slice(self.take(1));
                    let value = self.skip(b"")?;
                    if key == b"\"items\"" && value == Some(b'[') && items.begin(&text) {
                        self.items(&mut text, items)?;
                    } else {
                        let value = self.whole(&text)?;
                        text.extend_from_slice(value);
                    }
                    continue;
                }
                _ => return Err(self.syntax(&text)),
            }
            text.extend_from_slice(self.take(1));
        }
        text.extend_from_slice(self.take(1));
        Ok(text)
    }

    fn items<I: Items>(&mut self, text: &mut Vec<u8>, items: &mut I) -> Result<(), Stop<I::Error>> {
        text.extend_from_slice(self.take(1));
        loop {
            match self.skip(b"")? {
                Some(b']') if !text.ends_with(b",") => break,
                Some(b',') if text.ends_with(b"0") => text.extend_from_slice(self.take(1)),
                Some(b',' | b']' | b'}' | b':') | None => return Err(self.syntax(text)),
                Some(_) if text.ends_with(b"0") => return Err(self.syntax(text)),
                Some(_) => {
                    let place = self.place();
                    let Some(end) = self.value()? else {
                        return Err(self.syntax(text));
                    };
                    items.take(self.take(end), place).map_err(Stop::Item)?;
                    text.push(b'0');
                }
            }
        }
        text.extend_from_slice(self.take(1));
        Ok(())
    }

    /// Reads the next value of any type; `before` is the text before the value.
    pub fn whole<E>(&mut self, before: &[u8]) -> Result<&[u8], Stop<E>> {
        let place = self.place();
        let Some(end) = self.value()? else {
            return Err(self.syntax(before));
        };
        let value = self.take(end);
        match serde_json::from_slice::<IgnoredAny>(value) {
            Ok(_) => Ok(value),
            Err(_) => Err(Stop::Syntax(syntax(b"", value, place))),
        }
    }

    /// The syntax error at the current position; `before` is the text before it.
    pub fn syntax<E>(&self, before: &[u8]) -> Stop<E> {
        Stop::Syntax(syntax(before, self.rest(), self.place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that returns one byte per read.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let one = self.0.len().min(1).min(buffer.len());
            buffer[..one].copy_from_slice(&self.0[..one]);
            self.0 = &self.0[one..];
            Ok(one)
        }
    }

    #[test]
    fn values_end_where_they_end() {
        for (text, value) in [
            (r#"{"a": "}\"]", "b": [1, {}]} x"#, r#"{"a": "}\"]", "b": [1, {}]}"#),
            (r#""a\\" "b""#, r#""a\\""#),
            ("12,", "12"),
            ("true", "true"),
            ("[[],[]]]", "[[],[]]"),
        ] {
            for stream in [Box::new(text.as_bytes()) as Box<dyn Read>, Box::new(Slowly(text.as_bytes()))] {
                let mut pieces = Pieces::new(stream);
                let end = pieces.value().expect("reads never fail").expect("a value");
                assert_eq!(pieces.take(end), value.as_bytes());
            }
        }
        for cut in [r#"{"a": 1"#, r#""a"#, "[1, ", ""] {
            assert_eq!(Pieces::new(cut.as_bytes()).value().expect("reads never fail"), None, "{cut}");
        }
    }

    #[test]
    fn what_was_taken_is_not_kept() {
        let text = r#"{"a": "some text"} "#.repeat(400_000);
        let mut pieces = Pieces::new(text.as_bytes());
        let mut values = 0;
        while pieces.skip(b"").expect("reads never fail").is_some() {
            let end = pieces.value().expect("reads never fail").expect("a value");
            pieces.take(end);
            values += 1;
        }
        assert_eq!(values, 400_000);
        let kept = pieces.buffer.capacity();
        assert!(kept <= 4 * PIECE, "{kept}");
    }

    #[test]
    fn places_are_counted() {
        let mut pieces = Pieces::new("{\n }\n  x".as_bytes());
        let end = pieces.value().expect("reads never fail").expect("a value");
        pieces.take(end);
        assert_eq!(pieces.skip(b"").expect("reads never fail"), Some(b'x'));
        assert_eq!(pieces.place(), TextPosition { line: 3, column: 2 });
    }
}
