//! The field managers of a node and the times of their writes, from the node's `managedFields`.

use std::cell::RefCell;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::hold::FIELD_MANAGER;
use super::owners;
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
    labels: LabelOwners,
}

impl LabelWrite {
    /// Whether the program owns labels with the usual owner of this label.
    pub fn is_of_owner(&self, label: &str) -> bool {
        self.labels.0 & LabelOwners::of(label).0 != 0
    }
}

/// The usual owners of labels, as bits of their rows in the table of owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LabelOwners(u16);

impl LabelOwners {
    fn of(label: &str) -> LabelOwners {
        LabelOwners(owners::row_of_label(label).map_or(0, |row| 1 << row))
    }
}

impl<'de> Deserialize<'de> for LabelOwners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LabelOwners, D::Error> {
        struct Field(LabelOwners);

        impl<'de> Deserialize<'de> for Field {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Field, D::Error> {
                let owners =
                    |field: &str| Field(LabelOwners::of(field.strip_prefix("f:").unwrap_or_default()));
                visit::text(deserializer, owners)
            }
        }

        let fields: Vec<(Field, IgnoredAny)> = visit::entries(deserializer, "a map")?;
        Ok(LabelOwners(fields.iter().fold(0, |all, (Field(owners), _)| all | owners.0)))
    }
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
    labels: Option<LabelOwners>,
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

    /// The last writes by managers of labels other than the operator and this program.
    pub fn labelled(&self) -> Vec<LabelWrite> {
        let write = |m: &Manager| {
            Some(LabelWrite { at: m.time?, by: m.manager.clone(), labels: m.fields.metadata.labels? })
        };
        self.foreign().filter_map(write).collect()
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
