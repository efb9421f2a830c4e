//! Reads the objects of the operator's installation, as opposed to the objects that the operator works on, and webhooks.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use serde_json::Value;

use super::decode::Listed;
use super::list::List;
use super::request::{Failure, get, get_as};
use super::sources::{self, CORE, Reader};
use crate::api::ApiFlavor;
use crate::cluster::admission::{
    Admission, CONFIGURATIONS, SERVICE_LABEL, ServiceReference, WebhookConfiguration,
};
use crate::cluster::installation::{Definition, Installation, Lease, Namespace};
use crate::cluster::kubernetes::Standard;
use crate::cluster::restrictions::RbacObject;
use crate::cluster::{Cluster, Deployment, Read, lenient};

/// Reads the installation.
pub async fn read(client: &Client, cluster: &Cluster) -> Installation {
    let reader = Reader::new(client, None);
    let lists = lease_lists(cluster.operators.iter());
    let (server, definitions, leases) =
        futures::join!(server(client), definitions(client), leases(&reader, &lists));
    Installation { server: Read::from(server), definitions, leases, ..cluster.installation.clone() }
}

/// Reads the remaining objects of an installation without operator, except webhook configurations.
pub async fn remains(client: &Client) -> Installation {
    let reader = Reader::new(client, None);
    let namespaces = BTreeSet::new();
    let (definitions, roles) = futures::join!(definitions(client), reader.roles(&namespaces));
    Installation { definitions, roles: sources::read(roles), ..Installation::default() }
}

async fn server(client: &Client) -> Result<String, Failure> {
    let version = get_json(client, "/version").await?;
    let version = version["gitVersion"].as_str();
    version
        .map(str::to_owned)
        .ok_or_else(|| Failure::Malformed("the response contains no version".to_owned()))
}

/// Reads the CRDs of both APIs.
pub async fn definitions(client: &Client) -> Read<Vec<Definition>> {
    let malformed = |why| Failure::Malformed(format!("the response cannot be read: {why}"));
    let decode = |object| lenient::decode(object).map_err(malformed);
    let found = definition_objects(client).await;
    Read::from(found.and_then(|objects| objects.into_iter().map(decode).collect()))
}

/// The existing CRDs of both APIs.
pub(super) async fn definition_objects(client: &Client) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for name in ApiFlavor::ALL.into_iter().flat_map(Definition::names) {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        match get_json(client, &path).await {
            Ok(object) if object["metadata"]["name"] == *name => found.push(object),
            Ok(_) => {
                return Err(Failure::Malformed("the response is not the requested object".to_owned()));
            }
            Err(failure) if failure.is_absence() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

/// The lists of the Leases of these Deployments.
pub(super) fn lease_lists<'d>(operators: impl Iterator<Item = &'d Deployment>) -> Vec<List> {
    let namespaces: BTreeSet<&str> = operators.map(|d| d.namespace()).collect();
    let list = |namespace| List::inside("/apis/coordination.k8s.io/v1", namespace, "leases", "Lease");
    let named = format!("metadata.name={}", Lease::NAME);
    namespaces.into_iter().map(|namespace| list(namespace).with_fields(&named)).collect()
}

pub(super) async fn leases(reader: &Reader<'_>, lists: &[List]) -> Read<Vec<Lease>> {
    if lists.is_empty() { Read::NotRequested } else { sources::read(reader.all_of(lists).await) }
}

/// Reads the objects that may restrict the operator's requests: its namespaces with their limit ranges and quotas, and
/// all roles and bindings.
pub(super) async fn restrictions(reader: &Reader<'_>, cluster: &mut Cluster) {
    let names: BTreeSet<String> = reader.operator_namespaces(&cluster.operators);
    let inside = |plural: &str, kind: &'static str| -> Vec<List> {
        names.iter().map(|namespace| List::inside(sources::CORE, namespace, plural, kind)).collect()
    };
    let (ranges, quotas) = (inside("limitranges", "LimitRange"), inside("resourcequotas", "ResourceQuota"));
    let backends = reader.backends(cluster.admission.webhooks.items(), |found| !found.concerns_us());
    let (named, ranges, quotas, roles, (services, endpoints)) = futures::join!(
        namespaces(reader, names.clone()),
        reader.all_of(&ranges),
        reader.all_of(&quotas),
        reader.roles(&names),
        backends,
    );
    let installation = &mut cluster.installation;
    installation.namespaces = named;
    installation.limit_ranges = sources::read(ranges);
    installation.quotas = sources::read(quotas);
    installation.roles = sources::read(roles);
    if let (Some(known), Some(found)) = (cluster.admission.services.available_mut(), services.into_held()) {
        known.extend(found);
    }
    if let (Some(known), Some(found)) = (cluster.admission.endpoints.available_mut(), endpoints.into_held()) {
        known.extend(found);
    }
}

/// Reads the namespaces with these names that exist.
pub(super) async fn namespaces(reader: &Reader<'_>, names: BTreeSet<String>) -> Read<Vec<Namespace>> {
    let list = |name: &String| {
        List::all("/api/v1", "namespaces", "Namespace").with_fields(&format!("metadata.name={name}"))
    };
    let lists: Vec<List> = names.iter().map(list).collect();
    sources::read(reader.all_of(&lists).await)
}

/// Whether a Secret exists. Only its metadata is requested: its values never leave the server.
pub async fn has_secret(client: &Client, namespace: &str, name: &str) -> Read<bool> {
    const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = format!("{}/namespaces/{namespace}/secrets/{name}", sources::CORE);
    match get_as(client, &path, METADATA).await {
        Err(failure) if failure.is_absence() => Read::Ok(false),
        answer => Read::from(answer.map(|_| true)),
    }
}

/// Reads the keys of a ConfigMap; `None` if it does not exist.
pub async fn config_map_keys(client: &Client, namespace: &str, name: &str) -> Read<Option<Vec<String>>> {
    let path = format!("{}/namespaces/{namespace}/configmaps/{name}", sources::CORE);
    let object = match get_json(client, &path).await {
        Ok(object) => object,
        Err(failure) if failure.is_absence() => return Read::Ok(None),
        Err(failure) => return Read::Unreadable(failure.into()),
    };
    let members = ["data", "binaryData"].into_iter().filter_map(|part| object[part].as_object());
    let keys = members.flat_map(|members| members.keys().cloned());
    Read::Ok(Some(keys.collect()))
}

async fn get_json(client: &Client, path: &str) -> Result<Value, Failure> {
    let body = get(client, path).await?;
    serde_json::from_slice(&body).map_err(|_| Failure::Malformed("the response is not JSON".to_owned()))
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DISCOVERY: &str = "/apis/discovery.k8s.io/v1";

impl Reader<'_> {
    /// Reads all cluster roles with their bindings, and the roles of these namespaces with theirs.
    async fn roles(&self, namespaces: &BTreeSet<String>) -> Result<Listed<RbacObject>, Failure> {
        let mut found = Listed::default();
        let everywhere = RbacObject::KINDS.map(|(kind, plural)| (kind, List::all(RBAC, plural, kind)));
        let here = namespaces.iter().flat_map(|namespace| {
            RbacObject::NAMESPACED.map(|(kind, plural)| (kind, List::inside(RBAC, namespace, plural, kind)))
        });
        for (kind, list) in everywhere.into_iter().chain(here) {
            let mut listed: Listed<RbacObject> = self.list(&list).await?;
            listed.items.iter_mut().for_each(|object| object.kind = kind.to_owned());
            found.append(listed);
        }
        Ok(found)
    }

    /// Reads the webhooks for changes of custom resources, with the Services behind them, and the webhooks for
    /// other requests of the operator.
    pub async fn admission(&self) -> Admission {
        let mut webhooks: Listed<WebhookConfiguration> = Listed::default();
        for (kind, plural) in CONFIGURATIONS {
            let list = List::all(ADMISSION, plural, kind);
            match self.list::<WebhookConfiguration>(&list).await {
                Ok(mut found) => {
                    found.items.iter_mut().for_each(|found| found.kind = kind.to_owned());
                    webhooks.append(found);
                }
                Err(failure) => {
                    return Admission { webhooks: Read::Unreadable(failure.into()), ..Admission::default() };
                }
            }
        }
        let webhooks = Read::from(webhooks).selected(WebhookConfiguration::is_relevant);
        let (services, endpoints) =
            self.backends(webhooks.items(), WebhookConfiguration::needs_backend).await;
        Admission { webhooks, services, endpoints }
    }

    /// Reads the Services behind some webhooks, and their endpoints.
    pub(super) async fn backends(
        &self,
        webhooks: &[WebhookConfiguration],
        which: impl Fn(&WebhookConfiguration) -> bool,
    ) -> (Read<Vec<Standard<Service>>>, Read<Vec<Standard<EndpointSlice>>>) {
        let references: BTreeSet<&ServiceReference> =
            webhooks.iter().filter(|found| which(found)).flat_map(|w| w.services()).collect();
        let (mut services, mut slices) = (Vec::new(), Vec::new());
        for reference in references {
            let ServiceReference { namespace, name } = reference;
            let service = List::inside(CORE, namespace, "services", "Service");
            services.push(service.with_fields(&format!("metadata.name={name}")));
            let behind = List::inside(DISCOVERY, namespace, "endpointslices", "EndpointSlice");
            slices.push(behind.labelled(&format!("{SERVICE_LABEL}={name}")));
        }
        let (services, endpoints) = futures::join!(self.all_of(&services), self.all_of(&slices));
        (sources::read(services), sources::read(endpoints))
    }
}
