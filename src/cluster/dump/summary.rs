//! What has to be known of an object before it is decoded, whatever it is: one pass, and nothing of it is kept.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::api::ApiFlavor;
use crate::cluster::config_map;

/// Which object it is, and when something last happened to it.
#[derive(Debug, Default, PartialEq)]
pub struct Summary {
    pub kind: Option<String>,
    pub api_version: Option<String>,
    pub name: String,
    pub namespace: String,
    /// Carries the label of a package's pods and Jobs.
    pub of_a_package: bool,
    /// Carries a label by which the operator finds its ConfigMaps.
    pub of_config_maps: bool,
    /// The newest of its times but the deletion's.
    newest: Option<Timestamp>,
    deletion: Option<Timestamp>,
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
    /// The newest time at which something happened, as the object itself says.
    ///
    /// Captures do not say when they were taken, and ages must not depend on when they are read. The deletion timestamp of
    /// a pod lies in the future, by its grace period; that of other objects is the time of the request.
    pub fn newest(&self) -> Option<Timestamp> {
        let asked = self
            .deletion
            .filter(|_| self.kind.as_deref() != Some("Pod"));
        self.newest.max(asked)
    }

    /// Notes a label.
    pub fn has(&mut self, label: &Label) {
        self.of_a_package |= *label == Label::Package;
        self.of_config_maps |= *label != Label::Other;
    }
}

/// Where a value stands, as far as that matters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    Top,
    Kind,
    ApiVersion,
    Metadata,
    Name,
    Namespace,
    Labels,
    /// Times of everything in it count.
    Times,
    /// Under a key that says when something happened.
    Time,
    Deletion,
    Else,
}

/// Values that stand there, and are not kept.
pub struct Values<'a>(pub &'a mut Summary, pub At);

impl Values<'_> {
    pub fn text(self, text: &str) {
        let Values(summary, at) = self;
        match at {
            At::Kind => summary.kind = Some(text.to_owned()),
            At::ApiVersion => summary.api_version = Some(text.to_owned()),
            At::Name => text.clone_into(&mut summary.name),
            At::Namespace => text.clone_into(&mut summary.namespace),
            At::Time | At::Times => summary.newest = summary.newest.max(text.parse().ok()),
            At::Deletion => summary.deletion = text.parse().ok(),
            _ => {}
        }
    }
}

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
        while let Some(key) = map.next_key_seed(Key(at))? {
            match key {
                KeyTarget::Value(at) => map.next_value_seed(Values(summary, at))?,
                KeyTarget::Label(label) => {
                    summary.has(&label);
                    map.next_value::<IgnoredAny>()?;
                }
                KeyTarget::Items => {
                    summary.has_items = true;
                    map.next_value_seed(Values(summary, At::Else))?;
                }
                KeyTarget::Nothing => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list
            .next_element_seed(Values(&mut *self.0, At::Else))?
            .is_some()
        {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text);
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

/// Reads a key of what stands there.
pub struct Key(pub At);

/// What a key leads to.
pub enum KeyTarget {
    Value(At),
    Label(Label),
    Items,
    Nothing,
}

#[derive(PartialEq, Eq)]
pub enum Label {
    Package,
    ConfigMap,
    Other,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = KeyTarget;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyTarget, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = KeyTarget;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<KeyTarget, E> {
        Ok(self.leads_to(key))
    }
}

impl Key {
    pub fn leads_to(&self, key: &str) -> KeyTarget {
        match (self.0, key) {
            (At::Labels, key) => KeyTarget::Label(label(key)),
            (At::Top, "kind") => KeyTarget::Value(At::Kind),
            (At::Top, "apiVersion") => KeyTarget::Value(At::ApiVersion),
            (At::Top, "metadata") => KeyTarget::Value(At::Metadata),
            (At::Top, "items") => KeyTarget::Items,
            (At::Metadata, "name") => KeyTarget::Value(At::Name),
            (At::Metadata, "namespace") => KeyTarget::Value(At::Namespace),
            (At::Metadata, "labels") => KeyTarget::Value(At::Labels),
            // They tell of the past of fields, not of the object, and are half of many an object.
            (At::Metadata, "managedFields") => KeyTarget::Nothing,
            // A node's images are the other half, and there are no times among them.
            (_, "annotations" | "labels" | "spec" | "images") => KeyTarget::Nothing,
            (At::Metadata, "deletionTimestamp") => KeyTarget::Value(At::Deletion),
            (At::Times, _) => KeyTarget::Value(At::Times),
            (_, "nodePriority") => KeyTarget::Value(At::Times),
            (_, key) if tells_time(key) => KeyTarget::Value(At::Time),
            _ => KeyTarget::Value(At::Else),
        }
    }
}

fn label(key: &str) -> Label {
    let mut all = ApiFlavor::ALL.into_iter();
    let Some(flavor) = all.find(|g| key.starts_with(g.group())) else {
        return Label::Other;
    };
    if key == flavor.key("name") {
        Label::Package
    } else if config_map::node_label(flavor) == key {
        Label::ConfigMap
    } else {
        Label::Other
    }
}

/// Whether a field says when something happened.
fn tells_time(key: &str) -> bool {
    ["Timestamp", "Time", "At"]
        .iter()
        .any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
