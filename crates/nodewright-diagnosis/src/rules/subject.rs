//! The subjects of findings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Skyhook;
use crate::cluster::{Deployment, Node, PackageRun};

/// The object that a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// The kind of the object: `Skyhook`, `NodeWright`, `Node` …
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The custom resource concerned; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    /// The node concerned; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The package concerned, without version; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The compartment concerned, of a deployment policy; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compartment: Option<String>,
}

impl Subject {
    /// A custom resource.
    pub fn skyhook(skyhook: &Skyhook) -> Subject {
        Subject {
            kind: skyhook.kind.clone(),
            name: skyhook.name().to_owned(),
            skyhook: Some(skyhook.name().to_owned()),
            ..Subject::default()
        }
    }

    /// A Deployment of the operator.
    pub fn deployment(deployment: &Deployment) -> Subject {
        Subject::object("Deployment", deployment.name())
    }

    /// An object that belongs to no custom resource and no node.
    pub fn object(kind: impl Into<String>, name: impl Into<String>) -> Subject {
        Subject { kind: kind.into(), name: name.into(), ..Subject::default() }
    }

    /// A custom resource on a node.
    pub fn skyhook_on_node(skyhook: &Skyhook, node: &Node) -> Subject {
        Subject::node(&node.name, Some(skyhook.name()))
    }

    /// The package of a run, on its node.
    pub fn package_run(package_run: &PackageRun<'_>) -> Subject {
        Subject::node(package_run.node, Some(&package_run.skyhook)).package(&package_run.package)
    }

    /// A node, with regard to a custom resource that may no longer exist.
    pub fn node(node: &str, skyhook: Option<&str>) -> Subject {
        Subject {
            kind: "Node".to_owned(),
            name: node.to_owned(),
            node: Some(node.to_owned()),
            skyhook: skyhook.map(str::to_owned),
            ..Subject::default()
        }
    }

    pub fn package(self, package: &str) -> Subject {
        Subject { package: Some(package.to_owned()), ..self }
    }
}
