//! Roles and their bindings, and the permissions of the operator.

use std::fmt;

use serde::Deserialize;

use super::{Cluster, Read};
use crate::api::{Meta, UnknownFields, objects_with_metadata};

/// A ClusterRole, a Role, or a binding of one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RbacObject {
    pub kind: String,
    pub metadata: Meta,
    pub rules: Vec<PolicyRule>,
    role_ref: RoleReference,
    pub subjects: Vec<RoleSubject>,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    resource_names: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RoleReference {
    kind: String,
    name: String,
}

/// A user, a group or a service account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RoleSubject {
    pub kind: String,
    name: String,
    /// Empty for users and groups.
    namespace: String,
}

/// Formats the subject as `serviceaccount/NAMESPACE/NAME` or `user/NAME`.
impl fmt::Display for RoleSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.to_lowercase();
        match self.namespace.as_str() {
            "" => write!(f, "{kind}/{}", self.name),
            namespace => write!(f, "{kind}/{namespace}/{}", self.name),
        }
    }
}

impl RoleSubject {
    pub fn service_account(namespace: &str, name: &str) -> RoleSubject {
        RoleSubject {
            kind: "ServiceAccount".to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// The user name with which the subject authenticates.
    pub fn user(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("system:serviceaccount:{namespace}:{}", self.name),
        }
    }
}

impl PolicyRule {
    /// Whether the rule names an API group, rather than all groups.
    pub fn names(&self, group: &str) -> bool {
        self.api_groups.iter().any(|name| name == group)
    }

    /// Whether the rule grants a verb on all objects of a resource.
    pub fn grants(&self, group: &str, resource: &str, verb: &str) -> bool {
        let has =
            |values: &[String], wanted: &str| values.iter().any(|value| value == "*" || value == wanted);
        let subresources = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let all = subresources.is_some_and(|all| self.resources.contains(&all));
        has(&self.api_groups, group)
            && (has(&self.resources, resource) || all)
            && has(&self.verbs, verb)
            && self.resource_names.is_empty()
    }
}

impl RbacObject {
    /// The cluster-scoped kinds with their plurals.
    pub const KINDS: [(&str, &str); 2] =
        [("ClusterRole", "clusterroles"), ("ClusterRoleBinding", "clusterrolebindings")];
    /// The namespaced kinds with their plurals.
    pub const NAMESPACED: [(&str, &str); 2] = [("Role", "roles"), ("RoleBinding", "rolebindings")];

    /// Plural of the object's kind, for kubectl.
    pub fn resource(&self) -> &'static str {
        let mut all = Self::KINDS.iter().chain(&Self::NAMESPACED);
        all.find(|(kind, _)| *kind == self.kind).map_or(Self::KINDS[0].1, |(_, plural)| plural)
    }

    /// Whether the binding applies to a user or a service account of a namespace, by name or by one of its groups.
    pub fn binds(&self, subject: &RoleSubject, namespace: &str) -> bool {
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let groups = ["system:authenticated", "system:serviceaccounts", &of_namespace];
        let groups = if subject.kind == "ServiceAccount" { &groups[..] } else { &groups[..1] };
        let is_group = |other: &RoleSubject| other.kind == "Group" && groups.contains(&other.name.as_str());
        self.subjects.iter().any(|other| other == subject || is_group(other))
    }

    /// Whether the binding refers to this role.
    pub fn refers_to(&self, role: &RbacObject) -> bool {
        let same_namespace = role.kind == "ClusterRole" || role.metadata.namespace == self.metadata.namespace;
        self.role_ref.kind == role.kind && self.role_ref.name == role.metadata.name && same_namespace
    }

    /// Whether the operator's chart or kustomization created the cluster-scoped object, judged by its name or labels.
    pub fn is_operators(&self) -> bool {
        if self.metadata.namespace.is_some() {
            return false;
        }
        let named = |text: &str| text.contains("skyhook-operator") || text.contains("nodewright");
        let labels = ["name", "part-of", "created-by"];
        let mut labels =
            labels.iter().filter_map(|key| self.metadata.labels.get(&format!("app.kubernetes.io/{key}")));
        named(&self.metadata.name) || labels.any(|label| named(label))
    }
}

objects_with_metadata!(RbacObject);

/// Group, resource with its subresource, verb, and operation of a request, as roles and webhooks name them.
pub(super) struct Access {
    pub group: &'static str,
    pub resource: &'static str,
    pub verb: &'static str,
    pub operation: &'static str,
    /// Whether the request is limited to the operator's namespace.
    pub namespaced: bool,
}

impl Access {
    pub fn new(
        group: &'static str,
        resource: &'static str,
        verb: &'static str,
        operation: &'static str,
        namespaced: bool,
    ) -> Access {
        Access { group, resource, verb, operation, namespaced }
    }
}

impl Cluster {
    /// The operator's identity, if no role grants it a permission.
    pub(super) fn operator_without_right(
        &self,
        namespace: &str,
        account: &str,
        access: &Access,
    ) -> Option<RoleSubject> {
        // A role that was not read may grant the permission.
        let Read::Ok(all) = &self.installation.roles else {
            return None;
        };
        let operator = self.operators_subject(all, namespace, account)?;
        let mut bindings =
            all.iter().filter(|binding| binding.binds(&operator, namespace)).filter(|binding| {
                let here = binding.metadata.namespace.as_deref() == Some(namespace);
                binding.kind == "ClusterRoleBinding" || access.namespaced && here
            });
        let grants = |rule: &PolicyRule| rule.grants(access.group, access.resource, access.verb);
        let allowed = bindings.any(|binding| {
            let role = all.iter().find(|role| binding.refers_to(role));
            // The role may be missing from the files.
            role.map_or(self.may_leave_out(), |role| role.rules.iter().any(grants))
        });
        (!allowed).then_some(operator)
    }

    /// The identity of the operator: its service account, or else the subject that may write the status of custom
    /// resources; `None` if no role is made for that.
    fn operators_subject(&self, all: &[RbacObject], namespace: &str, account: &str) -> Option<RoleSubject> {
        let flavor = self.flavor();
        let status = format!("{}/status", flavor.plural());
        let writes =
            |rule: &PolicyRule| rule.names(flavor.group()) && rule.grants(flavor.group(), &status, "patch");
        let is_made = |role: &&RbacObject| role.rules.iter().any(writes);
        let roles: Vec<&RbacObject> = all.iter().filter(is_made).collect();
        let bound = all.iter().filter(|binding| roles.iter().any(|role| binding.refers_to(role)));
        let own = RoleSubject::service_account(namespace, account);
        let named = all.iter().any(|binding| binding.subjects.contains(&own));
        let others = bound.flat_map(|binding| &binding.subjects).find(|subject| subject.kind == "User");
        if named { Some(own) } else { others.cloned() }
    }
}
