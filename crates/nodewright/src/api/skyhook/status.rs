//! The status of a custom resource, as the operator writes it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use foldhash::fast::RandomState;
use jiff::Timestamp;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::{Condition, Name, Status};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SkyhookStatus {
    pub status: Option<Status>,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
    /// The operator's copy of the node annotations. The annotations are authoritative.
    pub node_state: Mirror,
    #[serde(deserialize_with = "counts")]
    pub node_status: BTreeMap<Status, usize>,
    /// Nodes of the current batch, with the time at which each joined.
    pub node_priority: BTreeMap<Name, Option<Timestamp>>,
    pub node_order_offset: i64,
    pub config_updates: BTreeMap<String, Vec<String>>,
    pub compartment_statuses: BTreeMap<String, CompartmentStatus>,
    pub complete_nodes: String,
}

/// Deserializes a map from node to status into the number of nodes with each status.
fn counts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Status, usize>, D::Error> {
    let mut counts = BTreeMap::new();
    for status in BTreeMap::<String, Status>::deserialize(from)?.into_values() {
        *counts.entry(status).or_default() += 1;
    }
    Ok(counts)
}

/// The operator's copy of the node states, by node name. Many nodes have equal states, which are stored once.
#[derive(Debug, Clone, Default)]
pub struct Mirror(Box<[(Box<str>, Name)]>);

impl Mirror {
    /// Number of nodes with a record.
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    /// The record of one node: package states by `name|version`.
    pub fn of(&self, node: &str) -> Option<BTreeMap<String, Value>> {
        let at = self.0.binary_search_by(|(name, _)| (**name).cmp(node));
        let (_, text) = &self.0[at.ok()?];
        Some(serde_json::from_str(text).expect("the text was decoded as this map"))
    }

    /// Whether any node has a record of the package `name|version`.
    pub fn has(&self, key: &str) -> bool {
        let texts: HashSet<&str> = self.0.iter().map(|(_, text)| text.as_str()).collect();
        texts.into_iter().any(|text| {
            let packages: BTreeMap<String, IgnoredAny> =
                serde_json::from_str(text).expect("the text was decoded as this map");
            packages.contains_key(key)
        })
    }
}

impl<'de> Deserialize<'de> for Mirror {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mirror, D::Error> {
        deserializer.deserialize_map(EachNode)
    }
}

/// Decodes the map node by node. Each distinct text is decoded only once.
struct EachNode;

impl<'de> Visitor<'de> for EachNode {
    type Value = Mirror;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut nodes: A) -> Result<Mirror, A::Error> {
        let mut known: HashMap<Box<str>, Name, RandomState> = HashMap::default();
        let mut texts = BTreeMap::new();
        while let Some((node, packages)) = nodes.next_entry::<Box<str>, Box<RawValue>>()? {
            let name = match known.get(packages.get()) {
                Some(name) => name.clone(),
                None => {
                    let value: Value = serde_json::from_str(packages.get()).map_err(A::Error::custom)?;
                    BTreeMap::<String, IgnoredAny>::deserialize(value).map_err(A::Error::custom)?;
                    let name = Name::from(packages.get());
                    known.insert(packages.into(), name.clone());
                    name
                }
            };
            texts.insert(node, name);
        }
        Ok(Mirror(texts.into_iter().collect()))
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CompartmentStatus {
    pub matched: i64,
    pub ceiling: i64,
    pub in_progress: i64,
    pub completed: i64,
    pub progress_percent: i64,
    pub batch_state: Option<BatchState>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BatchState {
    pub current_batch: i64,
    pub consecutive_failures: i64,
    pub completed_nodes: i64,
    pub failed_nodes: i64,
    pub should_stop: bool,
    pub last_batch_size: i64,
    pub last_batch_failed: bool,
}
