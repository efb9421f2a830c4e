//! The operator's two API groups, as data.

use std::fmt;

/// The API that an operator works with.
///
/// Operators up to v0.17 have `Skyhook` objects and run bare Pods. From v0.18 on the custom resource is
/// called `NodeWright`, is in another API group, and packages run in Jobs. Group, kind, finalizer and key
/// prefix derive from the API, so no other file spells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiFlavor {
    /// Operators up to v0.17: `Skyhook`, raw Pods
    Skyhook,
    /// Operators from v0.18 on: `NodeWright`, Jobs
    NodeWright,
}

/// The kind of workload that runs one stage of one package on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// A bare Pod that restarts in place until it succeeds.
    Pod,
    /// A `batch/v1` Job with a limited number of attempts, or a deadline.
    Job,
}

impl ApiFlavor {
    /// Both APIs, older first.
    pub const ALL: [ApiFlavor; 2] = [ApiFlavor::Skyhook, ApiFlavor::NodeWright];
    /// The API version of both groups.
    pub const VERSION: &'static str = "v1alpha1";

    /// The API group, which is also the prefix of every annotation, label and condition key.
    pub const fn group(self) -> &'static str {
        match self {
            ApiFlavor::Skyhook => "skyhook.nvidia.com",
            ApiFlavor::NodeWright => "nodewright.nvidia.com",
        }
    }

    /// `group/version`, as in an object's `apiVersion`.
    pub fn api_version(self) -> String {
        format!("{}/{}", self.group(), Self::VERSION)
    }

    /// The kind of the main custom resource.
    pub fn kind(self) -> &'static str {
        match self {
            ApiFlavor::Skyhook => "Skyhook",
            ApiFlavor::NodeWright => "NodeWright",
        }
    }

    /// The plural of the main custom resource, as in a URL.
    pub const fn plural(self) -> &'static str {
        match self {
            ApiFlavor::Skyhook => "skyhooks",
            ApiFlavor::NodeWright => "nodewrights",
        }
    }

    /// The name in lower case: `skyhook` or `nodewright`.
    pub fn name(self) -> &'static str {
        match self {
            ApiFlavor::Skyhook => "skyhook",
            ApiFlavor::NodeWright => "nodewright",
        }
    }

    /// `plural.group`, which `kubectl` resolves unambiguously.
    pub fn resource(self) -> String {
        format!("{}.{}", self.plural(), self.group())
    }

    /// The finalizer that the operator puts on its custom resources.
    pub fn finalizer(self) -> String {
        format!("{}/{}", self.group(), self.name())
    }

    /// A key under this API's prefix.
    pub fn key(self, suffix: &str) -> String {
        format!("{}/{suffix}", self.group())
    }

    /// The namespace that the chart of this API installs into.
    pub fn default_namespace(self) -> &'static str {
        self.name()
    }

    /// The key of the default runtime-required taint.
    pub fn taint_key(self) -> &'static str {
        self.group()
    }

    /// The kind of workload that runs package stages.
    pub fn executor(self) -> Executor {
        match self {
            ApiFlavor::Skyhook => Executor::Pod,
            ApiFlavor::NodeWright => Executor::Job,
        }
    }

    /// The API with this group.
    pub fn of_group(group: &str) -> Option<ApiFlavor> {
        Self::ALL.into_iter().find(|flavor| flavor.group() == group)
    }

    /// The other API.
    pub fn other(self) -> ApiFlavor {
        match self {
            ApiFlavor::Skyhook => ApiFlavor::NodeWright,
            ApiFlavor::NodeWright => ApiFlavor::Skyhook,
        }
    }
}

impl fmt::Display for ApiFlavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
