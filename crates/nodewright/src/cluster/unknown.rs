//! Values that could not be decoded, in all objects that were read.

use std::fmt;

use super::admission::Admission;
use super::{Cluster, Read, Source};
use crate::api::{ApiFlavor, Object, UnknownField};

/// An object with fields that could not be decoded.
#[derive(Debug)]
pub struct UnknownValues<'a> {
    pub source: Source,
    pub kind: &'a str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'a str,
    pub name: &'a str,
    pub fields: Vec<&'a UnknownField>,
    /// See [`Object::undecoded`].
    pub undecoded: Option<String>,
}

/// Formats the object as `node/a` or `pod/namespace/a`.
impl fmt::Display for UnknownValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        match self.namespace {
            "" => write!(f, "{kind}/{}", self.name),
            namespace => write!(f, "{kind}/{namespace}/{}", self.name),
        }
    }
}

impl Cluster {
    /// Every object of a source with fields that could not be decoded.
    pub fn unknown_values(&self, source: Source) -> Vec<UnknownValues<'_>> {
        let mut found = Search { source, found: Vec::new() };
        let [ours, other] = [self.flavor(), self.flavor().other()].map(ApiFlavor::kind);
        match source {
            Source::Skyhooks => found.look(ours, &self.skyhooks),
            Source::Legacy => found.look(other, &self.legacy),
            Source::Policies => found.look("DeploymentPolicy", &self.policies),
            Source::Nodes => found.look("Node", &self.nodes),
            Source::Pods => found.look("Pod", &self.pods),
            Source::Workloads => found.look("Pod", &self.workloads),
            Source::Jobs => found.look("Job", &self.jobs),
            Source::Events => found.look("Event", &self.events),
            Source::DisruptionBudgets => {
                found.look("PodDisruptionBudget", &self.disruption_budgets);
            }
            Source::Operator => found.look("Deployment", &self.operators),
            Source::OperatorPods => found.look("Pod", &self.operator_pods),
            Source::Webhooks => {
                let Admission { webhooks, services, endpoints } = &self.admission;
                for configuration in webhooks.items() {
                    found.note(&configuration.kind, configuration);
                }
                found.look("Service", services);
                found.look("EndpointSlice", endpoints);
            }
            Source::Restrictions => {
                found.look("LimitRange", &self.installation.limit_ranges);
                found.look("ResourceQuota", &self.installation.quotas);
                for object in self.installation.roles.items() {
                    found.note(&object.kind, object);
                }
            }
            Source::ConfigMaps => found.look("ConfigMap", &self.config_maps),
            Source::NodeMetadata => found.look("ConfigMap", &self.node_metadata),
        }
        found.found
    }

    /// Describes an unknown value of a source that decisions may depend on.
    ///
    /// Excludes fields that only record a time: a rule that needs such a time reports it as undetermined.
    pub fn undecoded(&self, source: Source) -> Option<String> {
        let values = self.unknown_values(source);
        values.iter().find_map(|object| Some(format!("{object}: {}", object.undecoded.as_ref()?)))
    }
}

impl<T: Object> Read<Vec<T>> {
    /// Keeps the matching items. The result is incomplete if another item has an undecodable value, because
    /// that item may match.
    pub fn selected(mut self, matches: impl Fn(&T) -> bool) -> Read<Vec<T>> {
        let mut unknown = None;
        if let Some(items) = self.available_mut() {
            items.retain(|item| {
                let keep = matches(item);
                if !keep && unknown.is_none() {
                    let why = item.undecoded();
                    unknown = why.map(|why| format!("{}: {why}", item.key().1));
                }
                keep
            });
        }
        if let Some(why) = unknown {
            self.lacks(|| why.into());
        }
        self
    }
}

struct Search<'a> {
    source: Source,
    found: Vec<UnknownValues<'a>>,
}

impl<'a> Search<'a> {
    fn look<T: Object>(&mut self, kind: &'a str, read: &'a Read<Vec<T>>) {
        read.items().iter().for_each(|object| self.note(kind, object));
    }

    fn note(&mut self, kind: &'a str, object: &'a impl Object) {
        let fields: Vec<&UnknownField> = object.unknown_fields().iter().collect();
        let (namespace, name) = object.key();
        if !fields.is_empty() {
            self.found.push(UnknownValues {
                source: self.source,
                kind,
                namespace,
                name,
                fields,
                undecoded: object.undecoded(),
            });
        }
    }
}
