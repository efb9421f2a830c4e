//! Edits of single annotations and labels, and how they apply to a value that has changed since the plan.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Change, Field, Metadata, Step};
use crate::api::keys::NodeKey;
use crate::api::{Entry, NodeState, Stage, State};
use crate::cluster::hold;

/// One annotation or label with its old and new value. `None` is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(default, skip_serializing_if = "OnConflict::is_fail")]
    pub on_conflict: OnConflict,
}

/// The handling of an edit whose old value has changed.
///
/// The server always tests the whole value. The variant determines whether an edit whose test failed still
/// applies to the current value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnConflict {
    /// The step is skipped.
    #[default]
    Fail,
    /// The current value is overwritten: it is derived from other values.
    Overwrite,
    /// The current value is kept, and the edit counts as done.
    KeepLive,
    /// A pause that ends with its command is overwritten; for any other value the step is skipped.
    ReplaceCommandPause,
    /// A node state is overwritten if all failed entries are still failing, no entry was removed, and no
    /// uninstall has started or advanced since.
    ///
    /// Entries that were in progress may have advanced: packages continue until the operator is paused.
    IfStillFailing,
    /// Edit these entries of a node state if they are unchanged, or have advanced as [`Move::onward`] allows;
    /// keep all others.
    MoveEntries(Vec<Move>),
}

/// The change of one node-state entry. `None` is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The key of the entry, as `name|version`.
    pub entry: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<At>,
    /// Whether the move also applies to an entry that has advanced since the plan, but not to an uninstall
    /// that has started since: packages continue until the operator is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub onward: bool,
    /// Whether `onward` includes entries that had failed: they may be retried in the meantime.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

/// Stage and state of a node-state entry, and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    pub stage: Stage,
    pub state: State,
    /// The whole entry as JSON.
    pub text: String,
}

/// The result of rebasing an edit onto another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebased<T> {
    /// The edit still applies, in this form.
    Same(T),
    /// Nothing is left to do: the value is already the wanted one, or a changed value is kept.
    Done,
    /// The edit no longer applies, for this reason.
    Moved(String),
}

impl At {
    /// Stage and state of a node-state entry.
    pub fn of(state: &NodeState, entry: &Entry) -> At {
        At {
            stage: entry.stage.clone(),
            state: entry.state.clone(),
            text: state.entry_text(&entry.key).unwrap_or_default().to_owned(),
        }
    }
}

/// Stage and state of a package, if recorded.
type Place<'a> = Option<(&'a Stage, &'a State)>;

fn place(at: Option<&At>) -> Place<'_> {
    at.map(|at| (&at.stage, &at.state))
}

fn place_of(entry: Option<&Entry>) -> Place<'_> {
    entry.map(|entry| (&entry.stage, &entry.state))
}

fn words(place: Place<'_>) -> String {
    place.map_or("absent".to_owned(), |(stage, state)| format!("{stage}/{state}"))
}

impl Move {
    /// Describes the move for the preview: `remove entry driver|1.0.0 (apply/erroring)`.
    pub(super) fn describe(&self) -> String {
        let (entry, from, to) = (&self.entry, place(self.from.as_ref()), place(self.to.as_ref()));
        match (from, to) {
            (Some(_), None) => format!("remove entry {entry} ({})", words(from)),
            (None, _) => format!("add entry {entry} ({})", words(to)),
            _ => format!("entry {entry}: {} -> {}", words(from), words(to)),
        }
    }

    /// The text of the annotation after the move. The entry must have the stage and state that the move
    /// starts from.
    fn moved_text(&self, key: &str, text: Option<&str>) -> Option<String> {
        let state = state_of(key, text);
        match &self.to {
            None => state.without_entry(&self.entry).and_then(|(_, text)| text),
            Some(to) if self.from.is_some() => {
                state.with_stage(&self.entry, &to.stage, &to.state).map(|(_, text)| text)
            }
            Some(to) if NodeState::package_of(key).is_some() => Some(to.text.clone()),
            Some(to) => state.with_entry(key, &self.entry, &to.text),
        }
    }
}

impl Edit {
    /// An edit that requires the old value.
    pub fn new(from: Option<&str>, to: Option<&str>) -> Edit {
        Edit { from: from.map(str::to_owned), to: to.map(str::to_owned), on_conflict: OnConflict::Fail }
    }

    /// The edit of a node state that makes these moves.
    pub fn moving(key: &str, from: Option<&str>, moves: Vec<Move>) -> Edit {
        let from = from.map(str::to_owned);
        let to = moves.iter().fold(from.clone(), |text, one| one.moved_text(key, text.as_deref()));
        Edit { from, to, on_conflict: OnConflict::MoveEntries(moves) }
    }

    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Edit {
        self.on_conflict = on_conflict;
        self
    }

    /// The edit that reverts this one.
    pub fn inverse(&self) -> Edit {
        Edit { from: self.to.clone(), to: self.from.clone(), on_conflict: self.on_conflict.inverse() }
    }

    /// This edit with the old value of `first`, an earlier form. Of a node state, only the moved entries have the old
    /// values; all others stay as they are now.
    pub(super) fn restoring(&self, key: &str, first: &Edit) -> Edit {
        let (OnConflict::MoveEntries(now), OnConflict::MoveEntries(moved)) =
            (&self.on_conflict, &first.on_conflict)
        else {
            return Edit { from: first.from.clone(), ..self.clone() };
        };
        let only_now = now.iter().filter(|one| moved.iter().all(|first| first.entry != one.entry));
        let moves: Vec<Move> = moved.iter().chain(only_now).cloned().collect();
        let edit = Edit { on_conflict: OnConflict::MoveEntries(moves), ..self.clone() };
        let OnConflict::MoveEntries(back) = edit.on_conflict.inverse() else {
            return edit;
        };
        match replay(key, self.to.as_deref(), &back) {
            Ok(Some((from, _))) => Edit { from, ..edit },
            _ => edit,
        }
    }

    /// Rebases the edit onto the current value.
    pub fn rebase(&self, key: &str, now: Option<&str>) -> Rebased<Edit> {
        if now == self.from.as_deref() {
            return Rebased::Same(self.clone());
        }
        if now == self.to.as_deref() {
            return Rebased::Done;
        }
        let onto = |to: Option<String>| Edit {
            from: now.map(str::to_owned),
            to,
            on_conflict: self.on_conflict.clone(),
        };
        match &self.on_conflict {
            OnConflict::Overwrite => Rebased::Same(onto(self.to.clone())),
            OnConflict::KeepLive => Rebased::Done,
            OnConflict::ReplaceCommandPause
                if now.is_some_and(|now| hold::ends_with_its_command(key, now)) =>
            {
                Rebased::Same(onto(self.to.clone()))
            }
            OnConflict::IfStillFailing => {
                if went_on(key, self.from.as_deref(), now) {
                    Rebased::Same(onto(self.to.clone()))
                } else {
                    Rebased::Moved(changed(key, self.from.as_deref(), now))
                }
            }
            OnConflict::MoveEntries(moves) => match replay(key, now, moves) {
                Ok(None) => Rebased::Done,
                Ok(Some((to, moves))) => Rebased::Same(onto(to).on_conflict(OnConflict::MoveEntries(moves))),
                Err(why) => Rebased::Moved(why),
            },
            OnConflict::Fail | OnConflict::ReplaceCommandPause => {
                Rebased::Moved(changed(key, self.from.as_deref(), now))
            }
        }
    }
}

impl OnConflict {
    /// The conflict handling of the inverse edit.
    pub(super) fn inverse(&self) -> OnConflict {
        match self {
            // The operator's later write is newer than the value to restore.
            OnConflict::Overwrite => OnConflict::KeepLive,
            OnConflict::Fail
            | OnConflict::IfStillFailing
            | OnConflict::KeepLive
            | OnConflict::ReplaceCommandPause => OnConflict::Fail,
            OnConflict::MoveEntries(moves) => {
                let back = |m: &Move| Move {
                    entry: m.entry.clone(),
                    from: m.to.clone(),
                    to: m.from.clone(),
                    // Keep the operator's later progress.
                    onward: false,
                    retried: false,
                };
                OnConflict::MoveEntries(moves.iter().rev().map(back).collect())
            }
        }
    }

    pub(super) fn is_fail(&self) -> bool {
        *self == OnConflict::Fail
    }
}

/// Parses one annotation as a node state.
pub(super) fn state_of(key: &str, text: Option<&str>) -> NodeState {
    let mut state = NodeState::default();
    if let Some(text) = text {
        state.add(key, NodeState::package_of(key), text);
    }
    state
}

/// Whether the value is unchanged, or changed only by the operator's progress.
fn went_on(key: &str, before: Option<&str>, now: Option<&str>) -> bool {
    let (before, now) = (state_of(key, before), state_of(key, now));
    let as_before = |was: &Entry| {
        let is = now.entry(&was.key);
        is.is_some() && (place_of(is) == place_of(Some(was)) || was.state != State::Erroring)
    };
    let not_uninstalled_since =
        |is: &Entry| !is.stage.is_uninstall() || place_of(before.entry(&is.key)) == place_of(Some(is));
    before.malformed().is_empty()
        && now.malformed().is_empty()
        && before.entries().iter().all(as_before)
        && now.entries().iter().all(not_uninstalled_since)
}

/// Describes the entries whose stage or state has changed.
fn differences(before: &NodeState, now: &NodeState) -> Vec<String> {
    let keys: BTreeSet<&str> = before.entries().iter().chain(now.entries()).map(|e| e.key.as_str()).collect();
    let moved = keys.into_iter().filter_map(|key| {
        let (was, is) = (place_of(before.entry(key)), place_of(now.entry(key)));
        (was != is).then(|| entry_changed(key, was, is))
    });
    moved.collect()
}

fn entry_changed(entry: &str, was: Place<'_>, is: Place<'_>) -> String {
    format!("{entry} changed from {} to {}", words(was), words(is))
}

/// Describes the change of a key.
fn changed(key: &str, before: Option<&str>, now: Option<&str>) -> String {
    let (was, is) = (state_of(key, before), state_of(key, now));
    let moved = differences(&was, &is);
    let readable = was.malformed().is_empty() && is.malformed().is_empty();
    if NodeKey::holds_node_state(key) && readable && !moved.is_empty() {
        return moved.join(", ");
    }
    match (before, now) {
        (None, _) => format!("{key} exists now"),
        (_, None) => format!("{key} is gone"),
        _ => format!("{key} has changed"),
    }
}

/// Applies the moves to the current text; `None` if all are already made.
fn replay(key: &str, now: Option<&str>, moves: &[Move]) -> Result<Option<Replayed>, String> {
    let mut text = now.map(str::to_owned);
    let mut made = 0;
    let mut moves = moves.to_vec();
    for one in &mut moves {
        let state = state_of(key, text.as_deref());
        if let Some(malformed) = state.malformed().first() {
            return Err(format!("{key} cannot be read: {}", malformed.error));
        }
        let entry = state.entry(&one.entry);
        let here = place_of(entry);
        if here == place(one.to.as_ref()) {
            made += 1;
            continue;
        }
        if let (Some(entry), Some(from)) = (entry, &mut one.from)
            && one.onward
            && (from.state != State::Erroring || one.retried)
            && (entry.stage == from.stage || !entry.stage.is_uninstall())
        {
            // The inverse needs the replaced value.
            *from = At::of(&state, entry);
        } else if here != place(one.from.as_ref()) {
            return Err(entry_changed(&one.entry, place(one.from.as_ref()), here));
        }
        text = one.moved_text(key, text.as_deref());
    }
    Ok((made < moves.len()).then_some((text, moves)))
}

/// The text of the annotation after the moves, and the moves with the replaced entries.
type Replayed = (Option<String>, Vec<Move>);

#[cfg(test)]
mod tests;

/// Formats a path as a JSON pointer: `["metadata", "annotations", "a/b"]` becomes
/// `/metadata/annotations/a~1b`.
pub fn pointer<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().fold(String::new(), |so_far, step| {
        let step = step.as_ref().replace('~', "~0").replace('/', "~1");
        format!("{so_far}/{step}")
    })
}

/// The value at a path; `None` if absent or null, which a server does not distinguish.
pub fn lookup<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|v| !v.is_null())
}

/// Sets or removes a member, and creates missing maps on the path.
pub fn set<S: AsRef<str>>(object: &mut Value, path: &[S], value: Option<Value>) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let parent =
        parents.iter().fold(object, |at, step| members_of(at).entry(step.as_ref()).or_insert(Value::Null));
    match value {
        Some(value) => drop(members_of(parent).insert(last.as_ref().to_owned(), value)),
        None => drop(members_of(parent).shift_remove(last.as_ref())),
    }
}

/// The members of the value, which becomes a map if it is none.
fn members_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("the value is a map")
}

/// Removes empty annotations, labels and finalizers, which the server does not store.
pub fn normalise(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for member in ["annotations", "labels", "finalizers"] {
        if metadata.get(member).is_some_and(|value| [json!({}), json!([]), Value::Null].contains(value)) {
            metadata.shift_remove(member);
        }
    }
}

pub fn test(pointer: &str, value: Value) -> Value {
    json!({"op": "test", "path": pointer, "value": value})
}

/// The operation that turns one value into another; `None` if they are equal.
pub fn change(pointer: &str, from: Option<&Value>, to: Option<&Value>) -> Option<Value> {
    match (from, to) {
        (from, to) if from == to => None,
        (_, None) => Some(json!({"op": "remove", "path": pointer})),
        (Some(_), Some(to)) => Some(json!({"op": "replace", "path": pointer, "value": to})),
        (None, Some(to)) => Some(json!({"op": "add", "path": pointer, "value": to})),
    }
}

impl Step {
    /// The contradiction between two steps on the same object; `None` if both can be applied.
    ///
    /// The second is rebased onto the result of the first: finished edits are dropped, and other entries of the same
    /// node state are edited in the new value.
    pub fn contradicts(&self, other: &Step) -> Option<String> {
        if !self.target.same_object_name(&other.target) {
            return None;
        }
        // Equal changes agree. Compare them last: the texts of node states are long, and mostly equal.
        self.place_of_contradiction(other).filter(|_| self.change != other.change)
    }

    fn place_of_contradiction(&self, other: &Step) -> Option<String> {
        match (&self.change, &other.change) {
            (Change::Delete { .. }, Change::Delete { .. }) => None,
            (Change::Delete { .. }, _) | (_, Change::Delete { .. }) => Some("the whole object".to_owned()),
            (Change::Metadata(a), Change::Metadata(b)) => metadata(a, b),
            (Change::Hold(hold) | Change::Release(hold), Change::Metadata(edits))
            | (Change::Metadata(edits), Change::Hold(hold) | Change::Release(hold)) => {
                metadata(hold.edits(), edits)
            }
            (Change::Spec(a), Change::Spec(b)) | (Change::Status(a), Change::Status(b)) => fields(a, b),
            (Change::Taints { .. }, Change::Taints { .. }) => Some("spec.taints".to_owned()),
            _ => None,
        }
    }
}

fn metadata(a: &Metadata, b: &Metadata) -> Option<String> {
    if a.unschedulable.is_some() && b.unschedulable.is_some_and(|to| Some(to) != a.unschedulable) {
        return Some("spec.unschedulable".to_owned());
    }
    edits(&a.annotations, &b.annotations).or_else(|| edits(&a.labels, &b.labels))
}

fn edits(a: &BTreeMap<String, Edit>, b: &BTreeMap<String, Edit>) -> Option<String> {
    a.iter()
        .filter_map(|(key, edit)| Some((key, edit, b.get(key)?)))
        .find(|(_, a, b)| !agree(a, b))
        .map(|(key, ..)| key.clone())
}

fn agree(a: &Edit, b: &Edit) -> bool {
    match (&a.on_conflict, &b.on_conflict) {
        (OnConflict::MoveEntries(ours), OnConflict::MoveEntries(theirs)) => ours.iter().all(|one| {
            theirs.iter().filter(|other| other.entry == one.entry).all(|other| other.to == one.to)
        }),
        _ => a.to == b.to,
    }
}

fn fields(a: &[Field], b: &[Field]) -> Option<String> {
    for one in a {
        for other in b {
            let (short, long) = if one.path.len() <= other.path.len() { (one, other) } else { (other, one) };
            let Some(below) = long.path.strip_prefix(short.path.as_slice()) else {
                continue;
            };
            let mut to = short.to.as_ref();
            for member in below {
                to = to.and_then(|value| value.get(member));
            }
            if json!(to) != json!(long.to.as_ref().unwrap_or(&Value::Null)) {
                return Some(long.path.join("."));
            }
        }
    }
    None
}
