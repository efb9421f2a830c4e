//! The wire format of protobuf: the fields of a message.

use std::borrow::Cow;

use jiff::SignedDuration;
use serde::de::Error as _;
use serde::de::value::Error;

use crate::api::time;

/// The error for a message that ends too early.
pub fn cut_off() -> Error {
    Error::custom("truncated message")
}

pub fn unknown_wire_type(wire: u64) -> Error {
    Error::custom(format!("unknown wire type {wire}"))
}

/// Decodes a variable-length integer from the bytes that `next` returns.
pub fn varint(mut next: impl FnMut() -> Result<u8, Error>) -> Result<u64, Error> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::custom("a number has more than ten bytes"))
}

/// The unread fields of a message.
#[derive(Clone, Copy)]
pub struct Fields<'de>(pub &'de [u8]);

#[derive(Clone, Copy)]
pub enum Value<'de> {
    Number(u64),
    Bytes(&'de [u8]),
}

impl<'de> Value<'de> {
    pub fn text(self) -> Result<&'de str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(Error::custom)
    }

    /// The text as in JSON: servers do not validate UTF-8, so invalid bytes are replaced.
    pub fn lossy_text(self) -> Result<Cow<'de, str>, Error> {
        let bytes = self.bytes()?;
        // Fast path: validating the text is several times faster than searching for invalid parts.
        Ok(std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
    }

    pub fn bytes(self) -> Result<&'de [u8], Error> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) => Err(Error::custom("expected a message, found a number")),
        }
    }

    /// A signed integer: all integers of Kubernetes are signed, and negative ones take ten bytes.
    pub fn number(self) -> Result<i64, Error> {
        match self {
            Value::Number(number) => Ok(number as i64),
            Value::Bytes(_) => Err(Error::custom("expected a number, found a message")),
        }
    }
}

impl<'de> Fields<'de> {
    /// The number and value of the next field; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Value<'de>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Bytes(self.take(8)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| cut_off())?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Bytes(self.take(4)?),
            wire => return Err(unknown_wire_type(wire)),
        };
        Ok(Some((tag >> 3, value)))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        // Fast path: nearly all tags and lengths are one byte.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        varint(|| {
            let (byte, rest) = self.0.split_first().ok_or_else(cut_off)?;
            self.0 = rest;
            Ok(*byte)
        })
    }

    fn take(&mut self, length: usize) -> Result<&'de [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The value of a field, if present.
    pub fn find(mut self, number: u64) -> Result<Option<Value<'de>>, Error> {
        while let Some((at, value)) = self.next()? {
            if at == number {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// The text in a field; empty if the field is absent.
    pub fn text(self, number: u64) -> Result<&'de str, Error> {
        self.find(number)?.map_or(Ok(""), Value::text)
    }

    /// A `Time` as in JSON, without fractions of a microsecond; see [`time`].
    pub fn time(self) -> Result<String, Error> {
        let part = |number| self.find(number)?.map_or(Ok(0), Value::number);
        let (seconds, nanoseconds): (i64, i64) = (part(1)?, part(2)?);
        let time = time::nearest(seconds);
        let fraction = SignedDuration::from_micros(nanoseconds / 1000);
        Ok(time.saturating_add(fraction).unwrap_or(time).to_string())
    }
}
