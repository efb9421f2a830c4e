//! The identity of a cluster.

use serde::Deserialize;

use super::request::{Failure, get};
use crate::api::Meta;
use crate::cluster::source::Unread;

/// A namespace that every cluster has during its whole life.
pub const NAMESPACE: &str = "kube-system";

/// Reads the uid of the `kube-system` namespace, which identifies the cluster.
///
/// # Errors
///
/// The reason why the namespace could not be read.
pub async fn uid(client: &kube::Client) -> Result<String, Unread> {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Meta,
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}");
    let malformed = || Failure::Malformed("the response is not a namespace with a UID".to_owned());
    let found = get(client, &path).await.and_then(|body| {
        let namespace: Namespace = serde_json::from_slice(&body).map_err(|_| malformed())?;
        let uid = namespace.metadata.uid.filter(|uid| !uid.is_empty());
        uid.filter(|_| namespace.metadata.name == NAMESPACE).ok_or_else(malformed)
    });
    Ok(found?)
}
