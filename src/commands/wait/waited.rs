//! The custom resources that `wait` waits for.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Condition, ConditionState};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::view::text::{self, Text};
use crate::view::{API_VERSION, View, to_json};

/// The awaited custom resources and their progress.
pub struct Waited {
    kind: &'static str,
    pub condition: Condition,
    pub items: Vec<(String, ConditionState)>,
}

impl Waited {
    pub fn new(cluster: &Cluster, condition: &Condition, names: &[String]) -> Waited {
        let mut waited = Waited {
            kind: cluster.flavor().kind(),
            condition: condition.clone(),
            items: names
                .iter()
                .map(|name| (name.clone(), ConditionState::Not(String::new())))
                .collect(),
        };
        waited.judge(cluster);
        waited
    }

    /// Checks again. A condition that was met stays met.
    pub fn judge(&mut self, cluster: &Cluster) {
        for (name, state) in &mut self.items {
            if *state != ConditionState::Met {
                *state = self.condition.state(cluster, name);
            }
        }
    }

    pub fn met(&self) -> bool {
        let mut met = self.items.iter().map(|(_, s)| *s == ConditionState::Met);
        if self.condition.any() {
            met.any(|met| met)
        } else {
            met.all(|met| met)
        }
    }

    /// # Errors
    ///
    /// A custom resource that can no longer meet the condition.
    pub fn refuse_what_never_comes(&self) -> Result<()> {
        for (_, state) in &self.items {
            if let ConditionState::Never(why, hint) = state {
                return Err(hint.iter().fold(Error::failed(why), Error::hint));
            }
        }
        Ok(())
    }

    /// The names still awaited.
    pub fn names(&self) -> Vec<String> {
        let items = self.items.iter();
        items
            .filter(|(_, s)| *s != ConditionState::Met)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// `gpu-tune: in_progress, 2 of 3 nodes done`
    pub fn missing(&self) -> Vec<String> {
        let items = self.items.iter();
        items
            .filter_map(|(name, state)| match state {
                ConditionState::Met => None,
                ConditionState::Not(progress) | ConditionState::Never(progress, _) => {
                    Some(format!("{name}: {progress}"))
                }
            })
            .collect()
    }
}

impl View for Waited {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        for (name, _) in self.items.iter().filter(|(_, s)| *s == ConditionState::Met) {
            let reference = format!("{}/{name} ", self.kind.to_lowercase());
            text.line(text::plain(reference) + text::good(&self.condition));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let met = self.items.iter().filter(|(_, s)| *s == ConditionState::Met);
        met.map(|(name, _)| format!("{}/{name}", self.kind.to_lowercase()))
            .collect()
    }

    fn document(&self) -> Value {
        let items = self.items.iter().map(|(name, state)| WaitedResource {
            kind: self.kind.to_owned(),
            name: name.clone(),
            met: *state == ConditionState::Met,
            progress: match state {
                ConditionState::Met => None,
                ConditionState::Not(progress) | ConditionState::Never(progress, _) => {
                    Some(progress.clone())
                }
            },
        });
        to_json(&Document {
            api_version: API_VERSION,
            kind: "Waited",
            condition: self.condition.to_string(),
            items: items.collect(),
        })
    }
}

/// The results of a wait.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    api_version: &'static str,
    /// Always `Waited`.
    kind: &'static str,
    condition: String,
    items: Vec<WaitedResource>,
}

/// The result for one custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitedResource {
    kind: String,
    name: String,
    /// Whether the condition is met.
    met: bool,
    /// How far it has got otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}
