//! Restrictions of the operator's requests: Pod Security, quotas, limit ranges, webhooks and permissions.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::Read;
use super::admission::{Webhook, WebhookConfiguration, Webhooks, has};
use super::operator::OperatorView;
use crate::api::{Executor, Meta, Package, UnknownFields, objects_with_metadata, quantity};

type Quantities = BTreeMap<String, Value>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    pub metadata: Meta,
    spec: QuotaSpec,
    status: QuotaStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct QuotaSpec {
    hard: Quantities,
    scopes: Vec<String>,
    scope_selector: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct QuotaStatus {
    used: Quantities,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LimitRange {
    pub metadata: Meta,
    spec: LimitRangeSpec,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct LimitRangeSpec {
    limits: Vec<Limits>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Limits {
    #[serde(rename = "type")]
    kind: String,
    max: Quantities,
    min: Quantities,
    default: Quantities,
    default_request: Quantities,
}

objects_with_metadata!(LimitRange, ResourceQuota);

/// A request of the operator.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Starts a stage of this package.
    Start(&'a Package),
    /// Writes the operator's annotations or the cordon of a node.
    PatchNode,
    Evict,
}

/// An object because of which the API server refuses a request.
#[derive(Debug)]
pub struct Restriction {
    /// `kind/name`
    pub object: String,
    pub field: String,
    pub value: String,
    /// The reason as a clause: `resourcequota/small allows no more jobs`.
    pub why: String,
    /// How to lift the restriction, and the arguments of a kubectl command for it.
    pub fix: (&'static str, Vec<String>),
    /// Whether the command changes something.
    pub changes: bool,
}

/// The arguments of a kubectl command.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

const RAISE: &str = "Raise the limit, or exempt the operator's namespace from it";

impl<'a> OperatorView<'a> {
    /// The objects because of which the API server certainly refuses a request of the operator. Empty if they were
    /// not read, or no refusal is certain.
    pub fn restrictions(self, request: Request<'_>) -> Vec<Restriction> {
        let Some(operator) = self.deployment() else {
            return Vec::new();
        };
        let namespace = operator.namespace();
        let jobs = self.0.flavor().executor() == Executor::Job;
        let access = match request {
            Request::Start(_) if jobs => Access::new("batch", "jobs", "create", true),
            Request::Start(_) => Access::new("", "pods", "create", true),
            Request::PatchNode => Access::new("", "nodes", "patch", false),
            Request::Evict => Access::new("", "pods/eviction", "create", false),
        };
        let mut found = Vec::new();
        if let Request::Start(package) = request {
            if jobs {
                found.extend(self.full_quota(namespace, &["count/jobs.batch"]));
            } else {
                found.extend(self.pod_security(namespace));
                found.extend(self.full_quota(namespace, &["pods", "count/pods"]));
                found.extend(self.missing_resources(namespace, package));
                found.extend(self.limit_range(namespace, package));
            }
        }
        found.extend(self.dead_webhooks(&access));
        found.extend(self.missing_right(namespace, operator.service_account(), &access));
        found
    }

    /// The reason why the restrictions could not be read; `None` if they were read or not requested.
    pub fn restrictions_unread(self) -> Option<String> {
        let installation = &self.0.installation;
        let unread = [
            ("namespaces", installation.namespaces.unread()),
            ("limit ranges", installation.limit_ranges.unread()),
            ("resource quotas", installation.quotas.unread()),
            ("roles", installation.roles.unread()),
        ];
        unread.into_iter().find_map(|(what, why)| Some(format!("{what}: {}", why?)))
    }

    fn pod_security(self, namespace: &str) -> Option<Restriction> {
        const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
        let mut all = self.0.installation.namespaces.iter();
        let labels = &all.find(|found| found.metadata.name == namespace)?.metadata.labels;
        let level =
            labels.get(ENFORCE).filter(|level| matches!(level.as_str(), "baseline" | "restricted"))?;
        Some(Restriction {
            object: format!("namespace/{namespace}"),
            field: format!("label {ENFORCE}"),
            value: level.clone(),
            why: format!(
                "Pod Security level {level} of namespace {namespace} forbids package pods, which require \
                 access to the host"
            ),
            fix: (
                "Allow privileged pods in the operator's namespace",
                words(&["label", "namespace", namespace, &format!("{ENFORCE}=privileged"), "--overwrite"]),
            ),
            changes: true,
        })
    }

    fn quotas(self, namespace: &str) -> impl Iterator<Item = &'a ResourceQuota> {
        let all = self.0.installation.quotas.iter();
        let here = all.filter(move |quota| quota.metadata.namespace.as_deref() == Some(namespace));
        // Scopes are not evaluated.
        here.filter(|quota| quota.spec.scopes.is_empty() && quota.spec.scope_selector.is_null())
    }

    /// A quota of this namespace that allows no more objects of a kind.
    fn full_quota(self, namespace: &str, counts: &[&str]) -> Option<Restriction> {
        let (quota, count, hard) = self.quotas(namespace).find_map(|quota| {
            let full = counts.iter().find_map(|count| {
                let hard = quantity::parse(quota.spec.hard.get(*count)?)?;
                let used = quota.status.used.get(*count).and_then(quantity::parse).unwrap_or(0.0);
                (used >= hard).then_some((count, hard))
            });
            full.map(|(count, hard)| (quota, count, hard))
        })?;
        let kind = if count.contains("jobs") { "jobs" } else { "pods" };
        let why = format!("allows {hard} {kind}, and no more can be created");
        Some(quota.restriction(namespace, count, hard.to_string(), &why))
    }

    /// A quota that requires a resource of every pod that neither the package nor a limit range sets.
    fn missing_resources(self, namespace: &str, package: &Package) -> Option<Restriction> {
        const REQUIRED: [(&str, &str, &str); 6] = [
            ("limits.cpu", "cpuLimit", "cpu"),
            ("limits.memory", "memoryLimit", "memory"),
            ("requests.cpu", "cpuRequest", "cpu"),
            ("requests.memory", "memoryRequest", "memory"),
            ("cpu", "cpuRequest", "cpu"),
            ("memory", "memoryRequest", "memory"),
        ];
        self.0.installation.limit_ranges.ok()?;
        let defaults = |resource: &str, limit: bool| {
            let mut limits = self.limits(namespace).filter(|(_, limits)| limits.kind == "Container");
            limits.any(|(_, limits)| {
                limits.default.contains_key(resource)
                    || limits.max.contains_key(resource)
                    || !limit && limits.default_request.contains_key(resource)
            })
        };
        self.quotas(namespace).find_map(|quota| {
            let missing = REQUIRED.iter().find(|(name, field, resource)| {
                quota.spec.hard.contains_key(*name)
                    && resource_of(package, field).is_none()
                    && !defaults(resource, name.starts_with("limits"))
            });
            let (name, field, _) = missing?;
            let why = format!("requires {name} of every pod, and the package sets no {field}");
            let value = quantity::value_text(&quota.spec.hard[*name]);
            Some(quota.restriction(namespace, name, value, &why))
        })
    }

    fn limits(self, namespace: &str) -> impl Iterator<Item = (&'a LimitRange, &'a Limits)> {
        let all = self.0.installation.limit_ranges.iter();
        all.filter(move |range| range.metadata.namespace.as_deref() == Some(namespace))
            .flat_map(|range| range.spec.limits.iter().map(move |limits| (range, limits)))
    }

    /// A limit range that the package's resources violate.
    fn limit_range(self, namespace: &str, package: &Package) -> Option<Restriction> {
        const BOUNDS: [(&str, &str, &str); 4] = [
            ("max", "cpu", "cpuLimit"),
            ("min", "cpu", "cpuRequest"),
            ("max", "memory", "memoryLimit"),
            ("min", "memory", "memoryRequest"),
        ];
        let containers = self.limits(namespace).filter(|(_, limits)| limits.kind == "Container");
        let mut bounds = containers.flat_map(|limits| BOUNDS.map(|bound| (limits, bound)));
        bounds.find_map(|((range, limits), (name, resource, field))| {
            let bound = if name == "max" { &limits.max } else { &limits.min }.get(resource)?;
            let (amount, set) = (quantity::parse(bound)?, resource_of(package, field)?);
            let word = match name {
                "max" if set > amount => "above the maximum of",
                "min" if set < amount => "below the minimum of",
                _ => return None,
            };
            let object = format!("limitrange/{}", range.metadata.path());
            let value = quantity::value_text(bound);
            Some(Restriction {
                why: format!("{field} of the package is {word} {object}, which is {value}"),
                object,
                field: format!("{name}.{resource}"),
                value,
                fix: (RAISE, words(&["edit", "limitrange", "-n", namespace, &range.metadata.name])),
                changes: true,
            })
        })
    }

    /// Webhooks that certainly match the request, fail closed, and have no backend.
    fn dead_webhooks(self, access: &Access) -> impl Iterator<Item = Restriction> {
        let refusing = self.0.webhooks().refusing().into_iter();
        refusing.filter(|dead| dead.certain && dead.refuses.contains(&access.resource)).map(|dead| {
            let (configuration, why) = (dead.configuration, dead.why);
            Restriction {
                object: format!("{}/{}", configuration.kind.to_lowercase(), configuration.metadata.name),
                field: "clientConfig.service".to_owned(),
                why: format!(
                    "webhook {} checks {} of {}, and its {why}",
                    dead.webhook.name,
                    if access.verb == "create" { "the creation" } else { "changes" },
                    access.resource
                ),
                value: why,
                fix: (
                    "Repair the webhook's service, or exempt the operator's requests from the webhook",
                    words(&["edit", configuration.resource(), &configuration.metadata.name]),
                ),
                changes: true,
            }
        })
    }

    /// The permission that no role of the operator grants.
    fn missing_right(self, namespace: &str, account: &str, access: &Access) -> Option<Restriction> {
        let operator = self.without_right(namespace, account, access)?;
        let user = format!("--as={}", operator.user());
        Some(Restriction {
            why: format!("no role allows {operator} to {} {}", access.verb, access.resource),
            object: operator.to_string(),
            field: "roles".to_owned(),
            value: format!("none grants {} {}", access.verb, access.resource),
            fix: (
                "Confirm the missing permission, and restore the operator's roles from its chart",
                words(&["auth", "can-i", access.verb, access.resource, "-n", namespace, &user]),
            ),
            changes: false,
        })
    }
}

impl ResourceQuota {
    /// The restriction by a resource of the quota; `why` follows the quota's name.
    fn restriction(&self, namespace: &str, resource: &str, value: String, why: &str) -> Restriction {
        let object = format!("resourcequota/{}", self.metadata.path());
        Restriction {
            why: format!("{object} {why}"),
            object,
            field: format!("spec.hard.{resource}"),
            value,
            fix: (RAISE, words(&["edit", "resourcequota", "-n", namespace, &self.metadata.name])),
            changes: true,
        }
    }
}

/// Requests without which a rollout does not progress: group, resource and operation.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("", "pods", "CREATE"),
    ("", "pods/eviction", "CREATE"),
    ("", "configmaps", "CREATE"),
    ("batch", "jobs", "CREATE"),
    ("", "nodes", "UPDATE"),
];
/// Label of each namespace with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A webhook that rejects requests of a rollout because its backend is unreachable.
#[derive(Debug)]
pub struct RefusingWebhook<'a> {
    pub configuration: &'a WebhookConfiguration,
    pub webhook: &'a Webhook,
    /// Index of the webhook in its configuration.
    pub index: usize,
    pub why: String,
    /// The resources whose requests it rejects.
    pub refuses: Vec<&'static str>,
    /// Whether its selectors certainly match the requests.
    pub certain: bool,
}

impl<'a> Webhooks<'a> {
    /// Webhooks of others that fail closed, match requests of a rollout, and have no ready endpoint.
    pub fn refusing(self) -> Vec<RefusingWebhook<'a>> {
        let jobs = self.0.flavor().executor() == Executor::Job;
        let Some(namespace) = self.0.operator().namespaces().first().copied() else {
            return Vec::new();
        };
        let known = self.0.installation.namespaces.iter().find(|found| found.metadata.name == namespace);
        let mut labels = known.map(|found| found.metadata.labels.clone()).unwrap_or_default();
        labels.insert(NAMESPACE_NAME.to_owned(), namespace.to_owned());
        let mut found = Vec::new();
        let others = self.0.admission.webhooks.iter().filter(|configuration| !configuration.is_operators());
        for configuration in others {
            for (index, webhook) in
                configuration.webhooks.iter().enumerate().filter(|(_, w)| w.fails_closed())
            {
                let selector = &webhook.namespace_selector;
                let here = selector.matches(&labels);
                let by_name = selector.match_expressions.iter().all(|r| r.key == NAMESPACE_NAME);
                let decided =
                    known.is_some() || by_name && selector.match_labels.keys().all(|k| k == NAMESPACE_NAME);
                let refuses: Vec<&str> = REQUESTS
                    .iter()
                    .filter(|(group, ..)| jobs || *group != "batch")
                    .filter(|(group, resource, operation)| webhook.covers(group, resource, operation))
                    .map(|(_, resource, _)| *resource)
                    .filter(|resource| *resource == "nodes" || here)
                    .collect();
                // Labels of the objects are not evaluated; a webhook that asks for some rarely matches.
                let asks = !webhook.object_selector.matches(&BTreeMap::<String, String>::new());
                if refuses.is_empty() || asks || !webhook.match_conditions.is_empty() {
                    continue;
                }
                if let Some((_, why)) = self.dead_backend(configuration, webhook) {
                    let only_nodes = refuses.as_slice() == ["nodes"];
                    let certain = webhook.object_selector.is_empty() && (decided || only_nodes);
                    found.push(RefusingWebhook { configuration, webhook, index, why, refuses, certain });
                }
            }
        }
        found
    }
}

impl WebhookConfiguration {
    /// Whether a webhook of the configuration matches custom resources, or other requests of a rollout.
    pub fn is_relevant(&self) -> bool {
        self.concerns_us() || self.webhooks.iter().any(Webhook::sees_requests)
    }

    /// Whether the backends of the configuration decide on a rollout: it matches custom resources, or fails closed on other
    /// requests.
    pub fn needs_backend(&self) -> bool {
        self.concerns_us()
            || self.webhooks.iter().any(|webhook| webhook.fails_closed() && webhook.sees_requests())
    }
}

impl Webhook {
    fn sees_requests(&self) -> bool {
        REQUESTS.iter().any(|(group, resource, operation)| self.covers(group, resource, operation))
    }
}

/// A resource of the package's containers.
fn resource_of(package: &Package, field: &str) -> Option<f64> {
    let resources = package.resources.as_ref()?;
    quantity::parse(&resources[field]).filter(|amount| *amount > 0.0)
}

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
    /// Whether the rule grants a verb on all objects of a resource.
    pub fn grants(&self, group: &str, resource: &str, verb: &str) -> bool {
        let all = resource
            .split_once('/')
            .map(|(_, sub)| format!("*/{sub}"))
            .is_some_and(|all| self.resources.contains(&all));
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

/// Group, resource with its subresource, and verb of a request, as roles name them.
pub(super) struct Access {
    pub group: &'static str,
    pub resource: &'static str,
    pub verb: &'static str,
    /// Whether the request is limited to the operator's namespace.
    pub namespaced: bool,
}

impl Access {
    pub fn new(group: &'static str, resource: &'static str, verb: &'static str, namespaced: bool) -> Access {
        Access { group, resource, verb, namespaced }
    }
}

impl OperatorView<'_> {
    /// The operator's identity, if no role grants it a permission.
    pub(super) fn without_right(
        self,
        namespace: &str,
        account: &str,
        access: &Access,
    ) -> Option<RoleSubject> {
        // A role that was not read may grant the permission.
        let Read::Ok(all) = &self.0.installation.roles else {
            return None;
        };
        let operator = self.subject(all, namespace, account)?;
        let mut bindings =
            all.iter().filter(|binding| binding.binds(&operator, namespace)).filter(|binding| {
                let here = binding.metadata.namespace.as_deref() == Some(namespace);
                binding.kind == "ClusterRoleBinding" || access.namespaced && here
            });
        let grants = |rule: &PolicyRule| rule.grants(access.group, access.resource, access.verb);
        let allowed = bindings.any(|binding| {
            let role = all.iter().find(|role| binding.refers_to(role));
            // The role may be missing from the files.
            role.map_or(self.0.may_leave_out(), |role| role.rules.iter().any(grants))
        });
        (!allowed).then_some(operator)
    }

    /// The identity of the operator: its service account, or else the subject that may write the status of custom
    /// resources; `None` if no role is made for that.
    fn subject(self, all: &[RbacObject], namespace: &str, account: &str) -> Option<RoleSubject> {
        let flavor = self.0.flavor();
        let status = format!("{}/status", flavor.plural());
        // Rules for all API groups are not made for the operator.
        let writes = |rule: &PolicyRule| {
            rule.api_groups.iter().any(|name| name == flavor.group())
                && rule.grants(flavor.group(), &status, "patch")
        };
        let is_made = |role: &&RbacObject| role.rules.iter().any(writes);
        let roles: Vec<&RbacObject> = all.iter().filter(is_made).collect();
        let bound = all.iter().filter(|binding| roles.iter().any(|role| binding.refers_to(role)));
        let own = RoleSubject::service_account(namespace, account);
        let named = all.iter().any(|binding| binding.subjects.contains(&own));
        let others = bound.flat_map(|binding| &binding.subjects).find(|subject| subject.kind == "User");
        if named { Some(own) } else { others.cloned() }
    }
}
