//! The output of `finalizer status` for several deletions.

use serde_json::Value;

use super::document::Document;
use super::report::FinalizerStatus;
use crate::view::text::Text;
use crate::view::{List, View};

/// Deletions, sorted by name.
pub struct FinalizerStatuses<'a> {
    pub items: Vec<FinalizerStatus<'a>>,
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
        let items = self.items.iter().map(|item| Document::of(item.cluster, &item.deletion));
        List::new("FinalizerStatusList", items).document()
    }
}
