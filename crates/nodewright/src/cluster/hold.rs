//! The pause that this program sets around a plan: its holder, its age, and whether the holder still runs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Cluster;
use crate::api::Skyhook;

/// Field manager of this program.
pub const FIELD_MANAGER: &str = "kubectl-skyhook";
/// Annotation with the reason of a pause.
pub const REASON: &str = "kubectl-skyhook/pause-reason";
/// Reason of the pause of a custom resource whose own finalizer was stripped, and that third-party finalizers
/// still keep.
pub const STRIPPED_REASON: &str = "its finalizer is stripped";
/// Annotation with the holder of a pause.
pub const HOLDER: &str = "kubectl-skyhook/hold";
/// Prefix of the reason of a pause that ends with its plan.
const REASON_PREFIX: &str = "held for: ";
/// Age after which a hold from another machine counts as abandoned. Also the maximum difference between
/// clocks.
const MAX_HOLD_AGE: SignedDuration = SignedDuration::from_hours(1);

/// A run of this program that paused the operator. Its JSON is the identity of the hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// User and host: `ann@laptop`
    pub by: String,
    /// The boot of the machine, with its process table; empty if unknown. Older versions wrote the host name.
    pub machine: String,
    pub process: u32,
    pub since: Timestamp,
}

impl Holder {
    pub fn identity(&self) -> String {
        serde_json::to_string(self).expect("a holder is valid JSON")
    }

    pub fn parse(text: &str) -> Option<Holder> {
        serde_json::from_str(text).ok()
    }
}

/// Holders on this machine by their identity; `true` while their process runs.
pub type HolderLiveness = BTreeMap<String, bool>;

/// A pause by this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold<'a> {
    /// The plan that the pause is for: `reset gpu-tune on 3 nodes`.
    pub purpose: &'a str,
    /// JSON of the holder, which identifies the hold.
    pub identity: &'a str,
    pub holder: Option<Holder>,
    /// The server time of the write, from `managedFields`.
    written: Option<Timestamp>,
}

/// Whether the run that holds the operator still works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderActivity {
    /// The process runs on this machine.
    AtWork,
    /// The run is on another machine, and the hold is recent.
    Unknown,
    /// The process has ended, or the holder cannot be parsed.
    Ended,
    /// The run is on another machine, and the hold is so old ([`MAX_HOLD_AGE`]) that it counts as abandoned.
    Old,
    /// The run is on another machine, and the hold is further in the future than clocks may differ: its age
    /// is unknown.
    InFuture,
}

impl HolderActivity {
    /// Whether the run that would end the pause is over.
    pub fn is_left_behind(self) -> bool {
        !matches!(self, HolderActivity::AtWork | HolderActivity::Unknown)
    }
}

/// Reason of a pause for a plan.
pub fn reason(purpose: &str) -> String {
    format!("{REASON_PREFIX}{purpose}")
}

/// Whether this annotation belongs to a pause that ends with its command.
pub fn ends_with_its_command(key: &str, value: &str) -> bool {
    key == HOLDER || key == REASON && value.starts_with(REASON_PREFIX)
}

impl<'a> Hold<'a> {
    /// Finds the hold among annotations; `None` if the pause has another reason, because somebody else has
    /// taken it over.
    fn from_annotations(get: impl Fn(&str) -> Option<&'a str>, pause: &str) -> Option<Hold<'a>> {
        let purpose = get(REASON)?.strip_prefix(REASON_PREFIX)?;
        let identity = get(HOLDER)?;
        (get(pause) == Some("true")).then(|| Hold {
            purpose,
            identity,
            holder: Holder::parse(identity),
            written: None,
        })
    }

    /// The hold on an object; `pause` is the key of its pause annotation.
    pub fn from_object(object: &'a Value, pause: &str) -> Option<Hold<'a>> {
        let annotations = object["metadata"]["annotations"].as_object()?;
        Hold::from_annotations(|key| annotations.get(key).and_then(Value::as_str), pause)
    }

    /// Start of the hold, by the server's clock, or else by the clock of the holder's machine.
    pub fn since(&self) -> Option<Timestamp> {
        self.written.or(self.holder.as_ref().map(|h| h.since))
    }

    /// The user and the plan: `ann@laptop (reset gpu-tune on 3 nodes)`
    pub fn describe(&self) -> String {
        let by = self.holder.as_ref().map_or("someone", |h| h.by.as_str());
        format!("{by} ({})", self.purpose)
    }
}

impl Skyhook {
    /// This program's pause of the custom resource.
    pub fn hold(&self) -> Option<Hold<'_>> {
        let pause = self.flavor()?.key("pause");
        let annotations = &self.metadata.annotations;
        let hold = Hold::from_annotations(|key| annotations.get(key).map(String::as_str), &pause)?;
        Some(Hold { written: self.annotation_written(HOLDER).and_then(|(_, at)| at), ..hold })
    }
}

impl Cluster {
    /// This program's pause of the custom resource, and the state of its holder.
    pub fn hold<'a>(&self, skyhook: &'a Skyhook) -> Option<(Hold<'a>, HolderActivity)> {
        let hold = skyhook.hold()?;
        let age = hold.since().map(|at| self.taken_at.duration_since(at));
        let state = match (self.holders.get(hold.identity), age) {
            (Some(true), _) => HolderActivity::AtWork,
            (Some(false), _) => HolderActivity::Ended,
            _ if hold.holder.is_none() => HolderActivity::Ended,
            (None, Some(age)) if age > MAX_HOLD_AGE => HolderActivity::Old,
            (None, Some(age)) if age < -MAX_HOLD_AGE => HolderActivity::InFuture,
            (None, _) => HolderActivity::Unknown,
        };
        Some((hold, state))
    }

    /// Whether an interrupted plan left the custom resource paused.
    pub fn left_paused(&self, skyhook: &Skyhook) -> bool {
        self.hold(skyhook).is_some_and(|(_, state)| state.is_left_behind())
    }
}

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
        self.metadata
            .annotations
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .find(|(key, value)| key.ends_with(&end) && !value.is_empty())
    }
}
