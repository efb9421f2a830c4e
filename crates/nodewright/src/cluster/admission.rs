//! Admission webhooks for changes of custom resources, and whether their backends are reachable.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use serde::Deserialize;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::kubernetes::Standard;
use super::{Cluster, Read};
use crate::api::{ApiFlavor, LabelSelector, Meta, Skyhook, UnknownFields, meta, objects_with_metadata};

/// A `ValidatingWebhookConfiguration` or a `MutatingWebhookConfiguration`, whose CA bundle may be masked in
/// files.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WebhookConfiguration {
    pub kind: String,
    pub metadata: Meta,
    pub webhooks: Vec<Webhook>,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(WebhookConfiguration);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    /// `Fail` (the default) or `Ignore`.
    pub failure_policy: Option<String>,
    pub client_config: ClientConfig,
    pub rules: Vec<AdmissionRule>,
    pub object_selector: LabelSelector,
    pub namespace_selector: LabelSelector,
    pub match_conditions: Vec<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientConfig {
    /// URL of a server outside of the cluster. Nothing in the cluster shows whether the server responds.
    pub url: Option<String>,
    pub service: Option<ServiceReference>,
    /// CA certificates with which the API server verifies the webhook's certificate: PEM in base64.
    #[serde(rename = "caBundle")]
    pub ca_bundle: Option<String>,
}

impl ClientConfig {
    /// The decoded CA bundle as PEM; `None` if it is empty.
    pub fn bundle(&self) -> Option<Result<String, String>> {
        use base64::Engine as _;
        let bundle = self.ca_bundle.as_ref().filter(|b| !b.is_empty())?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(bundle);
        let text = bytes.ok().and_then(|b| String::from_utf8(b).ok());
        Some(text.ok_or_else(|| "its CA bundle cannot be read".to_owned()))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
}

impl ServiceReference {
    fn names(&self, service: &Service) -> bool {
        let meta = &service.metadata;
        meta.namespace.as_ref() == Some(&self.namespace) && meta.name.as_ref() == Some(&self.name)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AdmissionRule {
    pub api_groups: Vec<String>,
    pub operations: Vec<String>,
    pub resources: Vec<String>,
}

/// Label of an EndpointSlice with the name of its Service.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Kinds of webhook configurations, with their plurals.
pub const CONFIGURATIONS: [(&str, &str); 2] = [
    ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

/// Webhook configurations, and the objects behind their webhooks.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// Configurations with webhooks for custom resources.
    pub webhooks: Read<Vec<WebhookConfiguration>>,
    /// The Services that the configurations refer to.
    pub services: Read<Vec<Standard<Service>>>,
    pub endpoints: Read<Vec<Standard<EndpointSlice>>>,
}

/// The webhooks of a cluster, and whether the API server can reach them.
#[derive(Clone, Copy)]
pub struct Webhooks<'a>(pub(super) &'a Cluster);

/// A webhook that the API server cannot reach or does not trust, so that every matching request is rejected.
#[derive(Debug)]
pub struct Unreachable<'a> {
    pub configuration: &'a WebhookConfiguration,
    /// Index of the webhook in its configuration.
    pub index: usize,
    pub webhook: &'a Webhook,
    pub lacks: Lack,
    pub why: String,
    /// Whether the part is missing permanently. `false` for an empty CA bundle in a configuration without
    /// timestamps: it may be filled soon.
    pub certain: bool,
}

/// The missing part between the API server and a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    Service,
    Endpoint,
    CaBundle,
    ValidCertificate,
}

impl Lack {
    /// The webhook field that refers to the missing part.
    pub fn field(self) -> &'static str {
        match self {
            Lack::Service | Lack::Endpoint => "clientConfig.service",
            Lack::CaBundle | Lack::ValidCertificate => "clientConfig.caBundle",
        }
    }
}

/// Time within which the operator fills CA bundles again after a chart upgrade emptied them.
const FILLED_WITHIN: SignedDuration = SignedDuration::from_mins(1);

impl WebhookConfiguration {
    /// Whether the configuration is the operator's: every rule is limited to the operator's API groups.
    pub fn is_operators(&self) -> bool {
        let mut rules = self.webhooks.iter().flat_map(|w| &w.rules).peekable();
        rules.peek().is_some()
            && rules.all(|r| {
                !r.api_groups.is_empty() && r.api_groups.iter().all(|g| ApiFlavor::of_group(g).is_some())
            })
    }

    /// Whether a webhook of the configuration matches custom resources of either API.
    pub fn concerns_us(&self) -> bool {
        let rules = self.webhooks.iter().flat_map(|w| &w.rules);
        let ours = |r: &AdmissionRule| ApiFlavor::ALL.iter().any(|f| r.is_about(f.group(), f.plural()));
        rules.into_iter().any(ours)
    }

    /// The Services behind the webhooks.
    pub fn services(&self) -> impl Iterator<Item = &ServiceReference> {
        self.webhooks.iter().filter_map(|w| w.client_config.service.as_ref())
    }

    /// Time of the last write, from the metadata.
    fn last_written(&self) -> Option<Timestamp> {
        let writes = self.metadata.managed_fields.iter().filter_map(|m| m.time);
        writes.chain(self.metadata.creation_timestamp).max()
    }

    /// Plural of the configuration's kind, for kubectl.
    pub fn resource(&self) -> &'static str {
        let known = CONFIGURATIONS.iter().find(|(kind, _)| *kind == self.kind);
        known.map_or(CONFIGURATIONS[0].1, |(_, plural)| plural)
    }
}

impl AdmissionRule {
    /// Whether the rule matches requests on a resource, which may be a subresource.
    fn is_about(&self, group: &str, resource: &str) -> bool {
        let (main, sub) = resource.split_once('/').map_or((resource, None), |(main, sub)| (main, Some(sub)));
        let matches = |pattern: &String| match (pattern.split_once('/'), sub) {
            (None, None) => pattern == "*" || pattern == main,
            (Some((first, second)), sub) => {
                (first == "*" || first == main) && (second == "*" || sub == Some(second))
            }
            (None, Some(_)) => false,
        };
        has(&self.api_groups, group) && self.resources.iter().any(matches)
    }
}

/// Whether a list of values contains this one or a wildcard.
pub(super) fn has(values: &[String], wanted: &str) -> bool {
    values.iter().any(|value| value == "*" || value == wanted)
}

impl Webhook {
    /// Whether a rule matches this operation, such as `UPDATE`, on a resource, which may be a subresource. Selectors are
    /// not evaluated.
    pub(super) fn covers(&self, group: &str, resource: &str, operation: &str) -> bool {
        self.rules.iter().any(|rule| rule.is_about(group, resource) && has(&rule.operations, operation))
    }

    pub(super) fn fails_closed(&self) -> bool {
        self.failure_policy.as_deref().unwrap_or("Fail") == "Fail"
    }
}

impl<'a> Webhooks<'a> {
    /// Webhooks that reject requests with this operation, such as `UPDATE`, on `skyhook`, or on any custom resource if `None`,
    /// because their backend is unreachable.
    ///
    /// Requires proof: a Service that is missing or has no ready endpoint, or a CA bundle that stays empty or
    /// has expired. If endpoints are unknown, an unavailable operator proves that its webhook has none.
    ///
    /// Skips webhooks with match conditions, which are not evaluated, and webhooks whose object selector does
    /// not match `skyhook`.
    pub fn unreachable(self, operation: &str, skyhook: Option<&Skyhook>) -> Vec<Unreachable<'a>> {
        let flavor = self.0.flavor();
        let mut found = Vec::new();
        for configuration in &self.0.admission.webhooks {
            for (index, webhook) in configuration.webhooks.iter().enumerate() {
                let sees = webhook.covers(flavor.group(), flavor.plural(), operation)
                    && webhook.match_conditions.is_empty()
                    && skyhook.is_none_or(|s| webhook.object_selector.matches(&s.metadata.labels));
                if sees
                    && webhook.fails_closed()
                    && let Some((lacks, why)) = self
                        .dead_backend(configuration, webhook)
                        .or_else(|| self.no_ca_bundle(configuration, webhook))
                        .or_else(|| self.expired_certificate(webhook))
                {
                    let unknown = configuration.last_written().is_none();
                    found.push(Unreachable {
                        configuration,
                        index,
                        webhook,
                        lacks,
                        why,
                        certain: lacks != Lack::CaBundle || !unknown,
                    });
                }
            }
        }
        found
    }

    /// The missing part of a webhook's backend and the reason, if certain.
    pub(super) fn dead_backend(
        self,
        configuration: &WebhookConfiguration,
        webhook: &Webhook,
    ) -> Option<(Lack, String)> {
        let reference = webhook.client_config.service.as_ref()?;
        let spelled = format!("service {}/{}", reference.namespace, reference.name);
        let services = self.0.admission.services.ok();
        let service = services.into_iter().flatten().find(|s| reference.names(s));
        match service {
            // The files may omit the Service.
            None if self.0.may_leave_out() && !self.0.admission.holds_all_services() => return None,
            None if services.is_some() => {
                return Some((Lack::Service, format!("{spelled} does not exist")));
            }
            _ => {}
        }
        // An ExternalName Service has no endpoints, but may respond.
        let external = service
            .and_then(|s| s.spec.as_ref()?.type_.as_deref())
            .is_some_and(|kind| kind == "ExternalName");
        if let Some(slices) = self.0.admission.endpoints.ok().filter(|_| !external) {
            let behind = slices.iter().filter(|s| {
                let labels = s.metadata.labels.as_ref();
                s.metadata.namespace.as_ref() == Some(&reference.namespace)
                    && labels.and_then(|l| l.get(SERVICE_LABEL)) == Some(&reference.name)
            });
            let mut endpoints = behind.flat_map(|s| s.endpoints.iter().flatten());
            // Unset readiness means ready.
            let ready = |e: &Endpoint| {
                let ready = e.conditions.as_ref().and_then(|c| c.ready);
                !e.addresses.is_empty() && ready != Some(false)
            };
            let why = format!("{spelled} has no ready endpoint");
            return (!endpoints.any(ready)).then_some((Lack::Endpoint, why));
        }
        let down = configuration.is_operators() && self.0.operator().is_unavailable();
        let why = format!("{spelled} points to the operator, and no operator replica is available");
        down.then_some((Lack::Endpoint, why))
    }

    /// The reason why the API server trusts no certificate of an operator's webhook: its CA bundle is empty.
    /// Other webhooks may have publicly trusted certificates; the operator's are self-signed.
    fn no_ca_bundle(self, configuration: &WebhookConfiguration, webhook: &Webhook) -> Option<(Lack, String)> {
        let config = &webhook.client_config;
        let filled = config.service.is_none() || config.bundle().is_some();
        let written = configuration.last_written();
        let fresh = written.is_some_and(|at| self.0.taken_at.duration_since(at) < FILLED_WITHIN);
        let empty = configuration.is_operators() && !filled && !fresh;
        empty.then(|| {
            let why = "the CA bundle is empty, so the API server does not trust the operator";
            (Lack::CaBundle, why.to_owned())
        })
    }

    /// The reason why the API server rejects any certificate of a webhook: all certificates in its CA bundle
    /// have expired.
    fn expired_certificate(self, webhook: &Webhook) -> Option<(Lack, String)> {
        let bundle = webhook.client_config.bundle()?.ok()?;
        let last = ends(&bundle).ok()?.into_iter().max()?;
        let why = format!("the CA bundle expired at {last}, so the API server does not trust the webhook");
        (last < self.0.taken_at).then_some((Lack::ValidCertificate, why))
    }

    /// Whether the Services and endpoints behind a configuration were read.
    pub fn knows_backends(self, configuration: &WebhookConfiguration) -> bool {
        let admission = &self.0.admission;
        let held = |r: &ServiceReference| admission.services.iter().any(|s| r.names(s));
        let whole =
            admission.services.ok().is_some() && (!self.0.may_leave_out() || admission.holds_all_services());
        admission.endpoints.ok().is_some() && configuration.services().all(|r| whole || held(r))
    }
}

impl Admission {
    /// Whether the Services of all namespaces are known: they then include `default/kubernetes`, which every
    /// cluster has.
    fn holds_all_services(&self) -> bool {
        let is_the_servers = |service: &Standard<Service>| {
            let meta = &service.metadata;
            meta.name.as_deref() == Some("kubernetes") && meta.namespace.as_deref() == Some("default")
        };
        self.services.iter().any(is_the_servers)
    }

    /// The reason why webhook backends are unknown: objects that the files do not contain.
    fn backend_not_in_files(&self) -> Option<String> {
        let configurations = self.webhooks.iter().filter(|c| c.concerns_us());
        let mut references = configurations.flat_map(WebhookConfiguration::services);
        let held = |r: &ServiceReference| self.services.iter().any(|s| r.names(s));
        // A Service that does not exist has no endpoints.
        let absent = |r: &ServiceReference| self.holds_all_services() && !held(r);
        let in_doubt = references.find(|r| !absent(r))?;
        if !self.endpoints.was_asked() {
            return Some(
                "the capture has no endpoint slices, so the webhook backends are unknown".to_owned(),
            );
        }
        let missing = std::iter::once(in_doubt).chain(references).find(|r| !absent(r) && !held(r))?;
        Some(format!(
            "one of these webhooks uses service {}/{}, which is not in the capture",
            missing.namespace, missing.name
        ))
    }

    /// Number of webhook configurations, or the reason why their backends are unknown.
    pub fn read(&self, may_leave_out: bool) -> Read<usize> {
        match (&self.webhooks, &self.services, &self.endpoints) {
            (Read::Ok(_), ..) if may_leave_out && let Some(why) = self.backend_not_in_files() => {
                Read::Unreadable(why.into())
            }
            (Read::Ok(all), services, endpoints) => match (services.unread(), endpoints.unread()) {
                (Some(why), _) => Read::Unreadable(why.of("the services of these webhooks")),
                (None, Some(why)) => Read::Unreadable(why.of("the endpoints of these webhooks")),
                (None, None) => Read::Ok(all.len()),
            },
            (Read::Incomplete(_, why) | Read::Unreadable(why), ..) => Read::Unreadable(why.clone()),
            (Read::NotRequested, ..) => Read::NotRequested,
        }
    }
}

/// The expiry times of the PEM certificates of a CA bundle, in its order; at least one.
///
/// # Errors
///
/// Fails if a certificate cannot be parsed, or the bundle contains none.
pub fn ends(bundle: &str) -> Result<Vec<Timestamp>, String> {
    let blocks = Pem::iter_from_buffer(bundle.as_bytes());
    let blocks: Result<Vec<Pem>, _> = blocks.collect();
    let blocks = blocks.map_err(|e| e.to_string())?;
    let ends: Option<Vec<Timestamp>> = blocks.iter().filter(|b| b.label == "CERTIFICATE").map(end).collect();
    let ends = ends.ok_or("a certificate in the CA bundle cannot be read")?;
    if ends.is_empty() {
        return Err("the CA bundle contains no certificate".to_owned());
    }
    Ok(ends)
}

fn end(block: &Pem) -> Option<Timestamp> {
    let certificate = block.parse_x509().ok()?;
    Some(meta::nearest(certificate.validity().not_after.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read() {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).expect("names");
        params.not_after = rcgen::date_time_ymd(2031, 5, 17);
        let key = rcgen::KeyPair::generate().expect("a key");
        let one = params.self_signed(&key).expect("a certificate").pem();
        params.not_after = rcgen::date_time_ymd(2065, 1, 2);
        let two = params.self_signed(&key).expect("a certificate").pem();
        let both = ends(&format!("{two}{one}")).expect("two ends");
        let both: Vec<String> = both.iter().map(Timestamp::to_string).collect();
        assert_eq!(both, ["2065-01-02T00:00:00Z", "2031-05-17T00:00:00Z"]);
        assert!(ends("").is_err());
        assert!(ends("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").is_err());
    }
}
