//! What is read of an installation beside what it works on.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use super::list::List;
use super::request::{Failure, get};
use super::sources::read as outcome;
use crate::api::ApiFlavor;
use crate::cluster::installation::{Definition, Installation, Lease};
use crate::cluster::{Cluster, Deployment, Read};

/// Reads it. The operator's namespace is where its Deployments were found.
pub async fn read(client: &kube::Client, cluster: &Cluster) -> Installation {
    let (server, definitions, leases) =
        futures::join!(server(client), definitions(client), leases(client, cluster));
    Installation {
        server: outcome(server),
        definitions: outcome(definitions),
        leases,
    }
}

async fn server(client: &kube::Client) -> Result<String, Failure> {
    let version = object::<Value>(client, "/version").await?;
    let version = version["gitVersion"].as_str();
    version
        .map(str::to_owned)
        .ok_or_else(|| Failure::Malformed("the response contains no version".to_owned()))
}

async fn definitions(client: &kube::Client) -> Result<Vec<Definition>, Failure> {
    let mut found = Vec::new();
    for name in ApiFlavor::ALL.iter().flat_map(|g| Definition::names(*g)) {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        match object::<Definition>(client, &path).await {
            Ok(definition) => found.push(definition),
            Err(failure) if failure.is_absence() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(found)
}

/// Not requested where it is not known in which namespace to look.
async fn leases(client: &kube::Client, cluster: &Cluster) -> Read<Vec<Lease>> {
    let operators = cluster.operators.items();
    let namespaces: BTreeSet<&str> = operators.iter().map(Deployment::namespace).collect();
    if namespaces.is_empty() {
        return Read::NotRequested;
    }
    let mut found = Vec::new();
    for namespace in namespaces {
        let list = List::inside("/apis/coordination.k8s.io/v1", namespace, "leases", "lease");
        match list.read::<Lease>(client).await {
            Ok(leases) => found.extend(leases.into_iter().filter(|l| l.is_operators(operators))),
            Err(failure) => return Read::Unreadable(failure.into()),
        }
    }
    Read::Ok(found)
}

async fn object<T: for<'de> Deserialize<'de>>(
    client: &kube::Client,
    path: &str,
) -> Result<T, Failure> {
    let body = get(client, path).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Failure::Malformed(format!("the response cannot be read: {error}")))
}
