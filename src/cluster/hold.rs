//! Our own pause around a plan: who has put it there, since when, and whether they are still at work.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Cluster;
use crate::api::Skyhook;

/// The name under which the server notes which fields this program wrote.
pub const FIELD_MANAGER: &str = "kubectl-skyhook";
/// Where the reason of a pause is noted.
pub const REASON: &str = "kubectl-skyhook/pause-reason";
/// The reason of a pause that lasts for as long as finalizers of others keep a custom resource that was stripped.
pub const STRIPPED: &str = "its finalizer is stripped";
/// Where it is noted who holds the operator.
pub const HOLDER: &str = "kubectl-skyhook/hold";
/// How the reason begins where the pause ends with the plan.
const OURS: &str = "held for: ";
/// How long a holder of another machine is taken to be at work.
const AT_MOST: SignedDuration = SignedDuration::from_hours(1);

/// One run of this program that holds the operator; its text is the identity of the hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// `ann@laptop`
    pub by: String,
    /// The machine, and where there are several process tables on it, which of them.
    pub machine: String,
    pub process: u32,
    pub since: Timestamp,
}

impl Holder {
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a holder is plain data")
    }

    pub fn parse(text: &str) -> Option<Holder> {
        serde_json::from_str(text).ok()
    }
}

/// Holders of this machine by their text, and whether they run.
pub type Holders = BTreeMap<String, bool>;

/// A pause of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold<'a> {
    /// The plan that it is for: `reset gpu-tune on 3 nodes`.
    pub purpose: &'a str,
    /// Its identity.
    pub text: &'a str,
    pub holder: Option<Holder>,
    /// The server time of the write, from `managedFields`.
    written: Option<Timestamp>,
}

/// Whether whoever holds the operator is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderState {
    /// Their process runs, on this machine.
    AtWork,
    /// On another machine, and not long ago.
    Unknown,
    /// Their process has ended.
    Ended,
    /// On another machine, and longer ago than any plan takes.
    Old,
    /// On another machine, and further in the future than clocks differ: no age follows from that.
    InFuture,
}

impl HolderState {
    /// Whether the run that would end the pause is over.
    pub fn is_left_behind(self) -> bool {
        !matches!(self, HolderState::AtWork | HolderState::Unknown)
    }
}

/// The reason that is noted beside a pause for a plan.
pub fn reason(purpose: &str) -> String {
    format!("{OURS}{purpose}")
}

/// Whether this annotation belongs to a pause that ends with the command that it is for.
pub fn ends_with_its_command(key: &str, value: &str) -> bool {
    key == HOLDER || key == REASON && value.starts_with(OURS)
}

impl<'a> Hold<'a> {
    /// The hold among annotations. A pause with another reason is somebody's own by now.
    fn among(get: impl Fn(&str) -> Option<&'a str>, pause: &str) -> Option<Hold<'a>> {
        let purpose = get(REASON)?.strip_prefix(OURS)?;
        let text = get(HOLDER)?;
        (get(pause) == Some("true")).then(|| Hold {
            purpose,
            text,
            holder: Holder::parse(text),
            written: None,
        })
    }

    /// The hold on an object, whose `pause` annotation has this key.
    pub fn on(object: &'a Value, pause: &str) -> Option<Hold<'a>> {
        let annotations = object["metadata"]["annotations"].as_object()?;
        Hold::among(|key| annotations.get(key).and_then(Value::as_str), pause)
    }

    /// Since when it lasts: by the server's clock, or else by that of the holder's machine.
    pub fn since(&self) -> Option<Timestamp> {
        self.written.or(self.holder.as_ref().map(|h| h.since))
    }

    /// `ann@laptop (reset gpu-tune on 3 nodes)`
    pub fn words(&self) -> String {
        let by = self.holder.as_ref().map_or("someone", |h| h.by.as_str());
        format!("{by} ({})", self.purpose)
    }
}

impl Skyhook {
    /// The pause of ours that it is under.
    pub fn hold(&self) -> Option<Hold<'_>> {
        let pause = self.flavor()?.key("pause");
        let annotations = &self.metadata.annotations;
        let hold = Hold::among(|key| annotations.get(key).map(String::as_str), &pause)?;
        Some(Hold { written: self.annotation_written(HOLDER).and_then(|(_, at)| at), ..hold })
    }
}

impl Cluster {
    /// A pause of ours, and whether the command that it is for is at work.
    pub fn hold<'a>(&self, skyhook: &'a Skyhook) -> Option<(Hold<'a>, HolderState)> {
        let hold = skyhook.hold()?;
        let age = hold.since().map(|at| self.taken_at.duration_since(at));
        let standing = match (self.holders.get(hold.text), age) {
            (Some(true), _) => HolderState::AtWork,
            (Some(false), _) => HolderState::Ended,
            _ if hold.holder.is_none() => HolderState::Ended,
            (None, Some(age)) if age > AT_MOST => HolderState::Old,
            (None, Some(age)) if age < -AT_MOST => HolderState::InFuture,
            (None, _) => HolderState::Unknown,
        };
        Some((hold, standing))
    }

    /// Whether a plan that did not get to its end has left the custom resource paused.
    pub fn left_paused(&self, skyhook: &Skyhook) -> bool {
        self.hold(skyhook).is_some_and(|(_, standing)| standing.is_left_behind())
    }
}
