//! The served kinds and their names.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::Value;

/// A served kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Whether it is a custom resource: list items have `kind`, and strategic merge patches are refused.
    pub custom: bool,
}

impl Kind {
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `plural.group`, as in messages of the API server.
    pub fn resource(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// All served kinds.
pub struct Kinds(pub Vec<Kind>);

/// Group, version, kind, plural and whether it is namespaced, for each built-in kind.
const OWN: [(&str, &str, &str, &str, bool); 23] = [
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Event", "events", true),
    ("", "v1", "LimitRange", "limitranges", true),
    ("", "v1", "Namespace", "namespaces", false),
    ("", "v1", "Node", "nodes", false),
    ("", "v1", "Pod", "pods", true),
    ("", "v1", "ResourceQuota", "resourcequotas", true),
    ("", "v1", "Secret", "secrets", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("apps", "v1", "DaemonSet", "daemonsets", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("batch", "v1", "Job", "jobs", true),
    ("coordination.k8s.io", "v1", "Lease", "leases", true),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    ),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
];

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds(
            OWN.iter()
                .map(|(group, version, kind, plural, namespaced)| Kind {
                    group: (*group).to_owned(),
                    version: (*version).to_owned(),
                    kind: (*kind).to_owned(),
                    plural: (*plural).to_owned(),
                    namespaced: *namespaced,
                    custom: false,
                })
                .collect(),
        )
    }
}

impl Kinds {
    /// The kind of an object; serves the kind from now on.
    pub fn of(&mut self, object: &Value) -> Kind {
        let text = |key: &str| object[key].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        assert!(!kind.is_empty(), "an object without a kind: {object}");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if let Some(flavor) = ApiFlavor::of_group(group) {
            self.register_generation(flavor);
        }
        let known = |k: &&Kind| k.group == group && k.kind == kind;
        if let Some(known) = self.0.iter().find(known) {
            return known.clone();
        }
        let new = Kind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural(kind),
            namespaced: object["metadata"]["namespace"].is_string(),
            custom: group.contains('.') && !group.ends_with(".k8s.io"),
        };
        self.0.push(new.clone());
        new
    }

    pub fn register_generation(&mut self, flavor: ApiFlavor) {
        let policy = ("DeploymentPolicy", "deploymentpolicies");
        for (kind, plural) in [(flavor.kind(), flavor.plural()), policy] {
            let new = Kind {
                group: flavor.group().to_owned(),
                version: ApiFlavor::VERSION.to_owned(),
                kind: kind.to_owned(),
                plural: plural.to_owned(),
                namespaced: false,
                custom: true,
            };
            if !self.0.contains(&new) {
                self.0.push(new);
            }
        }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.0.iter().find(|k| k.group == group && k.version == version && k.plural == plural)
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}
