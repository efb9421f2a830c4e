//! The GitOps tool that applies an object: Argo CD, Flux or Helm. It reverts edits in the cluster.

use crate::api::Meta;

/// A tool that applies an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applier<'a> {
    /// An Argo CD application, by name.
    ArgoCd(&'a str),
    /// A Flux Kustomization, by namespace and name.
    FluxKustomization(&'a str, &'a str),
    /// A Flux HelmRelease, by namespace and name.
    FluxHelmRelease(&'a str, &'a str),
    /// A Helm release without Flux, by namespace and name.
    Helm(&'a str, &'a str),
}

const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";
const ARGO_LABEL: &str = "argocd.argoproj.io/instance";
/// Label that Argo CD sets if it does not track objects by annotation. Charts set the label as well.
const INSTANCE: &str = "app.kubernetes.io/instance";
const FLUX_KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const FLUX_HELM: &str = "helm.toolkit.fluxcd.io";
const HELM: &str = "meta.helm.sh";

impl Applier<'_> {
    /// The tool that applies the object, from its labels and annotations.
    pub fn of<'a>(meta: &'a Meta, kind: &str) -> Option<Applier<'a>> {
        argo_cd(meta, kind).or_else(|| flux(meta)).or_else(|| helm(meta))
    }

    /// The tool with the name of its object: `the Argo CD application platform`
    pub fn name(&self) -> String {
        match self {
            Applier::ArgoCd(name) => format!("the Argo CD application {name}"),
            Applier::FluxKustomization(namespace, name) => {
                format!("the Flux Kustomization {namespace}/{name}")
            }
            Applier::FluxHelmRelease(namespace, name) => {
                format!("the Flux HelmRelease {namespace}/{name}")
            }
            Applier::Helm(namespace, name) => format!("the Helm release {namespace}/{name}"),
        }
    }

    /// How the tool treats an edit of the spec, and where to edit instead.
    pub fn on_edits(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync reverts the edit; make the change in the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation reverts the edit; make the change in the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade or drift correction reverts the edit; make the change in the values of \
                 the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade reverts the edit; make the change in the chart values"
            }
        }
    }

    /// How the tool treats a recreated object, and where to restore it instead.
    pub fn on_creation(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync may delete the object again; first add the object to the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation may delete the object again; first add the object to the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade may delete the object again; first add the object to the values of the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade may delete the object again; first add the object to the chart values"
            }
        }
    }

    /// How the tool treats a deletion, and where to delete instead.
    pub fn on_deletion(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync recreates the object if it is still in the source; first remove it from the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation recreates the object if it is still in the source; first remove it from the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade or drift correction recreates the object if it is still in the chart; change the values of \
                 the HelmRelease, or delete the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade may recreate the object if it is still in the chart; change the chart values, or uninstall the release"
            }
        }
    }
}

/// The Argo CD application from the tracking annotation, or else from labels. The annotation counts only if
/// it names this object: copies of an object inherit the annotation, and Argo CD ignores them.
fn argo_cd<'a>(meta: &'a Meta, kind: &str) -> Option<Applier<'a>> {
    let text = |map: &'a std::collections::BTreeMap<String, String>, key: &str| {
        map.get(key).map(String::as_str).filter(|v| !v.is_empty())
    };
    let tracked = text(&meta.annotations, ARGO_TRACKING).and_then(|id| {
        // APPLICATION:GROUP/KIND:NAMESPACE/NAME
        let (application, rest) = id.split_once(':')?;
        let (of, place) = rest.split_once(':')?;
        let (_, of) = of.rsplit_once('/')?;
        let (_, name) = place.rsplit_once('/')?;
        (of == kind && name == meta.name).then_some(application)
    });
    let managed = || meta.managed_fields.iter().any(|m| m.manager.starts_with("argocd"));
    let labelled = || text(&meta.labels, INSTANCE).filter(|_| managed());
    let found = tracked.or_else(|| text(&meta.labels, ARGO_LABEL));
    found.or_else(labelled).map(Applier::ArgoCd)
}

fn flux(meta: &Meta) -> Option<Applier<'_>> {
    let pair = |group: &str| {
        let label = |key: &str| meta.labels.get(&format!("{group}/{key}")).map(String::as_str);
        Some((label("namespace")?, label("name")?))
    };
    if let Some((namespace, name)) = pair(FLUX_HELM) {
        return Some(Applier::FluxHelmRelease(namespace, name));
    }
    let (namespace, name) = pair(FLUX_KUSTOMIZE)?;
    // With these settings Flux leaves an existing object unchanged.
    let setting = |key: &str| annotation(meta, FLUX_KUSTOMIZE, key);
    let off =
        setting("reconcile") == Some("disabled") || matches!(setting("ssa"), Some("Ignore" | "IfNotPresent"));
    (!off).then_some(Applier::FluxKustomization(namespace, name))
}

fn helm(meta: &Meta) -> Option<Applier<'_>> {
    let by_helm = meta.labels.get("app.kubernetes.io/managed-by").is_some_and(|by| by == "Helm");
    let namespace = annotation(meta, HELM, "release-namespace")?;
    let name = annotation(meta, HELM, "release-name")?;
    by_helm.then_some(Applier::Helm(namespace, name))
}

fn annotation<'a>(meta: &'a Meta, group: &str, key: &str) -> Option<&'a str> {
    let annotations = &meta.annotations;
    annotations.get(&format!("{group}/{key}")).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn applier(metadata: Value) -> String {
        let meta: Meta = serde_json::from_value(metadata).expect("metadata");
        Applier::of(&meta, "Skyhook").map_or("nobody".to_owned(), |a| a.name())
    }

    #[test]
    fn labels_and_annotations_say_who_applies_an_object() {
        let id = "platform:GROUP/Skyhook:skyhook/gpu";
        let tracked =
            |id: &str| json!({"name": "gpu", "annotations": {"argocd.argoproj.io/tracking-id": id}});
        let instance = |manager: &str| json!({"name": "gpu", "labels": {"app.kubernetes.io/instance": "platform"}, "managedFields": [{"manager": manager}]});
        let kustomize = |annotations: Value| {
            json!({"name": "gpu", "annotations": annotations, "labels": {
                "kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}})
        };
        let release = json!({"meta.helm.sh/release-name": "gpus", "meta.helm.sh/release-namespace": "ops"});
        let helm = |labels: Value| json!({"name": "gpu", "annotations": release, "labels": labels});
        let argo = "the Argo CD application platform";
        for (metadata, who) in [
            (json!({"name": "gpu"}), "nobody"),
            (tracked(id), argo),
            // An application outside of Argo CD's own namespace.
            (tracked("team_platform:GROUP/Skyhook:/gpu"), "the Argo CD application team_platform"),
            (tracked("platform:GROUP/Skyhook:skyhook/other"), "nobody"),
            (tracked("platform:apps/Deployment:skyhook/gpu"), "nobody"),
            (tracked("nonsense"), "nobody"),
            (json!({"name": "gpu", "labels": {"argocd.argoproj.io/instance": "platform"}}), argo),
            (instance("argocd-controller"), argo),
            (instance("helm"), "nobody"),
            (kustomize(json!({})), "the Flux Kustomization flux-system/infra"),
            (kustomize(json!({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"})), "nobody"),
            (kustomize(json!({"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"})), "nobody"),
            (helm(json!({"app.kubernetes.io/managed-by": "Helm"})), "the Helm release ops/gpus"),
            (helm(json!({})), "nobody"),
            (
                helm(json!({
                    "app.kubernetes.io/managed-by": "Helm",
                    "helm.toolkit.fluxcd.io/name": "gpus",
                    "helm.toolkit.fluxcd.io/namespace": "ops",
                })),
                "the Flux HelmRelease ops/gpus",
            ),
        ] {
            assert_eq!(applier(metadata.clone()), who, "{metadata}");
        }
    }
}
