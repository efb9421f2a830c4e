//! The lookup of Secrets and ConfigMaps that packages refer to.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, Read};
use crate::ctx::Ctx;
use crate::lint::{Existence, ReferenceKind, References};

/// Looks up the objects in the operator's namespace, and warns about those that cannot be checked.
pub(super) async fn read(
    ctx: &mut Ctx,
    cluster: &Cluster,
    wanted: BTreeSet<(ReferenceKind, String)>,
) -> References {
    let mut references = References::default();
    let namespaces = cluster.operator_namespaces();
    let namespace = namespaces.first().copied().unwrap_or_default();
    for (kind, name) in wanted {
        let why = if namespaces.len() != 1 {
            "the namespace of the operator is unknown".to_owned()
        } else if cluster.from_files {
            match captured(cluster, kind, namespace, &name) {
                Some(existence) => {
                    references.known.insert((kind, name), existence);
                    continue;
                }
                None => format!("the capture contains no {kind} of namespace {namespace}"),
            }
        } else {
            match existence(ctx, kind, namespace, &name).await {
                Read::Ok(existence) => {
                    references.known.insert((kind, name), existence);
                    continue;
                }
                Read::Incomplete(_, why) | Read::Unreadable(why) => why.to_string(),
                Read::NotRequested => "not read".to_owned(),
            }
        };
        ctx.warn(format!("{kind} {name} was not checked: {why}"));
    }
    namespace.clone_into(&mut references.namespace);
    references
}

/// Whether the object exists in a capture; `None` if the capture has no object of this kind in the namespace.
fn captured(cluster: &Cluster, kind: ReferenceKind, namespace: &str, name: &str) -> Option<Existence> {
    let objects = cluster.installation.key_maps.ok()?.iter();
    let mut same = objects
        .filter(|object| {
            object.kind == kind.to_string() && object.metadata.namespace.as_deref() == Some(namespace)
        })
        .peekable();
    same.peek()?;
    let found = same.find(|object| object.metadata.name == name);
    Some(found.map_or(Existence::Absent, |object| {
        Existence::Present(Some(object.keys().map(str::to_owned).collect()))
    }))
}

async fn existence(ctx: &Ctx, kind: ReferenceKind, namespace: &str, name: &str) -> Read<Existence> {
    match kind {
        ReferenceKind::Secret => {
            let exists = ctx.has_secret(namespace, name).await;
            exists.map(|exists| if exists { Existence::Present(None) } else { Existence::Absent })
        }
        ReferenceKind::ConfigMap => {
            let keys = ctx.config_map_keys(namespace, name).await;
            keys.map(|keys| keys.map_or(Existence::Absent, |keys| Existence::Present(Some(keys))))
        }
    }
}
