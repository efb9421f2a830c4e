//! An object of a file before it is decoded.

use std::any::Any;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::summary::Summary;
use crate::api::Object;
use crate::cluster::node::NodeObject;
use crate::cluster::{Node, lenient};

/// An object of unknown type, with its summary.
pub struct Body<'a> {
    pub summary: Summary,
    /// Kind and apiVersion of the object's list, if the object itself lacks them.
    pub lacks: Option<(String, String)>,
    form: Form<'a>,
}

enum Form<'a> {
    Value(Value),
    Text(&'a [u8]),
    Node(Box<Node>),
}

impl<'a> Body<'a> {
    pub fn of(value: Value) -> Body<'a> {
        Body {
            summary: Summary::deserialize(&value).unwrap_or_default(),
            lacks: None,
            form: Form::Value(value),
        }
    }

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
            Form::Text(_) | Form::Value(_) => lenient::decode(self.into_value()?),
        }
    }

    /// The object as JSON, with kind and apiVersion from its list.
    ///
    /// # Errors
    ///
    /// Fails if the object was already decoded as a node, or is not JSON.
    pub fn into_value(self) -> Result<Value, String> {
        let mut value = match self.form {
            Form::Value(value) => value,
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
            let whole: Node = Body::of(node).decode().expect("a node");
            assert_eq!(body.decode(), Ok(whole));
        }
        for bad in ["", "{", "7", r#"{"metadata": null}"#, "{} {}", "{}"] {
            assert!(Body::read_node(bad.as_bytes(), None).is_none(), "{bad}");
        }
    }
}
