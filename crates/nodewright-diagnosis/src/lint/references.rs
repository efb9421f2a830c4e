//! Secrets and ConfigMaps to which environment variables of packages refer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::Input;
use super::manifest::{Documents, Manifest};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    Secret,
    ConfigMap,
}

impl ReferenceKind {
    const ALL: [ReferenceKind; 2] = [ReferenceKind::Secret, ReferenceKind::ConfigMap];

    /// The field of `valueFrom` for this kind.
    fn field(self) -> &'static str {
        match self {
            ReferenceKind::Secret => "secretKeyRef",
            ReferenceKind::ConfigMap => "configMapKeyRef",
        }
    }
}

impl fmt::Display for ReferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ReferenceKind::Secret => "Secret",
            ReferenceKind::ConfigMap => "ConfigMap",
        })
    }
}

/// A required reference of an environment variable to a key of a Secret or ConfigMap.
#[derive(Debug)]
pub struct Reference<'m> {
    pub kind: ReferenceKind,
    pub name: &'m str,
    pub key: &'m str,
    pub package: &'m str,
    /// The variable's index in `env`.
    pub index: usize,
}

impl Reference<'_> {
    /// Path of the field with the object's name.
    pub fn path(&self) -> Vec<String> {
        let index = self.index.to_string();
        let path = ["spec", "packages", self.package, "env", &index];
        let below = ["valueFrom", self.kind.field(), "name"];
        path.into_iter().chain(below).map(str::to_owned).collect()
    }
}

/// Whether an object exists in the operator's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existence {
    Absent,
    /// The object exists; with its keys, if they were read.
    Present(Option<Vec<String>>),
}

/// Results of looking up referenced objects. Objects that are not in `known` are unknown.
#[derive(Debug, Clone, Default)]
pub struct References {
    /// The namespace of the package pods.
    pub namespace: String,
    pub known: BTreeMap<(ReferenceKind, String), Existence>,
}

impl Manifest {
    /// The required references of all packages.
    pub(super) fn references(&self) -> Vec<Reference<'_>> {
        let packages = self.skyhook().into_iter().flat_map(|s| s.packages());
        let variables = packages.flat_map(|(package, _)| {
            let env = self.get(&["spec", "packages", package, "env"]);
            let env = env.and_then(Value::as_array).into_iter().flatten();
            env.enumerate().map(move |(index, variable)| (package, index, variable))
        });
        let references = variables.flat_map(|(package, index, variable)| {
            ReferenceKind::ALL.into_iter().filter_map(move |kind| {
                let source = &variable["valueFrom"][kind.field()];
                let name = source["name"].as_str().filter(|name| !name.is_empty())?;
                (source["optional"] != true).then(|| Reference {
                    kind,
                    name,
                    key: source["key"].as_str().unwrap_or_default(),
                    package,
                    index,
                })
            })
        });
        references.collect()
    }
}

impl Documents {
    /// Kinds and names of the objects that packages require.
    pub fn referenced(&self) -> BTreeSet<(ReferenceKind, String)> {
        let references = self.manifests.iter().flat_map(Manifest::references);
        references.map(|r| (r.kind, r.name.to_owned())).collect()
    }
}

impl Input<'_> {
    /// Whether a reference is satisfied after the manifests are applied; `None` if it is unknown.
    pub(super) fn existence(&self, reference: &Reference<'_>) -> Option<Existence> {
        // A SealedSecret or an ExternalSecret becomes a Secret of the same name.
        let kind = reference.kind.to_string();
        let mut others = self.others();
        if others.any(|m| m.kind.ends_with(&kind) && m.name == reference.name) {
            return Some(Existence::Present(None));
        }
        let key = (reference.kind, reference.name.to_owned());
        self.references.known.get(&key).cloned()
    }
}
