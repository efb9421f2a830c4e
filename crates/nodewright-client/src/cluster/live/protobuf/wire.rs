//! The wire format of protobuf: the fields of a message.

use std::borrow::Cow;
use std::io::{BufRead, Read, Take};

use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value as Json;

use super::schema::Kind;
use super::{Member, message};
use crate::api::Object;
use crate::cluster::lenient;

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
        let time = crate::api::meta::nearest(seconds);
        let fraction = SignedDuration::from_micros(nanoseconds / 1000);
        Ok(time.saturating_add(fraction).unwrap_or(time).to_string())
    }
}

/// apiVersion and kind of a list.
#[derive(Default)]
pub struct Head {
    pub api_version: String,
    pub kind: String,
}

/// Decodes a list after its [magic](super::MAGIC). `begins` receives the list's metadata, which servers write
/// before the items. `item` receives each item, or the reason why its identity is unknown.
pub fn list<T: Object + DeserializeOwned, M: DeserializeOwned>(
    stream: impl BufRead,
    mut begins: impl FnMut(M),
    mut item: impl FnMut(Result<T, String>),
) -> Result<Head, Error> {
    let mut packed = Message::new(stream);
    let (mut head, mut whole) = (Head::default(), false);
    while let Some((number, content)) = packed.field()? {
        match (number, content) {
            (1, Content::Bytes(length)) => {
                head = packed.bytes(length, |head| {
                    let text = |number| Fields(head).text(number).map(str::to_owned);
                    Ok(Head { api_version: text(1)?, kind: text(2)? })
                })?;
            }
            (2, Content::Bytes(length)) => {
                unpacked(&head.kind, packed.inner(length), &mut begins, &mut item)?;
                whole = true;
            }
            (_, content) => packed.skip(content)?,
        }
    }
    if whole { Ok(head) } else { Err(message(&head.kind).err().unwrap_or_else(cut_off)) }
}

fn unpacked<T: Object + DeserializeOwned, M: DeserializeOwned>(
    kind: &str,
    mut list: Message<Take<impl BufRead>>,
    mut begins: impl FnMut(M),
    mut take: impl FnMut(Result<T, String>),
) -> Result<(), Error> {
    let fields = message(kind)?;
    while let Some((number, content)) = list.field()? {
        let known = fields.iter().find(|(at, ..)| *at == number);
        match (known, content) {
            (Some((.., Kind::Each(kind))), Content::Bytes(length)) => {
                take(list.bytes(length, |bytes| Ok(item(**kind, bytes)))?);
            }
            (Some((.., kind)), Content::Bytes(length)) => {
                let head = |head: &[u8]| M::deserialize(Member::One(*kind, Value::Bytes(head)));
                begins(list.bytes(length, head)?);
            }
            (_, content) => list.skip(content)?,
        }
    }
    match list.stream.limit() {
        0 => Ok(()),
        _ => Err(cut_off()),
    }
}

/// Decodes an item. If some values are rejected, converts the item to JSON and decodes it leniently.
fn item<T: Object + DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, String> {
    let member = || Member::One(kind, Value::Bytes(bytes));
    match T::deserialize(member()) {
        Ok(item) if !item.key().1.is_empty() => Ok(item),
        _ => {
            let json = Json::deserialize(member()).map_err(|error| error.to_string())?;
            lenient::decode(json)
        }
    }
}

/// A message that is being read.
struct Message<R> {
    stream: R,
    buffer: Vec<u8>,
}

/// Content of a field: a number, which was skipped, or the length of the bytes that follow.
enum Content {
    Number,
    Bytes(usize),
}

impl<R: BufRead> Message<R> {
    fn new(stream: R) -> Message<R> {
        Message { stream, buffer: Vec::new() }
    }

    /// The next message of this length.
    fn inner(&mut self, length: usize) -> Message<Take<&mut R>> {
        Message::new(self.stream.by_ref().take(length as u64))
    }

    /// The number and content of the next field; `None` at the end.
    fn field(&mut self) -> Result<Option<(u64, Content)>, Error> {
        if self.buffered()?.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let content = match tag & 7 {
            0 => {
                self.varint()?;
                Content::Number
            }
            1 => Content::Bytes(8),
            2 => Content::Bytes(usize::try_from(self.varint()?).map_err(|_| cut_off())?),
            5 => Content::Bytes(4),
            wire => return Err(unknown_wire_type(wire)),
        };
        Ok(Some((tag >> 3, content)))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        varint(|| {
            let byte = self.buffered()?.first().copied();
            self.stream.consume(usize::from(byte.is_some()));
            byte.ok_or_else(cut_off)
        })
    }

    /// Calls `read` with the next `length` bytes, without a copy if all of them are buffered.
    fn bytes<V>(&mut self, length: usize, read: impl FnOnce(&[u8]) -> Result<V, Error>) -> Result<V, Error> {
        if let Some(bytes) = self.buffered()?.get(..length) {
            let value = read(bytes)?;
            self.stream.consume(length);
            return Ok(value);
        }
        self.buffer.clear();
        self.stream.by_ref().take(length as u64).read_to_end(&mut self.buffer).map_err(Error::custom)?;
        if self.buffer.len() < length {
            return Err(cut_off());
        }
        read(&self.buffer)
    }

    fn skip(&mut self, content: Content) -> Result<(), Error> {
        match content {
            Content::Number => Ok(()),
            Content::Bytes(length) => self.bytes(length, |_| Ok(())),
        }
    }

    fn buffered(&mut self) -> Result<&[u8], Error> {
        self.stream.fill_buf().map_err(Error::custom)
    }
}
