//! `--for v0.21`: what breaks when the operator drops the older API group. Pure.

use super::outcome::{Check, Expectation};
use crate::api::ApiFlavor;
use crate::cluster::{Cluster, Read, Source};
use crate::lint::legacy::legacy_keys;
use crate::view::{NodeSet, list, plural, some_of};

/// Maximum number of names in a message.
const LISTED: usize = 5;

/// The checks, in the order in which their problems should be fixed.
pub fn ready(cluster: &Cluster) -> Vec<Check> {
    vec![
        operator(cluster),
        objects(cluster),
        taints(cluster),
        keys(cluster),
        workloads(),
        metrics(),
        manifests(),
    ]
}

fn expected(title: &'static str) -> Expectation {
    Expectation("ready for v0.21", title)
}

fn old() -> ApiFlavor {
    ApiFlavor::Skyhook
}

fn operator(cluster: &Cluster) -> Check {
    let expected = expected("the operator uses the newer API");
    let Some(version) = &cluster.active_api.operator_version else {
        return expected.not_checked("the version of the operator is unknown");
    };
    if version.at_least(0, 18) {
        return expected.good(format!("operator {version}"));
    }
    expected
        .error(format!("operator {version} knows only {}", old().group()))
        .hint("upgrade to v0.18, v0.19 or v0.20 first, and let the migration finish")
}

/// The check result if a source was not read: this is no proof of absence. `None` if it was read.
fn unread(cluster: &Cluster, expected: Expectation, source: Source) -> Option<Check> {
    match cluster.source(source) {
        Read::Ok(_) => None,
        Read::Incomplete(_, why) | Read::Unreadable(why) => Some(expected.unread(&why)),
        Read::NotRequested => Some(expected.not_asked(cluster)),
    }
}

fn objects(cluster: &Cluster) -> Check {
    let expected = expected("no objects of the older API remain");
    let (skyhooks, source) = if cluster.flavor() == old() {
        (cluster.skyhooks.items(), Source::Skyhooks)
    } else {
        (cluster.legacy.items(), Source::Legacy)
    };
    let names: Vec<String> = skyhooks.iter().map(|s| s.name().to_owned()).collect();
    if names.is_empty() {
        let missing = unread(cluster, expected, source);
        return missing.unwrap_or_else(|| expected.good("none found"));
    }
    let objects = plural(names.len(), &format!("{} object", old().kind()));
    let message = format!("{objects}: {}", some_of(&names, LISTED));
    let hint = if cluster.flavor() == old() {
        "operators from v0.18 to v0.20 migrate these objects; v0.21 does not"
    } else {
        "once `kubectl skyhook status` shows their NodeWright objects as complete, remove the older objects from Git and \
         Helm values, then delete the older objects"
    };
    expected.error(message).hint(hint)
}

fn taints(cluster: &Cluster) -> Check {
    let expected = expected("no node has the older taint key");
    let key = old().taint_key();
    let configured = cluster.configured_taint();
    if configured.is_some_and(|(configured, _)| configured == key) {
        return expected.good(format!("the operator is configured with the key {key}"));
    }
    let nodes = cluster.nodes.items().iter();
    let tainted = nodes.filter(|node| node.taints().iter().any(|taint| taint.key == key));
    let tainted: Vec<&str> = tainted.map(|node| node.name.as_str()).collect();
    if tainted.is_empty() {
        // If the operator was not read, its configured key is unknown and may be the older key.
        let missing =
            unread(cluster, expected, Source::Nodes).or_else(|| unread(cluster, expected, Source::Operator));
        return missing.unwrap_or_else(|| {
            expected.good(format!("0 of {} have the key", plural(cluster.nodes.items().len(), "node")))
        });
    }
    let set = NodeSet::of(&tainted).limited(LISTED);
    let message = format!("{key} on {} ({set})", plural(tainted.len(), "node"));
    let newer = old().other().taint_key();
    expected.error(message).hint(format!(
        "v0.21 neither tolerates nor removes this taint: configure node provisioners to set {newer} instead, and replace \
         the older taint on nodes with unfinished packages"
    ))
}

fn keys(cluster: &Cluster) -> Check {
    let expected = expected("custom resources use no keys of the older API group");
    if cluster.flavor() == old() {
        return expected.not_checked("the older API is still the active one");
    }
    let mut found = Vec::new();
    for skyhook in cluster.skyhooks.items() {
        let paths = legacy_keys(&skyhook.whole);
        // Annotations that record the origin of a migrated object have no effect.
        let used = |path: &&Vec<String>| {
            path[0] == "spec"
                || path.last().is_some_and(|key| key.ends_with("/pause") || key.ends_with("/disable"))
        };
        let paths: Vec<String> = paths.iter().filter(used).map(|path| path.join(".")).collect();
        found.extend(paths.iter().map(|path| format!("{} {path}", skyhook.name())));
    }
    if found.is_empty() {
        let missing = unread(cluster, expected, Source::Skyhooks);
        return missing.unwrap_or_else(|| expected.good("none in selectors, tolerations or annotations"));
    }
    let newer = old().other().group();
    expected.error(some_of(&found, LISTED)).hint(format!(
        "write these keys with the prefix {newer}; label the nodes before you change a selector"
    ))
}

/// Always "not checked": selectors and tolerations of workload pods are not loaded.
fn workloads() -> Check {
    expected("workloads use no keys of the older API group")
        .not_checked("selectors, affinities and tolerations of workloads are not read")
        .hint(format!("search workloads in Git and in the cluster for {}", old().group()))
}

/// Always "not checked": monitoring objects and dashboards are not loaded.
fn metrics() -> Check {
    expected("no dashboard or alert uses the older metrics")
        .not_checked("ServiceMonitors, PrometheusRules and dashboards are not read")
        .hint("search dashboards and rules for skyhook_ and skyhook_name; the newer metrics are nodewright_* with nodewright_name")
}

fn manifests() -> Check {
    let rules = list(&["SKY861", "SKY870"]);
    expected("manifests in Git use the newer API").not_checked("manifests are not read").hint(format!(
        "to find manifests of the older API ({rules}): kubectl skyhook lint --offline \
         --operator-version v0.20.0 -f FILE"
    ))
}
