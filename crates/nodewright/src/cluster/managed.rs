//! The field managers of a node and the times of their writes, from the node's `managedFields`.

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::hold::FIELD_MANAGER;
use crate::api::keys::NodeKey;
use crate::api::{Name, visit};

/// Managers of labels, annotations, taints and the cordon, with the times of their last writes. Other fields
/// are skipped.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(Vec<Manager>);

/// The last write of a program that owns labels of a node. It may have changed other fields of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelWrite {
    pub at: Timestamp,
    /// The field manager.
    pub by: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    manager: Name,
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1", deserialize_with = "known_fields")]
    fields: Fields,
}

/// Decoded fields by their JSON: a manager owns the same fields on many nodes.
#[derive(Default)]
struct Known {
    by_json: HashMap<Box<[u8]>, Fields, RandomState>,
    bytes: usize,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Maximum number of bytes of JSON to remember; then all are dropped. With so many different texts, the cache
/// saves little.
const MOST_KNOWN: usize = 1 << 19;

fn known_fields<'de, D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
    visit::embedded_json(from, |json| {
        KNOWN.with_borrow_mut(|known| {
            if let Some(fields) = known.by_json.get(json) {
                return Ok(*fields);
            }
            let fields = serde_json::from_slice(json)?;
            if known.bytes + json.len() > MOST_KNOWN {
                *known = Known::default();
            }
            known.bytes += json.len();
            known.by_json.insert(json.into(), fields);
            Ok(fields)
        })
    })
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
    #[serde(rename = "f:spec")]
    spec: SpecFields,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "f:unschedulable")]
    unschedulable: Option<IgnoredAny>,
    #[serde(rename = "f:taints")]
    taints: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    /// Whether the manager owns annotations of the operator.
    #[serde(rename = "f:annotations", deserialize_with = "any_of_operator")]
    annotations_of_operator: bool,
    #[serde(rename = "f:labels")]
    labels: Option<IgnoredAny>,
}

/// Whether any of the annotations is the operator's.
fn any_of_operator<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let annotations: Vec<(OfOperator, IgnoredAny)> = visit::entries(from, "a map")?;
    Ok(annotations.iter().any(|(OfOperator(ours), _)| *ours))
}

/// Whether the annotation is the operator's.
struct OfOperator(bool);

impl<'de> Deserialize<'de> for OfOperator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OfOperator, D::Error> {
        visit::text(deserializer, |field| OfOperator(field.strip_prefix("f:").is_some_and(NodeKey::is_ours)))
    }
}

impl ManagedFields {
    /// Time of the last write by a manager that owns annotations of the operator.
    pub fn annotated(&self) -> Option<Timestamp> {
        let owners = self.0.iter().filter(|m| m.is_of_operator());
        owners.filter_map(|m| m.time).max()
    }

    /// Time of the last write by a manager that owns labels, taints or the cordon. The write may have changed
    /// whether custom resources select the node, or whether the operator can work on it.
    pub fn selectable(&self) -> Option<Timestamp> {
        let owners = self.0.iter().filter(|m| {
            let (metadata, spec) = (&m.fields.metadata, &m.fields.spec);
            metadata.labels.is_some() || spec.taints.is_some() || spec.unschedulable.is_some()
        });
        owners.filter_map(|m| m.time).max()
    }

    /// Whether a field manager owns the cordon.
    pub fn has_cordon(&self) -> bool {
        let mut managers = self.0.iter();
        managers.any(|m| m.fields.spec.unschedulable.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The field manager that cordoned the node, unless it is the operator or this program.
    pub fn cordoned_by(&self) -> Option<&str> {
        let mut owners = self.foreign().filter(|m| m.fields.spec.unschedulable.is_some());
        Some(&owners.next()?.manager)
    }

    /// The last write by a manager of labels other than the operator and this program.
    pub fn labelled(&self) -> Option<LabelWrite> {
        let owners = self.foreign().filter(|m| m.fields.metadata.labels.is_some());
        let writes = owners.filter_map(|m| Some(LabelWrite { at: m.time?, by: m.manager.clone() }));
        writes.max_by_key(|write| write.at)
    }

    /// The managers but the operator and this program.
    fn foreign(&self) -> impl Iterator<Item = &Manager> {
        let known = |name: &str| {
            let mut named = self.0.iter().filter(|m| m.manager == name);
            // People edit the operator's annotations with kubectl as well: owning such annotations does not
            // make kubectl the operator.
            let by_hand = name.starts_with("kubectl");
            name == FIELD_MANAGER || !by_hand && named.any(Manager::is_of_operator)
        };
        self.0.iter().filter(move |m| !m.manager.is_empty() && !known(&m.manager))
    }
}

impl Manager {
    /// Whether the manager owns annotations with the operator's prefix.
    fn is_of_operator(&self) -> bool {
        self.fields.metadata.annotations_of_operator
    }
}
