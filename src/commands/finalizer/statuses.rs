//! The output of `finalizer status` for several deletions.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::document;
use super::report::FinalizerStatus;
use crate::view::text::Text;
use crate::view::{View, to_json};

/// Deletions, sorted by name.
pub struct FinalizerStatuses<'a> {
    pub items: Vec<FinalizerStatus<'a>>,
}

/// The custom resources that are being deleted.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    api_version: &'static str,
    /// Always `FinalizerStatusList`.
    kind: &'static str,
    items: Vec<document::Document>,
}

impl View for FinalizerStatuses<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut text = Text::new();
        let whole = wide || self.items.len() == 1;
        for (at, item) in self.items.iter().enumerate() {
            if at > 0 {
                text.blank();
            }
            text.append(if whole { item.blocks(wide) } else { item.summary() });
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let items = self.items.iter();
        items.map(|item| item.deletion.skyhook.reference()).collect()
    }

    fn document(&self) -> Value {
        let items = self.items.iter();
        to_json(&Document {
            api_version: crate::view::API_VERSION,
            kind: "FinalizerStatusList",
            items: items.map(|item| document::Document::of(item.cluster, &item.deletion)).collect(),
        })
    }
}
