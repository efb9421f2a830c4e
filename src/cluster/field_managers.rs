//! Who set an annotation such as `pause`, when, and why.

use jiff::Timestamp;

use crate::api::Skyhook;

impl Skyhook {
    /// When the `pause` or `disable` annotation was last written, and by whom, as far as
    /// `managedFields` tell.
    pub fn annotated_by(&self, suffix: &str) -> Option<(&str, Option<Timestamp>)> {
        let key = format!("f:{}", self.flavor()?.key(suffix));
        self.metadata
            .managed_fields
            .iter()
            .find(|m| !m.fields["f:metadata"]["f:annotations"][&key].is_null())
            .map(|m| (m.manager.as_str(), m.time))
    }

    /// The reason that someone noted beside it, in an annotation such as `pause-reason`.
    pub fn annotated_reason(&self, suffix: &str) -> Option<(&str, &str)> {
        let end = format!("{suffix}-reason");
        let annotations = self.metadata.annotations.iter();
        annotations
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .find(|(key, value)| key.ends_with(&end) && !value.is_empty())
    }
}
