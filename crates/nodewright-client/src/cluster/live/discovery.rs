//! Detects which of the operator's APIs a server serves.

use futures::future::join_all;
use serde::Deserialize;

use super::LoadError;
use super::request::{Failure, get};
use crate::api::ApiFlavor;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resources {
    kind: String,
    group_version: String,
    resources: Option<Vec<Resource>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
}

/// The APIs whose main resource is served, older first.
///
/// A group without the main resource does not count: it may contain only a leftover policy CRD.
pub(super) async fn served(client: &kube::Client) -> Result<Vec<ApiFlavor>, LoadError> {
    let each = ApiFlavor::ALL.map(|flavor| serves(client, flavor));
    let mut served = Vec::new();
    for (flavor, serves) in ApiFlavor::ALL.into_iter().zip(join_all(each).await) {
        if serves? {
            served.push(flavor);
        }
    }
    Ok(served)
}

async fn serves(client: &kube::Client, flavor: ApiFlavor) -> Result<bool, LoadError> {
    let path = format!("/apis/{}", flavor.api_version());
    let body = match get(client, &path).await {
        Ok(body) => body,
        Err(failure) if failure.is_absence() => return Ok(false),
        Err(failure) => return Err(LoadError::discovery(failure)),
    };
    let resources: Option<Resources> = serde_json::from_slice(&body).ok();
    let resources = resources.filter(|r| r.kind == "APIResourceList");
    let malformed = |why: String| LoadError::discovery(Failure::Malformed(why));
    let Some(found) = resources else {
        let why = "the response is not from an API server; check --server and the proxy";
        return Err(malformed(why.to_owned()));
    };
    // An API server lists the resources of every version that it serves. Reject other responses: they would
    // falsely prove that the API is absent.
    let resources = found.resources.unwrap_or_default();
    if found.group_version != flavor.api_version()
        || resources.is_empty()
        || resources.iter().any(|r| r.name.is_empty())
    {
        let version = flavor.api_version();
        return Err(malformed(format!(
            "the response does not list the resources of {version}; check --server and the proxy"
        )));
    }
    Ok(resources.iter().any(|r| r.name == flavor.plural()))
}
