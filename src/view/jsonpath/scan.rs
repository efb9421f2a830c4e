//! A scanner over the characters of a template, with positions for errors.

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
pub(super) struct Scanner<'s> {
    text: &'s str,
    at: usize,
}

impl<'s> Scanner<'s> {
    pub fn new(text: &'s str) -> Scanner<'s> {
        Scanner { text, at: 0 }
    }

    pub fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub fn eat(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    pub fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    pub fn blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    pub fn error(&self, what: impl Into<String>) -> PathError {
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
    pub fn unexpected(&self, expected: &str) -> PathError {
        match self.peek() {
            Some(c) => self.error(format!("expected {expected}, found `{c}`")),
            None => self.error(format!("expected {expected}, found the end")),
        }
    }

    /// Parses a quoted string with Go's escapes, from the opening quote on.
    pub fn quoted(&mut self) -> Result<String, PathError> {
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
