//! A cluster as it will be once manifests are applied to it.

use serde_json::Value;

use super::{Cluster, Read};
use crate::api::{DeploymentPolicy, Skyhook};

impl Cluster {
    /// The cluster with these objects, and nothing done yet by the operator. An object that exists keeps its status and what
    /// `kubectl apply` leaves alone.
    pub fn with_applied(&self, skyhooks: Vec<Skyhook>, policies: Vec<DeploymentPolicy>) -> Cluster {
        let mut cluster = self.clone();
        for mut skyhook in skyhooks {
            let list = held(&mut cluster.skyhooks);
            match list.iter_mut().find(|live| live.name() == skyhook.name()) {
                None => {
                    skyhook.metadata.generation = 1;
                    skyhook.metadata.creation_timestamp = Some(self.taken_at);
                    list.push(skyhook);
                }
                Some(live) => {
                    let changed = changes(&skyhook.whole["spec"], &live.whole["spec"]);
                    live.metadata.generation += i64::from(changed);
                    live.metadata.labels.extend(skyhook.metadata.labels);
                    live.metadata
                        .annotations
                        .extend(skyhook.metadata.annotations);
                    live.spec = skyhook.spec;
                }
            }
        }
        for policy in policies {
            let list = held(&mut cluster.policies);
            let same = |live: &&mut DeploymentPolicy| live.metadata.name == policy.metadata.name;
            match list.iter_mut().find(same) {
                None => list.push(policy),
                Some(live) => live.spec = policy.spec,
            }
        }
        cluster
    }
}

fn held<T>(read: &mut Read<Vec<T>>) -> &mut Vec<T> {
    if read.held().is_none() {
        *read = Read::Ok(Vec::new());
    }
    read.held_mut().expect("just filled")
}

/// Maps whose keys users own: a key that a manifest lacks is removed. Elsewhere it may be a default of the server.
const OWNED: [&str; 4] = ["packages", "configMap", "dependsOn", "configInterrupts"];

/// Whether a part of a manifest changes that part of the live object.
pub fn changes(given: &Value, live: &Value) -> bool {
    let (Value::Object(given), Value::Object(live)) = (given, live) else {
        return given != live;
    };
    let changed = |(key, given): (&String, &Value)| {
        let now = live.get(key).unwrap_or(&Value::Null);
        let lost = |(key, _): (&String, &Value)| given.get(key).is_none();
        let owned = OWNED.contains(&key.as_str());
        changes(given, now) || owned && now.as_object().is_some_and(|now| now.iter().any(lost))
    };
    given.iter().any(changed)
}
