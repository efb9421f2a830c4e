//! The operator's two API groups as data, and the keys under the prefix of each on a node.

use std::fmt;

use super::name::{is_object_name, is_word};

/// The meaning of a node key under the operator's prefix.
///
/// `skyhook` is the name of the custom resource that the key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKey<'a> {
    /// The state machine: one map per custom resource, or one key per package (upstream #448).
    NodeState { skyhook: &'a str, package: Option<&'a str> },
    /// Status of the custom resource on the node; an annotation and a label with the same key.
    Status(&'a str),
    /// Record that the custom resource cordoned the node.
    Cordon(&'a str),
    /// Operator version that first processed the node, or that last migrated it.
    Version(&'a str),
    /// Start of the drain for an interrupt (RFC 3339).
    DrainStart(&'a str),
    /// Reason why the drain does not finish.
    DrainBlocked(&'a str),
    /// Record that the operator put a runtime-required taint with this key on the node.
    AutoTaint(&'a str),
    /// Record that the node stays cordoned until someone other than the operator uncordons it.
    RuntimeRequiredCordon,
    /// A label by which a user excludes the node from the operator's work.
    Ignore,
    /// A condition of the node, `<prefix>/<skyhook>/NotReady` or `/Erroring`.
    Condition { skyhook: &'a str, kind: &'a str },
    /// Any other key under the prefix, or a key that contains an invalid name.
    Unknown,
}

impl<'a> NodeKey<'a> {
    /// Parses a key of either API; `None` if it has the operator's prefix of neither.
    pub fn of_any(key: &'a str) -> Option<NodeKey<'a>> {
        ApiFlavor::ALL.into_iter().find_map(|flavor| NodeKey::parse(flavor, key))
    }

    /// Whether a key has the operator's prefix of either API. Such keys are no properties of the node.
    pub fn is_ours(key: &str) -> bool {
        NodeKey::of_any(key).is_some()
    }

    /// The custom resource that a key of either API belongs to.
    pub fn resource(key: &str) -> Option<&str> {
        NodeKey::of_any(key)?.skyhook()
    }

    /// Whether the key belongs to a node state annotation of either API.
    pub fn holds_node_state(key: &str) -> bool {
        matches!(NodeKey::of_any(key), Some(NodeKey::NodeState { .. }))
    }

    /// Parses a key; `None` if it lacks this API's prefix. A key with an invalid name of a custom resource or
    /// package is [`NodeKey::Unknown`].
    ///
    /// Names of custom resources and packages contain neither `_` nor `/`, so the first separator ends a
    /// name.
    pub fn parse(flavor: ApiFlavor, key: &'a str) -> Option<NodeKey<'a>> {
        let suffix = key.strip_prefix(flavor.group())?.strip_prefix('/')?;
        let key = NodeKey::of_suffix(suffix);
        Some(if key.is_well_named() { key } else { NodeKey::Unknown })
    }

    /// The custom resource that the key belongs to.
    pub fn skyhook(&self) -> Option<&'a str> {
        match *self {
            NodeKey::NodeState { skyhook, .. }
            | NodeKey::Status(skyhook)
            | NodeKey::Cordon(skyhook)
            | NodeKey::Version(skyhook)
            | NodeKey::DrainStart(skyhook)
            | NodeKey::DrainBlocked(skyhook)
            | NodeKey::Condition { skyhook, .. } => Some(skyhook),
            _ => None,
        }
    }

    fn of_suffix(suffix: &'a str) -> NodeKey<'a> {
        if let Some((skyhook, kind)) = suffix.split_once('/') {
            return NodeKey::Condition { skyhook, kind };
        }
        match suffix.split_once('_') {
            Some(("nodeState", rest)) => match rest.split_once('_') {
                Some((skyhook, package)) => NodeKey::NodeState { skyhook, package: Some(package) },
                None => NodeKey::NodeState { skyhook: rest, package: None },
            },
            Some(("status", skyhook)) => NodeKey::Status(skyhook),
            Some(("cordon", skyhook)) => NodeKey::Cordon(skyhook),
            Some(("version", skyhook)) => NodeKey::Version(skyhook),
            Some(("drainStart", skyhook)) => NodeKey::DrainStart(skyhook),
            Some(("drainBlocked", skyhook)) => NodeKey::DrainBlocked(skyhook),
            Some(("autoTaint", taint)) => NodeKey::AutoTaint(taint),
            _ if suffix == "runtimeRequiredCordon" => NodeKey::RuntimeRequiredCordon,
            _ if suffix == "ignore" => NodeKey::Ignore,
            _ => NodeKey::Unknown,
        }
    }

    /// Whether the key's custom resource has a valid object name, and the name of its package cannot be
    /// mistaken for a flag.
    fn is_well_named(&self) -> bool {
        let named = self.skyhook().is_none_or(is_object_name);
        match *self {
            NodeKey::NodeState { package, .. } => named && package.is_none_or(is_word),
            _ => named,
        }
    }
}

/// Key of the node annotation with the state machine of a custom resource.
pub fn node_state(flavor: ApiFlavor, skyhook: &str) -> String {
    flavor.key(&format!("nodeState_{skyhook}"))
}

/// Key of the node annotation and label with the status of a custom resource.
pub fn status(flavor: ApiFlavor, skyhook: &str) -> String {
    flavor.key(&format!("status_{skyhook}"))
}

/// Key of the node annotation that marks the cordon of a custom resource.
pub fn cordon(flavor: ApiFlavor, skyhook: &str) -> String {
    flavor.key(&format!("cordon_{skyhook}"))
}

/// A semantic version, with or without a leading `v`.
///
/// A pre-release orders before its release; build metadata is ignored.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

impl Version {
    /// Parses `v0.18.0`, `0.18.0` or `0.18.0-rc1`; `None` if it is not a version.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim();
        let mut version = semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()?;
        version.build = semver::BuildMetadata::EMPTY;
        Some(Version(version))
    }

    /// Whether this version is at least `major.minor`. Pre-releases of `major.minor` count as well.
    ///
    /// A release candidate behaves like its release.
    pub fn at_least(&self, major: u64, minor: u64) -> bool {
        (self.0.major, self.0.minor) >= (major, minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A semantic version as Go reads it: one to three numbers with an optional leading `v`. Only three numbers
/// may have a pre-release or build metadata.
pub fn is_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let number =
        |n: &str| n.bytes().all(|b| b.is_ascii_digit()) && !n.is_empty() && (n == "0" || !n.starts_with('0'));
    let numbers: Vec<&str> = text.split('.').collect();
    match numbers.len() {
        1 | 2 => numbers.into_iter().all(number),
        _ => semver::Version::parse(text).is_ok(),
    }
}

/// A version as Go compares it: missing numbers are 0, build metadata is ignored.
pub fn go_version(text: &str) -> Option<semver::Version> {
    if !is_version(text) {
        return None;
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let missing = 2_usize.saturating_sub(text.matches('.').count());
    let full = match semver::Version::parse(text) {
        Ok(version) => version,
        Err(_) => semver::Version::parse(&(text.to_owned() + &".0".repeat(missing))).ok()?,
    };
    Some(semver::Version { build: semver::BuildMetadata::EMPTY, ..full })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_told_apart() {
        let parse = |suffix: &str| {
            let key = ApiFlavor::Skyhook.key(suffix);
            format!("{:?}", NodeKey::parse(ApiFlavor::Skyhook, &key))
        };
        for (suffix, expected) in [
            ("nodeState_gpu", r#"Some(NodeState { skyhook: "gpu", package: None })"#),
            ("nodeState_gpu_driver", r#"Some(NodeState { skyhook: "gpu", package: Some("driver") })"#),
            ("status_gpu", r#"Some(Status("gpu"))"#),
            ("cordon_gpu", r#"Some(Cordon("gpu"))"#),
            ("autoTaint_example.com", r#"Some(AutoTaint("example.com"))"#),
            ("runtimeRequiredCordon", "Some(RuntimeRequiredCordon)"),
            ("ignore", "Some(Ignore)"),
            ("gpu/NotReady", r#"Some(Condition { skyhook: "gpu", kind: "NotReady" })"#),
            ("novel", "Some(Unknown)"),
            ("cordon_--insecure-skip-tls-verify", "Some(Unknown)"),
            ("nodeState_gpu_--all", "Some(Unknown)"),
            ("status_", "Some(Unknown)"),
            ("-o/NotReady", "Some(Unknown)"),
        ] {
            assert_eq!(parse(suffix), expected, "{suffix}");
        }
        let other = ApiFlavor::NodeWright.key("status_gpu");
        assert_eq!(NodeKey::parse(ApiFlavor::Skyhook, &other), None);
    }

    #[test]
    fn orders_by_numbers_and_puts_pre_releases_first() {
        let parse = |t| Version::parse(t).expect(t);
        assert!(parse("v0.9.0") < parse("0.18.0"));
        assert!(parse("v0.18.0-rc1") < parse("v0.18.0"));
        assert!(parse("v0.18.0-rc.9") < parse("v0.18.0-rc.10"));
        assert!(parse("v0.18.0-rc1").at_least(0, 18));
        assert!(!parse("v0.17.9").at_least(0, 18));
        assert_eq!(parse("1.2.3+build"), parse("v1.2.3"));
    }

    #[test]
    fn refuses_what_is_not_a_version() {
        for text in ["", "latest", "1.2", "1.2.3.4", "5000/skyhook-operator", "v1.x.0"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
