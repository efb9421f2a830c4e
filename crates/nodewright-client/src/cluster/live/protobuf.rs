//! Decodes lists in Kubernetes' protobuf encoding, which is smaller and faster to decode than JSON.
//!
//! One `Deserialize` implementation serves both encodings, so that the results are equal: messages are
//! presented to serde with the JSON names of their fields. prost would need a second set of types, and its
//! reader is meant for generated code.

mod schema;
mod wire;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::api::visit;
use schema::{Kind, Message};
pub(super) use schema::{METADATA_LIST, knows};
pub(super) use wire::list;
use wire::{Fields, Value, cut_off};

/// `Accept` value: protobuf, with JSON as fallback.
pub(super) const MEDIA_TYPES: &str = "application/vnd.kubernetes.protobuf, application/json";

/// `Accept` value for only the metadata of the items. Servers without such lists return whole items.
pub(super) const METADATA_MEDIA_TYPES: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, \
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json";

/// Prefix of an object in protobuf. The object follows, packed into a `runtime.Unknown`.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// Decodes a `Status`; `None` if the body is not protobuf.
pub(super) fn decode<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Option<Result<T, Error>> {
    let packed = body.strip_prefix(MAGIC)?;
    Some(unpacked(packed).and_then(|list| T::deserialize(list)))
}

fn unpacked(packed: &[u8]) -> Result<Member<'_>, Error> {
    let (mut kind, mut raw) = ("", None);
    let mut fields = Fields(packed);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind = Fields(value.bytes()?).text(2)?,
            2 => raw = Some(value),
            _ => {}
        }
    }
    let raw = raw.ok_or_else(cut_off)?;
    Ok(Member::One(Kind::Message(message(kind)?), raw))
}

/// The known fields of a kind.
fn message(kind: &str) -> Result<&'static Message, Error> {
    schema::of(kind).ok_or_else(|| Error::custom(format!("unknown kind {kind:?}")))
}

/// The JSON text in a `FieldsV1`.
fn embedded_json(value: Value<'_>) -> Result<&[u8], Error> {
    Fields(value.bytes()?).find(1)?.map_or(Ok(b"null"), Value::bytes)
}

/// Whether Kubernetes omits a field with this value in JSON.
fn is_left_out(kind: Kind, value: Value<'_>) -> bool {
    match kind {
        Kind::Text | Kind::Time | Kind::Json => matches!(value, Value::Bytes([])),
        Kind::Number | Kind::Flag => matches!(value, Value::Number(0)),
        Kind::Pointer | Kind::Quantity | Kind::Message(_) | Kind::Each(_) | Kind::Map(_) => false,
    }
}

/// The fields of a message as a map.
struct MessageFields<'de> {
    message: &'static Message,
    fields: Fields<'de>,
    /// Value of the field whose name was read last.
    value: Option<Member<'de>>,
}

impl<'de> MapAccess<'de> for MessageFields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        loop {
            let begin = self.fields;
            let Some((number, value)) = self.fields.next()? else {
                return Ok(None);
            };
            let known = self.message.iter().find(|(at, ..)| *at == number);
            let Some((_, name, kind)) = known else {
                continue;
            };
            self.value = Some(match kind {
                Kind::Each(items) => Member::Each(self.run(begin, number, items)?),
                Kind::Map(items) => Member::Map(self.run(begin, number, items)?),
                kind if is_left_out(*kind, value) => continue,
                kind => Member::One(*kind, value),
            });
            let name = StrDeserializer::<Error>::new(name);
            return seed.deserialize(name).map(Some);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.value.take();
        seed.deserialize(value.ok_or_else(|| Error::custom("a value without a name"))?)
    }
}

impl<'de> MessageFields<'de> {
    /// All values of a repeated field, which are consecutive.
    fn run(
        &mut self,
        begin: Fields<'de>,
        number: u64,
        items: &'static Kind,
    ) -> Result<RepeatedField<'de>, Error> {
        loop {
            let before = self.fields;
            match self.fields.next()? {
                Some((at, _)) if at == number => {}
                _ => {
                    self.fields = before;
                    let length = begin.0.len() - before.0.len();
                    return Ok(RepeatedField {
                        items: *items,
                        fields: Fields(&begin.0[..length]),
                        value: None,
                    });
                }
            }
        }
    }
}

/// The values of a repeated field.
struct RepeatedField<'de> {
    items: Kind,
    fields: Fields<'de>,
    /// In a map, the value of the key that was read last.
    value: Option<&'de [u8]>,
}

impl<'de> SeqAccess<'de> for RepeatedField<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((_, value)) = self.fields.next()? else {
            return Ok(None);
        };
        seed.deserialize(Member::One(self.items, value)).map(Some)
    }
}

/// Each entry of a map is a message with a key and a value.
impl<'de> MapAccess<'de> for RepeatedField<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((_, entry)) = self.fields.next()? else {
            return Ok(None);
        };
        let entry = entry.bytes()?;
        let value = Fields(entry).find(2)?;
        self.value = Some(value.map_or(Ok(&[][..]), Value::bytes)?);
        let key = Fields(entry).find(1)?.unwrap_or(Value::Bytes(&[]));
        seed.deserialize(Member::One(Kind::Text, key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = Value::Bytes(self.value.take().unwrap_or_default());
        seed.deserialize(Member::One(self.items, value))
    }
}

/// The content of a field.
enum Member<'de> {
    One(Kind, Value<'de>),
    Each(RepeatedField<'de>),
    Map(RepeatedField<'de>),
}

impl<'de> Deserializer<'de> for Member<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (kind, value) = match self {
            Member::Each(run) => return visitor.visit_seq(run),
            Member::Map(run) => return visitor.visit_map(run),
            Member::One(kind, value) => (kind, value),
        };
        match kind {
            Kind::Text => match value.lossy_text()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Kind::Number | Kind::Pointer => visitor.visit_i64(value.number()?),
            Kind::Flag => visitor.visit_bool(value.number()? != 0),
            Kind::Time => visitor.visit_string(Fields(value.bytes()?).time()?),
            Kind::Quantity => visitor.visit_borrowed_str(Fields(value.bytes()?).text(1)?),
            Kind::Json => serde_json::Deserializer::from_slice(embedded_json(value)?)
                .deserialize_any(visitor)
                .map_err(Error::custom),
            Kind::Message(message) => {
                visitor.visit_map(MessageFields { message, fields: Fields(value.bytes()?), value: None })
            }
            Kind::Each(_) | Kind::Map(_) => Err(Error::custom("a list of lists")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Member::One(Kind::Json, value) if name == visit::EMBEDDED_JSON => {
                visitor.visit_borrowed_bytes(embedded_json(value)?)
            }
            member => visitor.visit_newtype_struct(member),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

#[cfg(test)]
mod tests;
