//! The operator's Deployment: which version runs, and where.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::pod::Resources;
use crate::api::{Meta, Version, quantity};

/// The label that the operator's manager carries in every release, and other operators as well.
pub const MANAGER_LABEL: (&str, &str) = ("control-plane", "controller-manager");

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Meta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    pub replicas: Option<i64>,
    pub template: PodTemplate,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub spec: TemplateSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    pub containers: Vec<ManagerContainer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ManagerContainer {
    pub name: String,
    pub image: String,
    pub env: Vec<EnvVar>,
    pub resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct EnvVar {
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// Absent until the Deployment controller has looked at it.
    pub observed_generation: Option<i64>,
    pub available_replicas: i64,
    pub updated_replicas: i64,
}

impl Deployment {
    /// Whether this runs the operator, and not another one that carries the same label.
    ///
    /// The image decides; the labels only count where they name the operator's own chart, as a
    /// label such as `part-of: skyhook` may stand on a dashboard too.
    pub fn runs_operator(&self) -> bool {
        let labelled = |labels: &BTreeMap<String, String>| {
            labels.get(MANAGER_LABEL.0).map(String::as_str) == Some(MANAGER_LABEL.1)
        };
        let named = |text: &str| text.contains("skyhook") || text.contains("nodewright");
        labelled(&self.metadata.labels)
            && (self
                .spec
                .template
                .spec
                .containers
                .iter()
                .any(|c| named(&c.image))
                || ["app.kubernetes.io/name", "app.kubernetes.io/part-of"]
                    .iter()
                    .filter_map(|key| self.metadata.labels.get(*key))
                    .any(|value| named(value)))
    }

    /// The operator's version: the tag of the image that runs, else the chart's label.
    ///
    /// The label stays behind when a user overrides the image tag, so the image goes first.
    pub fn operator_version(&self) -> Option<Version> {
        let manager = self.spec.template.spec.containers.iter().find(|c| {
            ["skyhook", "nodewright", "operator"]
                .iter()
                .any(|word| c.image.contains(word))
        });
        manager
            .and_then(|c| image_tag(&c.image))
            .and_then(Version::parse)
            .or_else(|| Version::parse(self.metadata.labels.get("app.kubernetes.io/version")?))
    }

    /// The memory that the manager may use, in bytes, where it is limited.
    pub fn memory_limit(&self) -> Option<f64> {
        let containers = self.spec.template.spec.containers.iter();
        let mut limits = containers.filter_map(|c| c.resources.limits.get("memory"));
        limits.find_map(quantity::parse)
    }

    /// The value of an environment variable of the manager.
    pub fn env(&self, name: &str) -> Option<&str> {
        let containers = self.spec.template.spec.containers.iter();
        containers
            .flat_map(|c| &c.env)
            .find(|e| e.name == name)
            .map(|e| e.value.as_str())
            .filter(|v| !v.is_empty())
    }
}

/// The tag of an image reference, minding registry ports and digests.
fn image_tag(image: &str) -> Option<&str> {
    let image = image.split('@').next()?;
    let last = image.rsplit('/').next()?;
    last.split_once(':').map(|(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_from_ports_and_digests() {
        for (image, tag) in [
            ("ghcr.io/nvidia/skyhook/operator:v0.15.0", Some("v0.15.0")),
            ("localhost:5000/skyhook-operator", None),
            ("localhost:5000/operator:v1.0.0@sha256:abc", Some("v1.0.0")),
        ] {
            assert_eq!(image_tag(image), tag, "{image}");
        }
    }
}
