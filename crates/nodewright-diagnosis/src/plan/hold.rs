//! The pause around a plan, and its end. The object shows the holder. A holder ends only its own pause, or
//! one whose holder no longer runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edit::{Edit, Rebased, lookup, pointer, test};
use super::{Change, Metadata, Plan, Step, some_nodes};
use crate::cluster::Node;
use crate::cluster::cordon::{Holder, holders_on};
use crate::cluster::hold::{FIELD_MANAGER, HOLDER, Hold as Found, REASON, STRIPPED_REASON, reason};

const VERSION: &str = "/metadata/resourceVersion";
/// Placeholder for the user who applies the plan.
const WHOEVER: &str = "whoever does this";

/// The pause around a plan, or its end.
///
/// The resourceVersion is tested: the pause is set and removed again, so a delayed request would find the old
/// values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The key of the pause annotation.
    key: String,
    purpose: String,
    edits: Metadata,
    /// The identity of the holder; set when the plan is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The holder of an abandoned hold that this hold replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instead_of: Option<String>,
    /// The resourceVersion of the object when it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why the pause stays although the hold ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<String>,
}

impl Hold {
    /// A hold and its end, for an object with these annotations. The hold replaces the abandoned hold of
    /// `instead_of`.
    pub fn around<'a>(
        key: &str,
        purpose: &str,
        annotations: impl Fn(&str) -> Option<&'a str>,
        instead_of: Option<&str>,
    ) -> [Hold; 2] {
        let reason = reason(purpose);
        // The values of an abandoned hold are not restored.
        let back = |key: &str| annotations(key).filter(|_| instead_of.is_none());
        let edits = |first: bool| {
            let edit = |at: &str, to: &str| {
                if first { Edit::new(annotations(at), Some(to)) } else { Edit::new(Some(to), back(at)) }
            };
            Metadata::default()
                .annotation(key, edit(key, "true"))
                .annotation(REASON, edit(REASON, &reason))
                .annotation(HOLDER, edit(HOLDER, WHOEVER))
        };
        [true, false].map(|first| Hold {
            key: key.to_owned(),
            purpose: purpose.to_owned(),
            edits: edits(first),
            holder: None,
            instead_of: instead_of.filter(|_| first).map(str::to_owned),
            version: None,
            kept: None,
        })
    }

    /// The end of an abandoned hold.
    pub fn end(key: &str, found: &Found<'_>) -> Hold {
        let [_, end] = Hold::around(key, found.purpose, |_| None, Some(found.identity));
        Hold { holder: Some(found.identity.to_owned()), ..end }
    }

    pub fn edits(&self) -> &Metadata {
        &self.edits
    }

    /// Preview lines. They omit the holder, which is only known when the plan is applied.
    pub(super) fn describe(&self) -> Vec<String> {
        let mut shown = self.edits.clone();
        shown.annotations.remove(HOLDER);
        shown.describe()
    }

    /// Adds the pause to an object that is created paused.
    pub fn mark(&self, object: &mut Value) {
        self.edits.write(object);
    }

    /// The end of exactly this hold; `None` without a holder.
    pub(super) fn end_of_itself(&self) -> Option<Hold> {
        Some(Hold { holder: Some(self.holder.clone()?), ..self.inverse() })
    }

    pub fn reason_to_keep(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// Sets the holder. The end of a hold keeps a holder that is already set.
    pub(super) fn sign(&mut self, holder: &str, ends: bool) {
        if !ends || self.holder.is_none() {
            self.holder = Some(holder.to_owned());
        }
    }

    /// Whether the object is paused, by this hold or by anyone else.
    pub fn is_paused(&self, object: &Value) -> bool {
        annotation(object, &self.key) == Some("true")
    }

    /// The hold of another holder on the object.
    pub fn of_another<'a>(&self, object: &'a Value) -> Option<Found<'a>> {
        Found::from_object(object, &self.key).filter(|found| self.holder.as_deref() != Some(found.identity))
    }

    /// Makes this hold replace an abandoned one.
    pub fn replace(&mut self, left_behind: &str) {
        self.instead_of = Some(left_behind.to_owned());
    }

    pub(super) fn tests(&self) -> Vec<(String, Value)> {
        self.version.iter().map(|v| (VERSION.to_owned(), json!(v))).chain(self.edits.tests()).collect()
    }

    pub(super) fn operations(&self) -> Vec<Value> {
        self.version.iter().map(|v| test(VERSION, json!(v))).chain(self.edits.operations()).collect()
    }

    /// Rebases the hold onto the current object. A pause that no command holds suffices: the operator is
    /// paused either way.
    pub(super) fn rebase(&self, object: &Value) -> Rebased<Hold> {
        let paused = self.is_paused(object);
        let by = self.holder.as_deref().unwrap_or(WHOEVER);
        match Found::from_object(object, &self.key) {
            Some(found) if found.identity == by => return Rebased::Done,
            Some(found) if self.instead_of.as_deref() != Some(found.identity) => {
                return Rebased::Moved(format!("held by {}", found.describe()));
            }
            None if paused => return Rebased::Done,
            _ => {}
        }
        let reason = reason(&self.purpose);
        let edits = [(self.key.as_str(), "true"), (REASON, &reason), (HOLDER, by)]
            .map(|(key, to)| (key, Some(to.to_owned())));
        Rebased::Same(self.onto(object, edits))
    }

    /// Rebases the end of the hold onto the current object. Values that replaced ours are kept.
    pub(super) fn rebase_end(&self, object: &Value) -> Rebased<Hold> {
        let ours = annotation(object, HOLDER) == self.holder.as_deref();
        if self.holder.is_none() || !ours {
            return Rebased::Done;
        }
        let now = |key: &str| annotation(object, key).map(str::to_owned);
        let back = |key: &str| self.edits.annotations.get(key).and_then(|e| e.to.clone());
        let reason_is_ours = now(REASON).is_some_and(|now| now == reason(&self.purpose));
        let kept = match now(&self.key).as_deref() {
            Some("true") if !reason_is_ours => {
                Some("someone else set another reason for the pause".to_owned())
            }
            Some("true") => {
                manager(object, &self.key).map(|other| format!("{other} also paused the custom resource"))
            }
            _ => None,
        };
        let pause = match (&kept, now(&self.key).as_deref()) {
            (None, Some("true")) => back(&self.key),
            _ => now(&self.key),
        };
        let reason = if reason_is_ours { back(REASON) } else { now(REASON) };
        let edits = [(self.key.as_str(), pause), (REASON, reason), (HOLDER, None)];
        let mut end = self.onto(object, edits);
        end.kept = kept;
        Rebased::Same(end)
    }

    fn onto<const N: usize>(&self, object: &Value, edits: [(&str, Option<String>); N]) -> Hold {
        let mut now = Metadata {
            no_annotations: lookup(object, "/metadata/annotations").is_none(),
            ..Metadata::default()
        };
        for (key, to) in edits {
            now = now.annotation(key, Edit::new(annotation(object, key), to.as_deref()));
        }
        Hold {
            edits: now,
            version: lookup(object, VERSION).and_then(Value::as_str).map(str::to_owned),
            ..self.clone()
        }
    }

    /// The inverse of a hold is its end, and vice versa.
    pub(super) fn inverse(&self) -> Hold {
        let edits = self.edits.annotations.iter().map(|(key, edit)| {
            // Do not restore the values of the replaced hold.
            let to = edit.from.clone().filter(|_| self.instead_of.is_none());
            let from = edit.to.clone();
            (key.clone(), Edit { from, to, ..Edit::new(None, None) })
        });
        Hold {
            edits: Metadata { annotations: edits.collect(), ..Metadata::default() },
            // If the hold was never ended, its inverse replaces it.
            instead_of: self.holder.clone(),
            holder: None,
            version: None,
            kept: None,
            ..self.clone()
        }
    }
}

/// Sets the holder on an object that is created paused.
pub(super) fn sign_made(object: &mut Value, holder: &str) {
    if let Some(text) = object.pointer_mut(&pointer(&["metadata", "annotations", HOLDER])) {
        *text = json!(holder);
    }
}

/// Removes our pause from an object that is recreated: the pause concerned only the old object.
pub(super) fn strip(object: &mut Value) {
    let annotations = object.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    let why = annotations.get(REASON).and_then(Value::as_str);
    let held = why.is_some_and(|r| r.starts_with(&reason("")));
    let stripped = why == Some(STRIPPED_REASON);
    if annotations.shift_remove(HOLDER).is_some() && held || stripped {
        annotations.shift_remove(REASON);
        annotations.retain(|key, value| !(key.ends_with("/pause") && *value == "true"));
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    lookup(object, &pointer(&["metadata", "annotations", key])).and_then(Value::as_str)
}

/// The manager of the annotation other than this plugin, from `managedFields`.
fn manager(object: &Value, key: &str) -> Option<String> {
    let field = format!("f:{key}");
    let all = object["metadata"]["managedFields"].as_array()?;
    let other = all
        .iter()
        .filter(|entry| !entry["fieldsV1"]["f:metadata"]["f:annotations"][&field].is_null())
        .find(|entry| entry["manager"] != FIELD_MANAGER)?;
    other["manager"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;

/// The other holders of a node's cordon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Uncordon {
    /// Whether other holders are overruled: the user named this node with `--force-uncordon`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Whether the user overrules a holder, so that the cordon is not the operator's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
    /// The holders for which the node stays cordoned, each with its mark on the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_for: Vec<String>,
    /// Whether the node was read without `managedFields`, which prove that the operator set the cordon. The
    /// holders are determined again before the request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
    /// The resourceVersion of the node when it was read: any later change, such as a new mark, makes the
    /// request fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Uncordon {
    pub(super) fn is_default(&self) -> bool {
        *self == Uncordon::default()
    }

    /// The holders on a loaded node. Without holders, also the new `spec.unschedulable`.
    pub(super) fn of(node: &Node) -> (Uncordon, Option<bool>) {
        let left_for = words(&node.cordon_holders());
        let free = left_for.is_empty().then_some(false);
        (Uncordon { left_for, unproven: !node.has_managers, ..Uncordon::default() }, free)
    }

    /// The holders on the current node; none if the user overrules them. Without holders, also the new
    /// `spec.unschedulable`.
    pub(super) fn rebase(&self, node: &Value) -> (Uncordon, Option<bool>) {
        let mut left_for = match holders_on(node) {
            Ok(holders) => words(&holders),
            Err(why) => vec![format!("an unknown owner whose annotation cannot be read ({why})")],
        };
        let overruled = self.forced && !left_for.is_empty();
        if self.forced {
            left_for.clear();
        }
        let free = left_for.is_empty().then_some(false);
        let version = lookup(node, "/metadata/resourceVersion").and_then(Value::as_str);
        let now = Uncordon {
            forced: self.forced,
            overruled,
            left_for,
            unproven: false,
            version: version.filter(|_| !self.forced).map(str::to_owned),
        };
        (now, free)
    }

    /// The holders, as text after "held by"; `None` without holders.
    pub fn words(&self) -> Option<String> {
        (!self.left_for.is_empty()).then(|| self.left_for.join(", "))
    }
}

fn words(holders: &[Holder]) -> Vec<String> {
    holders.iter().map(Holder::to_string).collect()
}

impl Plan {
    /// The plan in which the nodes of `forced` are uncordoned despite other holders. A warning names the
    /// other held nodes.
    pub fn sparing_cordons(&self, forced: impl Fn(&str) -> bool) -> Plan {
        let mut plan = self.clone();
        let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for step in plan.stages.iter_mut().flat_map(|s| &mut s.steps) {
            let named = forced(&step.target.name);
            let Some(change) = on_cordon(step) else {
                continue;
            };
            if named {
                change.unschedulable = Some(false);
                let overruled = !change.uncordon.left_for.is_empty();
                change.uncordon = Uncordon { forced: true, overruled, ..Uncordon::default() };
            } else if let Some(others) = change.uncordon.words() {
                left.entry(others).or_default().push(step.target.name.clone());
            }
        }
        for (others, nodes) in left {
            plan.consequences.warn(warning(&others, &nodes));
        }
        plan
    }
}

/// The part of a step that makes a node schedulable, or would if no other owner held it.
fn on_cordon(step: &mut Step) -> Option<&mut Metadata> {
    match &mut step.change {
        Change::Metadata(change) if change.uncordons() || !change.uncordon.left_for.is_empty() => {
            Some(change)
        }
        _ => None,
    }
}

fn warning(others: &str, nodes: &[String]) -> String {
    let stay = if nodes.len() == 1 { "stays" } else { "stay" };
    format!("{} {stay} cordoned by {others}; use --force-uncordon NODE to uncordon anyway", some_nodes(nodes))
}
