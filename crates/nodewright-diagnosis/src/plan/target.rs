//! The object that a step changes, and its URL path.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::api::name::is_object_name;
use crate::api::{ApiFlavor, Meta, Skyhook};
use crate::cluster::Node;

/// A reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The namespace; absent for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_name")]
    pub namespace: Option<String>,
    /// The name.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The uid, which excludes a later object with the same name; absent if any object with the name is
    /// meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A kind of object that plans change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    Node,
    Skyhook,
    NodeWright,
    /// A deployment policy of the older API.
    SkyhookPolicy,
    /// A deployment policy of the newer API.
    NodeWrightPolicy,
    Pod,
    Job,
    ConfigMap,
}

impl Target {
    /// Whether both have the same kind, namespace and name; the uid may differ.
    pub fn same_object_name(&self, other: &Target) -> bool {
        (self.kind, &self.namespace, &self.name) == (other.kind, &other.namespace, &other.name)
    }

    pub fn node(name: &str, uid: Option<&str>) -> Target {
        Target { kind: Kind::Node, namespace: None, name: name.to_owned(), uid: uid.map(str::to_owned) }
    }

    /// The target for an existing node, with its uid.
    pub fn of_node(node: &Node) -> Target {
        Target::node(&node.name, node.uid.as_deref())
    }

    /// The target for an existing custom resource, with its uid.
    pub fn of_skyhook(flavor: ApiFlavor, skyhook: &Skyhook) -> Target {
        Target::skyhook(flavor, skyhook.name(), skyhook.metadata.uid.as_deref())
    }

    /// The name, after the namespace if there is one: `gpu-1`, `skyhook/driver-apply`.
    pub fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The target for an existing object, with its namespace and uid.
    pub fn of(kind: Kind, metadata: &Meta) -> Target {
        Target {
            kind,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
        }
    }

    pub fn skyhook(flavor: ApiFlavor, name: &str, uid: Option<&str>) -> Target {
        Target { kind: flavor.into(), ..Target::node(name, uid) }
    }

    pub fn policy(flavor: ApiFlavor, name: &str, uid: Option<&str>) -> Target {
        Target { kind: Kind::policy(flavor), ..Target::node(name, uid) }
    }

    pub fn inside(kind: Kind, namespace: &str, name: &str, uid: Option<&str>) -> Target {
        Target { kind, namespace: Some(namespace.to_owned()), ..Target::node(name, uid) }
    }

    /// Whether name and namespace are valid object names: invalid names could lead a request to another path.
    pub fn is_well_named(&self) -> bool {
        let namespace = self.namespace.as_deref();
        is_object_name(&self.name) && namespace.is_none_or(is_object_name)
    }

    /// The URL path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    /// The URL path of the collection that the object is in.
    pub fn collection(&self) -> String {
        let (group, version, plural) = self.kind.resource();
        let root = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match &self.namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

impl Kind {
    /// The deployment policies of an API.
    pub fn policy(flavor: ApiFlavor) -> Kind {
        match flavor {
            ApiFlavor::Skyhook => Kind::SkyhookPolicy,
            ApiFlavor::NodeWright => Kind::NodeWrightPolicy,
        }
    }

    /// Group, version and plural.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        let custom = |flavor: ApiFlavor| (flavor.group(), ApiFlavor::VERSION, flavor.plural());
        let policy = |flavor: ApiFlavor| (flavor.group(), ApiFlavor::VERSION, "deploymentpolicies");
        match self {
            Kind::Node => ("", "v1", "nodes"),
            Kind::Pod => ("", "v1", "pods"),
            Kind::Job => ("batch", "v1", "jobs"),
            Kind::ConfigMap => ("", "v1", "configmaps"),
            Kind::Skyhook => custom(ApiFlavor::Skyhook),
            Kind::NodeWright => custom(ApiFlavor::NodeWright),
            Kind::SkyhookPolicy => policy(ApiFlavor::Skyhook),
            Kind::NodeWrightPolicy => policy(ApiFlavor::NodeWright),
        }
    }

    /// The name of the CustomResourceDefinition.
    pub fn definition(self) -> String {
        let (group, _, plural) = self.resource();
        format!("{plural}.{group}")
    }

    /// The `kind` that the server writes into such an object.
    pub fn kind(self) -> &'static str {
        match self {
            Kind::Node => "Node",
            Kind::Pod => "Pod",
            Kind::Job => "Job",
            Kind::ConfigMap => "ConfigMap",
            Kind::Skyhook => ApiFlavor::Skyhook.kind(),
            Kind::NodeWright => ApiFlavor::NodeWright.kind(),
            Kind::SkyhookPolicy | Kind::NodeWrightPolicy => "DeploymentPolicy",
        }
    }

    /// Whether an object of the kind can be recreated. Owners recreate pods and jobs themselves, and the
    /// kubelet registers nodes.
    pub fn undo_recreates(self) -> bool {
        !matches!(self, Kind::Node | Kind::Pod | Kind::Job)
    }

    /// Whether this is the main custom resource of either API.
    pub fn is_skyhook(self) -> bool {
        matches!(self, Kind::Skyhook | Kind::NodeWright)
    }

    /// Whether this is one of the operator's custom resources.
    pub fn is_custom(self) -> bool {
        !matches!(self, Kind::Node | Kind::Pod | Kind::Job | Kind::ConfigMap)
    }

    /// The kind in a reference, as kubectl writes it: `node`, `deploymentpolicy`.
    pub fn word(self) -> String {
        self.kind().to_lowercase()
    }
}

impl From<ApiFlavor> for Kind {
    fn from(flavor: ApiFlavor) -> Kind {
        match flavor {
            ApiFlavor::Skyhook => Kind::Skyhook,
            ApiFlavor::NodeWright => Kind::NodeWright,
        }
    }
}

/// Formats kind, namespace and name: `node/gpu-1`, `pod/skyhook/driver-apply`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.word(), self.place())
    }
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if is_object_name(&name) {
        Ok(name)
    } else {
        Err(de::Error::custom(format!("{name:?} is not a valid object name")))
    }
}

fn some_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    name(deserializer).map(Some)
}
