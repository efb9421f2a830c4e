//! Remaining objects of an installation without an operator.

use super::admission::{Lack, WebhookConfiguration};
use super::installation::{Definition, Installation};
use super::rbac::RbacObject;
use super::{Certainty, Cluster};
use crate::api::ApiFlavor;

/// A cluster-scoped object of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remnant<'a> {
    pub kind: &'a str,
    /// Plural of the object's kind, for kubectl.
    pub resource: &'static str,
    pub name: &'a str,
}

const DEFINITIONS: &str = "customresourcedefinitions";

impl Cluster {
    /// Objects of an installation without an operator: webhook configurations first, because they reject
    /// requests.
    ///
    /// CRDs with custom resources are in use, and not included.
    pub fn remnants<'a>(&'a self, installation: &'a Installation) -> Vec<Remnant<'a>> {
        if !self.operator_gone() {
            return Vec::new();
        }
        let webhooks = self.operators_webhooks().map(|configuration| Remnant {
            kind: &configuration.kind,
            resource: configuration.resource(),
            name: &configuration.metadata.name,
        });
        let ours = ApiFlavor::ALL.map(Definition::names).concat();
        let unused = self.skyhooks.items().is_empty() && self.legacy.items().is_empty();
        let definitions = installation.definitions.items().iter();
        let definitions = definitions
            .filter(|definition| unused && ours.contains(&definition.metadata.name))
            .map(|definition| Remnant {
                kind: "CustomResourceDefinition",
                resource: DEFINITIONS,
                name: &definition.metadata.name,
            });
        let roles = installation.roles.items().iter();
        let roles = roles.filter(|role| role.is_operators()).map(of_role);
        webhooks.chain(definitions).chain(roles).collect()
    }

    /// Whether the operator was removed: the Deployments were read and include no operator, or files without
    /// Deployments have a webhook configuration whose Service does not exist.
    pub fn operator_gone(&self) -> bool {
        let none = self.operators.items().is_empty();
        let mut webhooks = self.operators_webhooks();
        let proven = self.operators.absence() == Certainty::Proven;
        none && (proven
            || self.may_leave_out() && webhooks.any(|configuration| self.lacks_service(configuration)))
    }

    fn operators_webhooks(&self) -> impl Iterator<Item = &WebhookConfiguration> {
        let all = self.admission.webhooks.items().iter();
        all.filter(|configuration| configuration.is_operators())
    }

    fn lacks_service(&self, configuration: &WebhookConfiguration) -> bool {
        let mut webhooks = configuration.webhooks.iter();
        webhooks.any(|webhook| {
            let dead = self.dead_backend(configuration, webhook);
            dead.is_some_and(|(lack, _)| lack == Lack::Service)
        })
    }
}

fn of_role(role: &RbacObject) -> Remnant<'_> {
    Remnant { kind: &role.kind, resource: role.resource(), name: &role.metadata.name }
}
