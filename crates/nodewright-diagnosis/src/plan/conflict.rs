//! Contradictions between steps that were planned independently.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::edit::{Edit, OnConflict};
use super::{Change, Field, Metadata, Step};

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
    let both = a.iter().filter_map(|(key, edit)| Some((key, edit, b.get(key)?)));
    let mut apart = both.filter(|(_, a, b)| !agree(a, b));
    apart.next().map(|(key, ..)| key.clone())
}

fn agree(a: &Edit, b: &Edit) -> bool {
    match (&a.on_conflict, &b.on_conflict) {
        (OnConflict::MoveEntries(ours), OnConflict::MoveEntries(theirs)) => ours.iter().all(|one| {
            let mut same = theirs.iter().filter(|other| other.entry == one.entry);
            same.all(|other| other.to == one.to)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Stage, State};
    use crate::plan::Target;
    use crate::plan::edit::{At, Move};

    fn step(change: Change) -> Step {
        Step::new(Target::node("gpu-1", None), change, "a test")
    }

    fn label(to: Option<&str>) -> Step {
        step(Change::Metadata(Metadata::default().label("key", Edit::new(Some("old"), to))))
    }

    fn entry(name: &str, to: Option<State>) -> Step {
        let at = |state| At { stage: Stage::Apply, state, text: String::new() };
        let one = Move {
            entry: name.to_owned(),
            from: Some(at(State::Erroring)),
            to: to.map(at),
            onward: false,
            retried: false,
        };
        let edit = Edit::new(Some("all"), Some(name)).on_conflict(OnConflict::MoveEntries(vec![one]));
        step(Change::Metadata(Metadata::default().annotation("nodeState", edit)))
    }

    fn status(path: &[&str], to: Option<Value>) -> Step {
        let field = Field::new(path.iter().copied(), None, to);
        step(Change::Status(vec![field]))
    }

    #[test]
    fn what_agrees_is_done_one_after_the_other() {
        let delete = || step(Change::Delete { was: None });
        for (a, b, apart) in [
            (label(None), label(None), None),
            (label(None), label(Some("new")), Some("key")),
            (entry("a|1", None), entry("b|1", None), None),
            (entry("a|1", None), entry("a|1", None), None),
            (entry("a|1", None), entry("a|1", Some(State::Complete)), Some("nodeState")),
            (delete(), delete(), None),
            (delete(), label(None), Some("the whole object")),
            (status(&["status", "places"], None), status(&["status", "places", "gpu-1"], None), None),
            (
                status(&["status", "batch"], Some(json!({"at": 1}))),
                status(&["status", "batch", "at"], Some(json!(2))),
                Some("status.batch.at"),
            ),
            (status(&["status", "a"], None), status(&["status", "b"], Some(json!(1))), None),
        ] {
            let apart = apart.map(str::to_owned);
            assert_eq!(a.contradicts(&b), apart, "{a:?} {b:?}");
            assert_eq!(b.contradicts(&a), apart, "{b:?} {a:?}");
        }
        let elsewhere = Step { target: Target::node("gpu-2", None), ..label(Some("new")) };
        assert_eq!(label(None).contradicts(&elsewhere), None);
    }
}
