//! Who set an annotation such as `pause`, when, and why.

use jiff::Timestamp;

use crate::api::Skyhook;

impl Skyhook {
    /// Manager and time of the last write of the `pause` or `disable` annotation, from `managedFields`.
    pub fn annotated_by(&self, suffix: &str) -> Option<(&str, Option<Timestamp>)> {
        self.annotation_written(&self.flavor()?.key(suffix))
    }

    /// Manager and time of the last write of an annotation, from `managedFields`.
    pub fn annotation_written(&self, key: &str) -> Option<(&str, Option<Timestamp>)> {
        let key = format!("f:{key}");
        self.metadata
            .managed_fields
            .iter()
            .find(|m| !m.fields["f:metadata"]["f:annotations"][&key].is_null())
            .map(|m| (m.manager.as_str(), m.time))
    }

    /// Key and value of the annotation with the reason, such as `pause-reason`.
    pub fn annotated_reason(&self, suffix: &str) -> Option<(&str, &str)> {
        let end = format!("{suffix}-reason");
        let annotations = self.metadata.annotations.iter();
        annotations
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .find(|(key, value)| key.ends_with(&end) && !value.is_empty())
    }
}
