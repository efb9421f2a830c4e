//! Decodes a list while it is received: one item is held at a time.

use std::io::{BufRead, Read, Take};

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Error as _};

use super::schema::Kind;
use super::wire::{Fields, Value, cut_off, unknown_wire_type, varint};
use super::{Member, message};

/// Decodes a list whose [magic](super::MAGIC) was taken. `begins` is shown its metadata, which servers write before the items.
pub fn list<T: DeserializeOwned, M: DeserializeOwned>(
    stream: impl BufRead,
    mut begins: impl FnMut(M),
) -> Result<Vec<T>, Error> {
    let mut packed = Message::new(stream);
    let (mut kind, mut items) = (String::new(), None);
    while let Some((number, content)) = packed.field()? {
        match (number, content) {
            (1, Content::Bytes(length)) => {
                kind = packed.bytes(length, |head| Ok(Fields(head).text(2)?.to_owned()))?;
            }
            (2, Content::Bytes(length)) => {
                items = Some(unpacked(&kind, packed.inner(length), &mut begins)?);
            }
            (_, content) => packed.skip(content)?,
        }
    }
    match items {
        Some(items) => Ok(items),
        None => Err(message(&kind).err().unwrap_or_else(cut_off)),
    }
}

fn unpacked<T: DeserializeOwned, M: DeserializeOwned>(
    kind: &str,
    mut list: Message<Take<impl BufRead>>,
    mut begins: impl FnMut(M),
) -> Result<Vec<T>, Error> {
    let fields = message(kind)?;
    let mut items = Vec::new();
    while let Some((number, content)) = list.field()? {
        let known = fields.iter().find(|(at, ..)| *at == number);
        match (known, content) {
            (Some((.., Kind::Each(kind))), Content::Bytes(length)) => {
                let item = |item: &[u8]| T::deserialize(Member::One(**kind, Value::Bytes(item)));
                items.push(list.bytes(length, item)?);
            }
            (Some((.., kind)), Content::Bytes(length)) => {
                let head = |head: &[u8]| M::deserialize(Member::One(*kind, Value::Bytes(head)));
                begins(list.bytes(length, head)?);
            }
            (_, content) => list.skip(content)?,
        }
    }
    match list.stream.limit() {
        0 => Ok(items),
        _ => Err(cut_off()),
    }
}

/// A message whose fields are still to come.
struct Message<R> {
    stream: R,
    buffer: Vec<u8>,
}

/// What a field holds; bytes are still to be taken.
enum Content {
    Number,
    Bytes(usize),
}

impl<R: BufRead> Message<R> {
    fn new(stream: R) -> Message<R> {
        Message {
            stream,
            buffer: Vec::new(),
        }
    }

    /// The message of so many bytes that comes next.
    fn inner(&mut self, length: usize) -> Message<Take<&mut R>> {
        Message::new(self.stream.by_ref().take(length as u64))
    }

    /// The number of the next field, and what it holds; nothing at the end.
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

    /// Calls `read` with the next `length` bytes, in place where all of them are buffered.
    fn bytes<V>(
        &mut self,
        length: usize,
        read: impl FnOnce(&[u8]) -> Result<V, Error>,
    ) -> Result<V, Error> {
        if let Some(bytes) = self.buffered()?.get(..length) {
            let value = read(bytes)?;
            self.stream.consume(length);
            return Ok(value);
        }
        self.buffer.clear();
        let mut rest = self.stream.by_ref().take(length as u64);
        rest.read_to_end(&mut self.buffer).map_err(Error::custom)?;
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
