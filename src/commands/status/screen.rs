//! The screens of `status`: one for all custom resources, or one for each named custom resource.

use serde_json::Value;

use super::{overview, page};
use crate::commands::shared::status::StatusReport;
use crate::view::text::Text;
use crate::view::{View, document};

impl View for StatusReport<'_> {
    fn blocks(&self, wide: bool) -> Text {
        if self.named { page::text(self, wide) } else { overview::text(self, wide) }
    }

    fn names(&self) -> Vec<String> {
        let items = self.document.items.iter().filter(|item| item.exists);
        items.map(|item| format!("{}/{}", item.kind.to_lowercase(), item.name)).collect()
    }

    fn document(&self) -> Value {
        document("Status", &self.document)
    }
}
