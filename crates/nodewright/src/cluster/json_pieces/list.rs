//! JSON lists whose items are processed one by one.

use std::io::{self, Read};

use serde::de::IgnoredAny;

use super::{Pieces, TextPosition, syntax};

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
