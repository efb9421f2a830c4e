//! `--for v0.18`: rollouts to finish first; `--for v0.21`: what breaks when the operator drops the older API group; `--for v0.15`: objects to remove before a
//! rollback to an operator without uninstall settings. Pure.

use std::collections::BTreeSet;

use super::{Check, Expectation, Question};
use crate::api::{ApiFlavor, Version};
use crate::cluster::{Cluster, NodeRecord, Source};
use crate::commands::shared::command::{CommandInfo, Write};
use crate::commands::shared::rights::plan_of;
use crate::ctx::PermissionCheck;
use crate::lint::schema::{legacy_keys, newer_fields};
use crate::plan::{Kind, Permission, Plan};
use crate::view::{NodeSet, list, plural, shell_words, some_of};

/// The area of the checks that concern the migration of the custom resources.
const MIGRATION: &str = "migration to NodeWright";

/// Maximum number of names in a message.
const LISTED: usize = 5;

/// The checks, in the order in which their problems should be fixed.
pub fn checks(cluster: &Cluster) -> Vec<Check> {
    vec![
        unfinished(cluster),
        operator(cluster),
        objects(cluster),
        policies(cluster),
        taints(cluster),
        keys(cluster),
        node_keys(cluster),
        pods(cluster),
    ]
}

/// The checks before an upgrade to an operator that migrates the custom resources: `v0.18`, `v0.19` or `v0.20`.
pub fn migration_checks(cluster: &Cluster, version: &str) -> Vec<Check> {
    let minor: Option<u64> = version.strip_prefix("v0.").and_then(|minor| minor.parse().ok());
    let minor = minor.expect("clap accepts only these versions");
    let expected = Expectation(MIGRATION, "the operator is not newer");
    let age = match &cluster.active_api.operator_version {
        None => expected.not_checked("the version of the operator is unknown"),
        Some(running) if running.at_least(0, minor + 1) => {
            expected.warning(format!("operator {running} is newer: {version} would be a downgrade"))
        }
        Some(running) => expected.good(format!("operator {running}")),
    };
    vec![age, unfinished(cluster)]
}

/// The questions about objects that are not read.
pub fn questions() -> Vec<Question> {
    vec![
        Question {
            question: "Does a workload use keys of the older API group in selectors, affinities or tolerations?",
            hint: format!("search workloads in Git and in the cluster for {}", old().group()),
        },
        Question {
            question: "Does a dashboard or alert use the metrics skyhook_* or the label skyhook_name?",
            hint: "PUBLISH_LEGACY_METRICS=false on the operator shows what breaks without them; the newer ones are \
                   nodewright_* with nodewright_name"
                .to_owned(),
        },
        Question {
            question: "Does a manifest in Git use the older API (SKY861, SKY870)?",
            hint: "kubectl skyhook lint --offline --operator-version v0.20.0 -f FILE".to_owned(),
        },
    ]
}

fn expected(title: &'static str) -> Expectation {
    Expectation("before v0.21", title)
}

fn old() -> ApiFlavor {
    ApiFlavor::Skyhook
}

/// Rollouts that would stop the operators from v0.18 to v0.20, which migrate the custom resources.
fn unfinished(cluster: &Cluster) -> Check {
    let expected = Expectation(MIGRATION, "no rollout of the older API is unfinished");
    let migrated = cluster.flavor() != old();
    let holding = cluster.migration().holding().chain(cluster.migration().would_hold());
    let names: Vec<String> = holding.map(|skyhook| skyhook.name().to_owned()).collect();
    if names.is_empty() && migrated && !cluster.active_api.migrating() {
        return expected.good("the newer API is in use");
    }
    if names.is_empty() {
        let source = if migrated { Source::Legacy } else { Source::Skyhooks };
        return none(cluster, expected, &[source], "none found");
    }
    let message = format!(
        "{}: {}; operators from v0.18 to v0.20 do nothing for any NodeWright until they are finished (SKY601)",
        plural(names.len(), "unfinished custom resource"),
        some_of(&names, LISTED)
    );
    expected.error(message).hint(if migrated {
        "kubectl skyhook explain SKY601"
    } else {
        "before the upgrade, let them finish, or pause or disable them"
    })
}

fn operator(cluster: &Cluster) -> Check {
    let expected = expected("the operator uses the NodeWright API");
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

/// The result of a check that found nothing. Good only if these sources were read: an unread one is no proof of absence.
fn none(cluster: &Cluster, expected: Expectation, sources: &[Source], message: impl Into<String>) -> Check {
    let unread = |source: &Source| expected.read(cluster, &cluster.source(*source)).err();
    sources.iter().find_map(unread).unwrap_or_else(|| expected.good(message))
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
        return none(cluster, expected, &[source], "none found");
    }
    let objects = plural(names.len(), &format!("{} object", old().kind()));
    let message = format!("{objects}: {}", some_of(&names, LISTED));
    let hint = if cluster.flavor() == old() {
        "operators from v0.18 to v0.20 migrate these objects; v0.21 does not"
    } else {
        "once `kubectl skyhook status` shows their NodeWright objects as complete, remove the older objects from Git and \
         Helm values, then delete the older objects while the operator runs: it removes their finalizers"
    };
    expected.error(message).hint(hint)
}

fn policies(cluster: &Cluster) -> Check {
    let expected = expected("no deployment policies of the older API remain");
    let policies = if cluster.flavor() == old() { &cluster.policies } else { &cluster.legacy_policies };
    let names: Vec<String> = policies.iter().map(|policy| policy.metadata.name.clone()).collect();
    if names.is_empty() {
        // Without custom resources of the older API, the input need not contain its policies.
        if !policies.was_asked() && !cluster.has(Source::Legacy) {
            return expected.good("none found");
        }
        return expected.good_if_read(cluster, policies, "none found");
    }
    let message = format!("{} ({})", plural(names.len(), "DeploymentPolicy object"), some_of(&names, LISTED));
    if cluster.flavor() == old() {
        return expected
            .error(message)
            .hint("operators from v0.18 to v0.20 migrate these objects; v0.21 does not");
    }
    expected.error(format!("{message}, so their CustomResourceDefinition cannot be removed")).hint(format!(
        "delete the older custom resources first, then these policies, while the operator runs: kubectl delete \
         deploymentpolicies.{} {}",
        old().group(),
        names.join(" ")
    ))
}

fn taints(cluster: &Cluster) -> Check {
    let expected = expected("no node has the older taint key");
    let key = old().taint_key();
    let configured = cluster.runtime_required().configured();
    if configured.is_some_and(|(configured, _)| configured == key) {
        return expected.good(format!("the operator is configured with the key {key}"));
    }
    let nodes = cluster.nodes.iter();
    let tainted: Vec<&str> = nodes
        .filter(|node| node.taints().iter().any(|taint| taint.key == key))
        .map(|node| node.name.as_str())
        .collect();
    if tainted.is_empty() {
        // If the operator was not read, its configured key is unknown and may be the older key.
        let message = format!("0 of {} have the key", plural(cluster.nodes.items().len(), "node"));
        return none(cluster, expected, &[Source::Nodes, Source::Operator], message);
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
        return expected.not_checked("the older API is still active");
    }
    let mut found = Vec::new();
    for skyhook in &cluster.skyhooks {
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
        return none(cluster, expected, &[Source::Skyhooks], "none in selectors, tolerations or annotations");
    }
    let newer = old().other().group();
    expected.error(some_of(&found, LISTED)).hint(format!(
        "write these keys with the prefix {newer}; label the nodes before you change a selector"
    ))
}

/// Keys of the older API on nodes. They count again after a rollback, and the operator removes them only on nodes that it
/// selects.
fn node_keys(cluster: &Cluster) -> Check {
    let expected = expected("nodes have no keys of the older API");
    if cluster.flavor() == old() {
        return expected.not_checked("the older API is still active");
    }
    let nodes = cluster.nodes.items();
    let keyed = nodes.iter().filter(|node| {
        let keys = node.keys(old());
        keys.skyhooks.values().any(NodeRecord::has_keys)
            || !keys.auto_taints.is_empty()
            || node.ignored(old())
    });
    let keyed: Vec<&str> = keyed.map(|node| node.name.as_str()).collect();
    if keyed.is_empty() {
        let message = format!("none on {}", plural(nodes.len(), "node"));
        return none(cluster, expected, &[Source::Nodes], message);
    }
    let set = NodeSet::of(&keyed).limited(LISTED);
    let message =
        format!("annotations or labels of {} on {} ({set})", old().group(), plural(keyed.len(), "node"));
    expected.warning(message).hint(
        "once no rollback is planned: kubectl skyhook leftovers --clean; the operator removes the keys of selected nodes \
         after LEGACY_CLEANUP_DELAY",
    )
}

/// Package pods of the older operator, which no operator removes after the upgrade.
fn pods(cluster: &Cluster) -> Check {
    let expected = expected("no pods of the older operator remain");
    if cluster.flavor() == old() {
        return expected.not_checked("the older API is still active");
    }
    let label = old().key("name");
    let names: Vec<String> = cluster
        .pods
        .iter()
        .filter(|pod| pod.metadata.labels.contains_key(&label))
        .map(|pod| format!("{}/{}", pod.metadata.namespace.as_deref().unwrap_or_default(), pod.name()))
        .collect();
    if names.is_empty() {
        return none(cluster, expected, &[Source::Pods], "none found");
    }
    let message =
        format!("{} with the label {label}: {}", plural(names.len(), "pod"), some_of(&names, LISTED));
    expected.warning(message).hint("wait until they have ended, then delete them with kubectl delete pod")
}

/// Maximum number of commands that a message names.
const MAX_LISTED_COMMANDS: usize = 3;

/// A plan with every kind of change that commands make, on this cluster.
pub fn every_change(cluster: &Cluster) -> Plan {
    plan_for(cluster, Write::ALL)
}

/// A plan with these kinds of changes. Only served APIs are included, and namespaced objects only in the operator's
/// namespace, for which a role may suffice.
fn plan_for(cluster: &Cluster, writes: &[Write]) -> Plan {
    let mut plan = plan_of(writes);
    let served = &cluster.active_api.served;
    let namespace = cluster.operator().namespaces().first().map(|&namespace| namespace.to_owned());
    for stage in &mut plan.stages {
        stage.steps.retain(|step| {
            let group = step.target.kind.resource().0;
            ApiFlavor::of_group(group).is_none_or(|flavor| served.contains(&flavor))
        });
        for step in &mut stage.steps {
            if matches!(step.target.kind, Kind::Pod | Kind::Job | Kind::ConfigMap) {
                step.target.namespace = namespace.clone();
            }
        }
    }
    plan
}

/// The check of the user's permissions for these commands, from the results of access reviews.
pub fn changes(
    cluster: &Cluster,
    commands: &[&'static CommandInfo],
    answers: Option<&PermissionCheck>,
) -> Check {
    let expected = Expectation("rights", "permission to run the commands that change the cluster");
    let Some(answers) = answers else {
        return expected.not_checked("requires a cluster, not a capture");
    };
    let denied: BTreeSet<&Permission> = answers.denied.iter().collect();
    if denied.is_empty() {
        return match &answers.unknown {
            Some(why) => expected.not_checked(why),
            None => expected.good("all changes are allowed"),
        };
    }
    let lacking = |command: &&&CommandInfo| {
        plan_for(cluster, command.writes).permissions().iter().any(|p| denied.contains(p))
    };
    let lacking: Vec<&str> = commands.iter().filter(lacking).map(|command| command.words).collect();
    let missing: Vec<String> = denied.iter().map(ToString::to_string).collect();
    let (who, role) = if lacking.len() > MAX_LISTED_COMMANDS {
        (plural(lacking.len(), "command"), vec!["operator"])
    } else {
        (list(&lacking), lacking)
    };
    let mut argv = vec!["kubectl", "skyhook", "rbac"];
    argv.extend(role.into_iter().flat_map(|word| ["--for", word]));
    let message = format!("missing permission: {}, required by {who}", list(&missing));
    expected.warning(message).hint(shell_words(&argv))
}

/// The checks, in the order in which their problems should be fixed.
pub fn rollback_checks(cluster: &Cluster) -> Vec<Check> {
    vec![api(cluster), uninstalls(cluster), fields(cluster)]
}

/// Sources of the checks before a rollback.
const INPUT: [Source; 2] = [Source::Skyhooks, Source::Nodes];

fn before_rollback(title: &'static str) -> Expectation {
    Expectation("before a rollback to v0.15", title)
}

fn api(cluster: &Cluster) -> Check {
    let expected = before_rollback("the custom resources use the older API");
    let (older, newer) = (ApiFlavor::Skyhook, ApiFlavor::NodeWright);
    if cluster.flavor() == older {
        return expected.good(older.api_version());
    }
    expected.error(format!("the active API is {}, which v0.15 does not know", newer.api_version())).hint(
        "v0.15 works only on Skyhook objects and on node keys of their group; packages without such keys are installed \
         again",
    )
}

/// Uninstalls in progress: v0.15 does not know their stages.
fn uninstalls(cluster: &Cluster) -> Check {
    let expected = before_rollback("no uninstall is in progress");
    let found: Vec<String> = cluster
        .skyhooks
        .iter()
        .flat_map(|skyhook| cluster.placements(skyhook.name()))
        .filter(|placement| placement.phase.is_uninstall())
        .map(|p| format!("{} {} on {}", p.skyhook, p.package, p.node.name))
        .collect();
    if found.is_empty() {
        return none(cluster, expected, &INPUT, "no node is at stage uninstall");
    }
    let message = format!("{}: {}", plural(found.len(), "uninstall"), some_of(&found, LISTED));
    expected.error(message).hint(
        "wait until they have finished: kubectl skyhook uninstall NAME PACKAGE --wait; v0.15 rejects a status with the stage \
         uninstall-interrupt",
    )
}

fn fields(cluster: &Cluster) -> Check {
    let expected = before_rollback("no custom resource uses fields that v0.15 does not know");
    let version = Version::parse("v0.15.0").expect("a version");
    let fields = cluster.skyhooks.iter().flat_map(|skyhook| {
        let fields = newer_fields(&skyhook.whole, &version).into_iter();
        fields.map(|(path, _)| format!("{} {}", skyhook.name(), path.join(".")))
    });
    let found: Vec<String> = fields.collect();
    if found.is_empty() {
        return none(cluster, expected, &INPUT, "none found");
    }
    expected.error(some_of(&found, LISTED)).hint(
        "remove these fields, in Git first. v0.15 ignores uninstall settings: it installs packages that are uninstalled, and \
         uninstalls every package that leaves the spec",
    )
}

#[cfg(test)]
mod tests {
    use super::super::CheckResult;
    use super::*;
    use crate::cluster::{ClusterBuilder, Read, Sources};

    #[test]
    fn rights_that_could_not_be_asked_are_not_called_good() {
        let sources = Sources { nodes: Read::Ok(Vec::new()), ..Sources::default() };
        let cluster = ClusterBuilder { sources, ..ClusterBuilder::default() }.of_leftovers();
        let answers = |unknown: Option<&str>| PermissionCheck {
            unknown: unknown.map(str::to_owned),
            ..PermissionCheck::default()
        };
        let outcome = |answers: Option<&PermissionCheck>| changes(&cluster, &[], answers).outcome;
        assert_eq!(outcome(Some(&answers(None))), CheckResult::Good);
        assert_eq!(outcome(Some(&answers(Some("no server")))), CheckResult::NotChecked);
        assert_eq!(outcome(None), CheckResult::NotChecked);
    }
}
