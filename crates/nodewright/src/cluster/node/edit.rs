//! Predicts a node after an edit of its annotations, labels, taints and cordon.

use super::{Node, NodeKeys, Taint};
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, Labels, Name, NodeState};

/// New values of a node. `None` removes an annotation or a label; annotations and labels that are not listed stay.
#[derive(Debug, Default)]
pub struct NodeEdit<'e> {
    pub annotations: Vec<(&'e str, Option<&'e str>)>,
    pub labels: Vec<(&'e str, Option<&'e str>)>,
    pub unschedulable: Option<bool>,
    pub taints: Option<Vec<Taint>>,
}

impl Node {
    pub fn edit(&mut self, edit: NodeEdit<'_>) {
        for flavor in ApiFlavor::ALL {
            let parsed = |list: &[(&'_ str, Option<&'_ str>)]| {
                let mut keys = list.iter();
                keys.any(|(key, _)| NodeKey::parse(flavor, key).is_some())
            };
            if parsed(&edit.annotations) || parsed(&edit.labels) {
                self.keys[flavor as usize].change(|keys| keys.edit(flavor, &edit));
            }
        }
        if !edit.labels.is_empty() {
            let kept = self.labels.iter();
            let kept = kept.filter(|(key, _)| edit.labels.iter().all(|(k, _)| *k != key.as_str()));
            let set = edit.labels.iter();
            let set = set.filter_map(|(key, value)| Some((Name::from(*key), Name::from((*value)?))));
            let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
            let mut labels: Vec<(Name, Name)> = kept.chain(set).collect();
            labels.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
            self.labels = labels.into_iter().collect::<Labels>();
        }
        self.unschedulable = edit.unschedulable.or(self.unschedulable);
        if let (Some(taints), Some(body)) = (edit.taints, &mut self.body) {
            body.taints = taints.into();
        }
    }
}

impl NodeKeys {
    fn edit(&mut self, flavor: ApiFlavor, edit: &NodeEdit<'_>) {
        for (name, value) in &edit.annotations {
            match NodeKey::parse(flavor, name) {
                Some(NodeKey::NodeState { skyhook, .. }) => {
                    let on = self.record_mut(skyhook);
                    let now = on.state.iter().flat_map(|state| state.annotations());
                    let others = now.filter(|(key, _)| key != name);
                    let all: Vec<(&str, &str)> = others.chain(value.map(|text| (*name, text))).collect();
                    let state = (!all.is_empty()).then(|| NodeState::of(&all));
                    on.state = state;
                }
                Some(key) => self.annotate(&key, *value),
                None => {}
            }
        }
        for (name, value) in &edit.labels {
            if let Some(key) = NodeKey::parse(flavor, name) {
                self.label(&key, *value);
            }
        }
        self.skyhooks.retain(|_, on| on.has_keys() || !on.conditions.is_empty());
    }

    /// Sets or removes an annotation other than a node state.
    pub(super) fn annotate(&mut self, key: &NodeKey<'_>, value: Option<&str>) {
        let owned = || value.map(str::to_owned);
        match *key {
            NodeKey::Status(skyhook) => self.record_mut(skyhook).status = value.map(Into::into),
            NodeKey::Cordon(skyhook) => {
                let on = self.record_mut(skyhook);
                on.cordon = value.is_some();
                on.cordon_value = owned();
            }
            NodeKey::Version(skyhook) => self.record_mut(skyhook).version = owned(),
            NodeKey::DrainStart(skyhook) => self.record_mut(skyhook).drain_start = owned(),
            NodeKey::DrainBlocked(skyhook) => self.record_mut(skyhook).drain_blocked = owned(),
            NodeKey::AutoTaint(taint) => {
                self.auto_taints.retain(|other| other != taint);
                self.auto_taints.extend(value.map(|_| taint.to_owned()));
            }
            NodeKey::RuntimeRequiredCordon => self.runtime_required_cordon = value.is_some(),
            _ => {}
        }
    }

    /// Sets or removes a label.
    pub(super) fn label(&mut self, key: &NodeKey<'_>, value: Option<&str>) {
        match *key {
            NodeKey::Status(skyhook) => self.record_mut(skyhook).status_label = value.map(Into::into),
            NodeKey::Ignore => self.ignore = value.map(str::to_owned),
            _ => {}
        }
    }
}
