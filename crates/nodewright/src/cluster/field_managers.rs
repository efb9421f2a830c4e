//! Who set an annotation such as `pause`, when, and why.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::api::Skyhook;

/// The decision that keeps the operator from starting new work for a custom resource.
pub struct Stop<'a> {
    /// `paused` or `disabled`
    pub how: &'static str,
    /// The holder of a temporary pause, or else the field manager that set the annotation.
    pub by: Option<Cow<'a, str>>,
    pub since: Option<Timestamp>,
    pub reason: Option<&'a str>,
}

impl Skyhook {
    /// Who paused or disabled the custom resource, when and why; `None` if it is active.
    pub fn stop(&self) -> Option<Stop<'_>> {
        let how = self.stopped()?;
        let annotation = if how == "paused" { "pause" } else { "disable" };
        let (manager, since) = self.annotated_by(annotation).unzip();
        let hold = self.hold().filter(|_| how == "paused");
        let by = match hold.and_then(|hold| hold.holder) {
            Some(holder) => Some(Cow::Owned(holder.by)),
            None => manager.filter(|manager| !manager.is_empty()).map(Cow::Borrowed),
        };
        let reason = self.annotated_reason(annotation).map(|(_, reason)| reason);
        Some(Stop { how, by, since: since.flatten(), reason })
    }

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
