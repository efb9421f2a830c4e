//! An object of a file before it is decoded.

use std::any::Any;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::api::{ApiFlavor, Object, visit};
use crate::cluster::node::NodeObject;
use crate::cluster::{Node, kubernetes, lenient};

/// An object of unknown type, with its summary.
pub struct Body<'a> {
    pub summary: Summary,
    /// Kind and apiVersion of the object's list, if the object itself lacks them.
    pub lacks: Option<(String, String)>,
    form: Form<'a>,
}

enum Form<'a> {
    Text(&'a [u8]),
    Node(Box<Node>),
}

impl<'a> Body<'a> {
    /// Decodes a node from JSON immediately, because there may be many. `None` if the text is not a node with
    /// a name.
    pub fn read_node(text: &'a [u8], list: Option<(&str, &str)>) -> Option<Body<'a>> {
        let mut object: NodeObject = serde_json::from_slice(text).ok()?;
        let (kind, version) = list.unwrap_or_default();
        let is = |own: &Option<String>, or: &str, word| own.as_deref().unwrap_or(or) == word;
        let known =
            is(&object.kind, kind, "Node") && is(&object.api_version, version, "v1") && object.is_named();
        known.then(|| {
            let (kind, api_version) = (object.kind.take(), object.api_version.take());
            let newest = object.newest();
            let node = Node::from(object);
            Body {
                summary: Summary {
                    kind,
                    api_version,
                    name: node.name.to_string(),
                    newest,
                    ..Summary::default()
                },
                lacks: None,
                form: Form::Node(Box::new(node)),
            }
        })
    }

    /// Reads the summary of an object in JSON.
    ///
    /// # Errors
    ///
    /// Fails if the text is not JSON.
    pub fn read(text: &'a [u8]) -> serde_json::Result<Body<'a>> {
        Ok(Body { summary: serde_json::from_slice(text)?, lacks: None, form: Form::Text(text) })
    }

    /// Decodes the object.
    ///
    /// # Errors
    ///
    /// Fails if the object's identity cannot be read.
    pub fn decode<T: Object + DeserializeOwned + 'static>(self) -> Result<T, String> {
        match self.form {
            Form::Node(node) => match (node as Box<dyn Any>).downcast() {
                Ok(node) => Ok(*node),
                Err(_) => Err("a node where another kind was expected".to_owned()),
            },
            Form::Text(text) if self.lacks.is_none() => {
                lenient::decode_text(text).map_err(|e| e.to_string())?
            }
            Form::Text(_) => lenient::decode(self.into_value()?),
        }
    }

    /// The object as JSON, with kind and apiVersion from its list.
    ///
    /// # Errors
    ///
    /// Fails if the object was already decoded as a node, or is not JSON.
    pub fn into_value(self) -> Result<Value, String> {
        let mut value = match self.form {
            Form::Text(text) => serde_json::from_slice(text).map_err(|e| e.to_string())?,
            Form::Node(_) => return Err("a node where another kind was expected".to_owned()),
        };
        if let (Some((kind, version)), Value::Object(object)) = (self.lacks, &mut value) {
            object.insert("kind".to_owned(), kind.into());
            object.insert("apiVersion".to_owned(), version.into());
        }
        Ok(value)
    }
}

/// Identity of an object, and the time of its latest event.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    pub kind: Option<String>,
    pub api_version: Option<String>,
    pub name: String,
    pub namespace: String,
    /// Whether the object has the label of a package's pods and Jobs.
    pub of_a_package: bool,
    /// Whether the object has a label by which the operator finds its ConfigMaps.
    pub of_config_maps: bool,
    /// The newest timestamp, apart from `deletion`.
    pub newest: Option<Timestamp>,
    pub deletion: Option<Timestamp>,
    /// Whether the object has `items` other than null.
    pub has_items: bool,
}

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Summary, D::Error> {
        let mut summary = Summary::default();
        deserializer.deserialize_any(Values(&mut summary, At::Top))?;
        Ok(summary)
    }
}

impl Summary {
    /// The newest time of an event in the object.
    ///
    /// Most files record no time, and ages must not depend on when the files are read. A pod's deletion
    /// timestamp lies in the future by its grace period; that of other objects is the time of the request.
    pub fn newest(&self) -> Option<Timestamp> {
        let asked = self.deletion.filter(|_| self.kind.as_deref() != Some("Pod"));
        self.newest.max(asked)
    }

    fn note_label(&mut self, key: &str) {
        let Some(flavor) = ApiFlavor::ALL.into_iter().find(|flavor| key.starts_with(flavor.group())) else {
            return;
        };
        let of_a_package = key == flavor.key("name");
        self.of_a_package |= of_a_package;
        self.of_config_maps |= of_a_package || key == kubernetes::node_label(flavor);
    }

    fn note_text(&mut self, at: At, text: &str) {
        match at {
            At::Kind => self.kind = Some(text.to_owned()),
            At::ApiVersion => self.api_version = Some(text.to_owned()),
            At::Name => text.clone_into(&mut self.name),
            At::Namespace => text.clone_into(&mut self.namespace),
            At::Time | At::Times => self.newest = self.newest.max(text.parse().ok()),
            At::Deletion => self.deletion = text.parse().ok(),
            At::Items => self.has_items = true,
            At::Top | At::Metadata | At::Labels | At::Else => {}
        }
    }
}

/// Position of a value in its object.
#[derive(Clone, Copy)]
enum At {
    Top,
    Kind,
    ApiVersion,
    Metadata,
    Name,
    Namespace,
    Labels,
    /// All strings within this value are times.
    Times,
    /// The value of a field whose name denotes a time.
    Time,
    Deletion,
    Items,
    Else,
}

/// Visits the values at a position.
struct Values<'a>(&'a mut Summary, At);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Values(summary, at) = self;
        summary.has_items |= matches!(at, At::Items);
        while let Some(at) = map.next_key_seed(Key(summary, at))? {
            match at {
                Some(at) => map.next_value_seed(Values(summary, at))?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.has_items |= matches!(self.1, At::Items);
        while list.next_element_seed(Values(&mut *self.0, At::Else))?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        let Values(summary, at) = self;
        summary.note_text(at, text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Visits a key; returns the position of its value, `None` to skip it.
struct Key<'a>(&'a mut Summary, At);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<At>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<At>, D::Error> {
        let Key(summary, at) = self;
        visit::text(deserializer, |key| at.value_under(key, summary))
    }
}

impl At {
    /// The position of a key's value; `None` to skip it.
    fn value_under(self, key: &str, summary: &mut Summary) -> Option<At> {
        Some(match (self, key) {
            (At::Labels, key) => {
                summary.note_label(key);
                return None;
            }
            (At::Top, "kind") => At::Kind,
            (At::Top, "apiVersion") => At::ApiVersion,
            (At::Top, "metadata") => At::Metadata,
            (At::Top, "items") => At::Items,
            (At::Metadata, "name") => At::Name,
            (At::Metadata, "namespace") => At::Namespace,
            (At::Metadata, "labels") => At::Labels,
            // `managedFields` are half of many objects, and their times apply to fields, not to the object.
            (At::Metadata, "managedFields") => return None,
            // These parts contain no times of events. A node's images are half of its size.
            (_, "annotations" | "labels" | "spec" | "images") => return None,
            (At::Metadata, "deletionTimestamp") => At::Deletion,
            (At::Times, _) | (_, "nodePriority") => At::Times,
            (_, key) if tells_time(key) => At::Time,
            _ => At::Else,
        })
    }
}

/// Whether the name of a field denotes the time of an event.
fn tells_time(key: &str) -> bool {
    ["Timestamp", "Time", "At"].iter().any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_that_is_decoded_at_once_has_the_same_summary() {
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "a",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"seenAt": "2027-01-01T00:00:00Z"},
                "labels": {"a\"b": "c\\d"},
                "managedFields": [{"manager": "kubelet", "time": "2027-01-01T00:00:00Z"}],
            },
            "spec": {"taints": [{"key": "x", "timeAdded": "2027-01-01T00:00:00Z"}]},
            "status": {
                "conditions": [
                    {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "2026-02-02T00:00:00Z",
                     "lastTransitionTime": "2026-02-01T00:00:00Z"},
                ],
                "capacity": {"nvidia.com/gpu": "8"},
                "images": [{"names": ["x"], "sizeBytes": 7}],
            },
        });
        let mut deleted = node.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-03-01T00:00:00Z");
        for node in [node, deleted] {
            let text = node.to_string();
            let summary: Summary = serde_json::from_str(&text).expect("a summary");
            let body = Body::read_node(text.as_bytes(), None).expect("a node");
            assert_eq!(body.summary.newest(), summary.newest());
            assert_eq!(body.summary.name, summary.name);
            assert_eq!(body.summary.kind, summary.kind);
            assert_eq!(body.summary.api_version, summary.api_version);
            let whole: Node = Body::read(text.as_bytes()).expect("an object").decode().expect("a node");
            assert_eq!(body.decode(), Ok(whole));
        }
        for bad in ["", "{", "7", r#"{"metadata": null}"#, "{} {}", "{}"] {
            assert!(Body::read_node(bad.as_bytes(), None).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_an_object_is_and_when_it_last_changed() {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "namespace": "b",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2027-01-01T00:00:00Z",
                "annotations": {"seenAt": "2027-01-01T00:00:00Z"},
                "labels": {ApiFlavor::Skyhook.key("name"): "gpu"},
            },
            "spec": {"startTime": "2027-01-01T00:00:00Z"},
            "status": {
                "conditions": [{"type": "Ready", "lastTransitionTime": "2026-02-01T00:00:00Z", "n": [1, null, 1.5, true]}],
                "nodePriority": {"node-1": "2026-03-01T00:00:00Z"},
                "message": "2027-01-01T00:00:00Z",
            },
        });
        let expected = Summary {
            kind: Some("Pod".to_owned()),
            api_version: Some("v1".to_owned()),
            name: "a".to_owned(),
            namespace: "b".to_owned(),
            of_a_package: true,
            of_config_maps: true,
            newest: "2026-03-01T00:00:00Z".parse().ok(),
            deletion: "2027-01-01T00:00:00Z".parse().ok(),
            has_items: false,
        };
        assert_eq!(Summary::deserialize(&object).expect("an object"), expected);
        let text = object.to_string();
        let mut read = serde_json::from_str::<Summary>(&text).expect("an object");
        assert_eq!(read, expected);
        assert_eq!(read.newest(), expected.newest);
        read.kind = Some("Skyhook".to_owned());
        assert_eq!(read.newest(), expected.deletion);
    }
}
