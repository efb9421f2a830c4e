//! The pause around a plan, and its end: whose it is shows on the object, and only that one is ended.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Metadata;
use super::edit::{Edit, Rebased};
use super::pointer::{lookup, pointer, test};
use crate::cluster::hold::{FIELD_MANAGER, HOLDER, Hold as Found, REASON, STRIPPED, reason};

const VERSION: &str = "/metadata/resourceVersion";
/// Placeholder for the user who applies the plan.
const WHOEVER: &str = "whoever does this";

/// The pause around a plan, or its end.
///
/// The value goes there and back, so that a request that comes late would find the old one: the version of the object
/// is tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// The annotation that pauses.
    key: String,
    purpose: String,
    edits: Metadata,
    /// Whose it is; noted once the plan is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// A hold whose holder has ended, which this one replaces.
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
    /// A hold, and its end, on an object with these annotations.
    pub fn around<'a>(
        key: &str,
        purpose: &str,
        annotations: impl Fn(&str) -> Option<&'a str>,
        instead_of: Option<&str>,
    ) -> [Hold; 2] {
        let reason = reason(purpose);
        let now = |key: &str| annotations(key);
        // The values of an abandoned hold are not restored.
        let back = |key: &str| now(key).filter(|_| instead_of.is_none());
        let edits = |first: bool| {
            let edit = |at: &str, to: &str| {
                if first { Edit::new(now(at), Some(to)) } else { Edit::new(Some(to), back(at)) }
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

    /// The end of a hold that was left behind.
    pub fn end(key: &str, found: &Found<'_>) -> Hold {
        let [_, end] = Hold::around(key, found.purpose, |_| None, Some(found.text));
        Hold { holder: Some(found.text.to_owned()), ..end }
    }

    pub fn edits(&self) -> &Metadata {
        &self.edits
    }

    /// Preview lines. Whose it is shows once it is carried out.
    pub(super) fn describe(&self) -> Vec<String> {
        let mut shown = self.edits.clone();
        shown.annotations.remove(HOLDER);
        shown.describe()
    }

    /// The annotations with which an object is made that is held from the start.
    pub fn mark(&self, object: &mut Value) {
        self.edits.write(object);
    }

    /// The end of this hold and of no other, where it is known whose it is.
    pub(super) fn end_of_itself(&self) -> Option<Hold> {
        Some(Hold { holder: Some(self.holder.clone()?), ..self.inverse() })
    }

    pub fn kept(&self) -> Option<&str> {
        self.kept.as_deref()
    }

    /// A hold belongs to who carries it out; the end of one to who did before, where that is known.
    pub(super) fn sign(&mut self, holder: &str, ends: bool) {
        if !ends || self.holder.is_none() {
            self.holder = Some(holder.to_owned());
        }
    }

    /// The hold of somebody else that the object is under.
    pub fn of_another<'a>(&self, object: &'a Value) -> Option<Found<'a>> {
        Found::on(object, &self.key).filter(|found| self.holder.as_deref() != Some(found.text))
    }

    /// Takes the place of a hold whose holder has ended.
    pub fn replace(&mut self, left_behind: &str) {
        self.instead_of = Some(left_behind.to_owned());
    }

    pub(super) fn tests(&self) -> Vec<(String, Value)> {
        let version = self.version.iter().map(|v| (VERSION.to_owned(), json!(v)));
        version.chain(self.edits.tests()).collect()
    }

    pub(super) fn operations(&self) -> Vec<Value> {
        let version = self.version.iter().map(|v| test(VERSION, json!(v)));
        version.chain(self.edits.operations()).collect()
    }

    /// Rebases the hold onto the current object. Another user's pause holds the operator as well.
    pub(super) fn rebase(&self, object: &Value) -> Rebased<Hold> {
        let paused = annotation(object, &self.key) == Some("true");
        let by = self.holder.as_deref().unwrap_or(WHOEVER);
        match Found::on(object, &self.key) {
            Some(found) if found.text == by => return Rebased::Done,
            Some(found) if self.instead_of.as_deref() != Some(found.text) => {
                return Rebased::Moved(format!("held by {}", found.words()));
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

    /// Why the object stays paused although our hold is not on it any more.
    pub(super) fn left_to_another(&self, object: &Value) -> Option<String> {
        let paused = annotation(object, &self.key) == Some("true");
        paused.then(|| "paused by someone else".to_owned())
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

    /// The way back of a hold is its end, and the other way round.
    pub(super) fn inverse(&self) -> Hold {
        let edits = self.edits.annotations.iter().map(|(key, edit)| {
            // The values of another hold are not restored.
            let to = edit.from.clone().filter(|_| self.instead_of.is_none());
            let from = edit.to.clone();
            (key.clone(), Edit { from, to, ..Edit::new(None, None) })
        });
        Hold {
            edits: Metadata { annotations: edits.collect(), ..Metadata::default() },
            // Where it was not ended, the way back begins with it.
            instead_of: self.holder.clone(),
            holder: None,
            version: None,
            kept: None,
            ..self.clone()
        }
    }
}

/// Whether an object that is yet to be made is held from the start, and by whom once it is signed.
pub(super) fn sign_made(object: &mut Value, holder: &str) {
    if let Some(text) = object.pointer_mut(&pointer(&["metadata", "annotations", HOLDER])) {
        *text = json!(holder);
    }
}

/// Takes a pause of ours off an object: it was for the old one alone.
pub(super) fn strip(object: &mut Value) {
    let annotations = object.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    let why = annotations.get(REASON).and_then(Value::as_str);
    let held = why.is_some_and(|r| r.starts_with(&reason("")));
    let stripped = why == Some(STRIPPED);
    if annotations.shift_remove(HOLDER).is_some() && held || stripped {
        annotations.shift_remove(REASON);
        annotations.retain(|key, value| !(key.ends_with("/pause") && *value == "true"));
    }
}

fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    lookup(object, &pointer(&["metadata", "annotations", key])).and_then(Value::as_str)
}

/// The other manager of the annotation, from `managedFields`.
fn manager(object: &Value, key: &str) -> Option<String> {
    let field = format!("f:{key}");
    let all = object["metadata"]["managedFields"].as_array()?;
    let mut owners =
        all.iter().filter(|entry| !entry["fieldsV1"]["f:metadata"]["f:annotations"][&field].is_null());
    let other = owners.find(|entry| entry["manager"] != FIELD_MANAGER)?;
    other["manager"].as_str().map(str::to_owned)
}
