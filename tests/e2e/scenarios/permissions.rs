//! Checks that the rights printed by `rbac` are exactly those that commands need on a real API server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    ours::{self, RunResult},
    rollout::pods,
    view::{complete, deleted, everywhere},
};

use super::writes::run;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const ROLE: &str = "ours";

/// A right: verb, group, resource with its subresource.
type Right = (String, String, String);

/// A user who has only the rights of one command.
struct User<'a> {
    cluster: &'a Cluster,
    api: Api,
}

impl<'a> User<'a> {
    fn new(cluster: &'a Cluster) -> User<'a> {
        let role = json!({"metadata": {"name": ROLE}, "rules": []});
        cluster.api.post(ROLES, &role).expect("a role is made");
        let binding = json!({
            "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "User", "name": "restricted", "apiGroup": "rbac.authorization.k8s.io"}],
        });
        cluster.api.post(BINDINGS, &binding).expect("the role can be bound");
        User { cluster, api: cluster.user("restricted") }
    }

    /// Grants exactly these rights, and waits until the authorizer applies the change.
    fn has(&self, rights: &[Right], not: &[Right]) {
        let rules: Vec<Value> = rights
            .iter()
            .map(|(verb, group, resource)| {
                json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
            })
            .collect();
        self.cluster
            .api
            .merge(&format!("{ROLES}/{ROLE}"), &json!({"rules": rules}))
            .expect("a role can be changed");
        self.cluster.await_that("the rights are as granted", || {
            rights.iter().all(|right| self.may(right)) && !not.iter().any(|right| self.may(right))
        });
    }

    fn may(&self, (verb, group, resource): &Right) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource}}});
        let answer = self.api.post(REVIEWS, &review).expect("access reviews are allowed");
        answer["status"]["allowed"] == true
    }

    fn runs(&self, args: &[&str]) -> RunResult {
        ours::run(&self.cluster.kubeconfig("restricted"), args)
    }
}

/// The rights in the role that `rbac --for COMMAND` prints.
fn printed(cluster: &Cluster, command: &str) -> Vec<Right> {
    let role = cluster.ours(&["rbac", "--for", command]);
    assert_eq!(role["kind"], "ClusterRole");
    let words = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().expect("a list").iter();
        all.map(|w| w.as_str().expect("a word").to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().expect("rules") {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                for verb in words(rule, "verbs") {
                    rights.push((verb, group.clone(), resource.clone()));
                }
            }
        }
    }
    rights
}

/// Rights that are not needed here: only the older API is served, and no webhook has a service.
fn not_here((_, group, resource): &Right) -> bool {
    group.starts_with("nodewright")
        || group == "batch"
        || matches!(resource.as_str(), "services" | "endpointslices")
}

/// Whether a command needs this right only in some cases: reruns pause the operator only while something
/// runs, reset batches only if there is a policy, and clear conditions only if the custom resource is gone;
/// `undo`, `undelete` and `apply-plan` need the rights of the steps that they carry out.
fn needed_at_times(command: &str, (verb, group, resource): &Right) -> bool {
    let changes = verb != "list";
    if resource == "leases" || resource == "namespaces" && verb == "list" {
        // Leases show which of several operators is active, and namespaces are listed to find those of
        // removed operators; here one operator runs.
        return true;
    }
    if resource == "namespaces" {
        // The cluster's identity (a namespace's uid) is recorded with changes, and compared only by these
        // commands.
        return !matches!(command, "undo" | "apply-plan" | "undelete");
    }
    if resource == "poddisruptionbudgets" && previews_drains(command) {
        // Budgets are read only if the plan drains nodes.
        return true;
    }
    if matches!(resource.as_str(), "limitranges" | "resourcequotas") || group.starts_with("rbac") {
        // Limits and roles are read only while the operator may be late.
        return true;
    }
    if resource == "customresourcedefinitions" {
        // CRDs are read only while a custom resource is being deleted.
        return true;
    }
    match command {
        // Logs are read only of failing containers; nothing fails here.
        "diagnose stuck" => resource == "pods/log",
        // The plain table does not show when stages started.
        "node status" => matches!(resource.as_str(), "pods" | "jobs"),
        // Without `watch`, waiting commands list again and again; here there is nothing to wait for.
        "wait" | "package logs" => verb == "watch",
        "teardown" if verb == "watch" => true,
        // `watch` and all resources not in this list are needed only for `--wait`.
        "uninstall" => {
            let always = ["skyhooks", "nodes", "pods", "deployments", "events"];
            verb == "watch" || !always.contains(&resource.as_str())
        }
        // `watch` is for `--watch`.
        "status" => verb == "watch",
        "reset" | "node reset" | "package rerun" | "update-state" => changes && resource != "nodes",
        // Batches are written only for a node of a batch.
        "node ignore" => changes && resource != "nodes",
        "deployment-policy reset" => changes && resource == "nodes",
        // CRDs and roles are read only if the operator is gone, and never deleted.
        "leftovers" if group.starts_with("apiextensions") || group.starts_with("rbac") => true,
        "leftovers" => changes && matches!(resource.as_str(), "pods" | "configmaps"),
        "undelete" => changes && verb != "create",
        // Nodes are listed only if the command to undo changed several of them.
        "undo" if !changes && resource == "nodes" => true,
        "undo" => changes && (verb != "patch" || resource != "skyhooks"),
        // `watch` and what only rules read are needed only if the plan waits for an uninstall.
        "apply-plan" => {
            let always = ["skyhooks", "nodes", "pods", "jobs", "deployments", "deploymentpolicies"];
            let other_step = changes && (verb != "patch" || resource != "skyhooks");
            verb == "watch" || !always.contains(&resource.as_str()) || other_step
        }
        "teardown" => changes && resource == "deploymentpolicies",
        _ => false,
    }
}

/// Whether the preview of a command counts evictions by drains.
fn previews_drains(command: &str) -> bool {
    matches!(
        command,
        "reset"
            | "disable"
            | "node ignore"
            | "node reset"
            | "node unignore"
            | "package rerun"
            | "resume"
            | "enable"
            | "uninstall"
            | "deployment-policy reset"
            | "undo"
    )
}

/// Runs a command (as a dry run, if it writes) without each of its rights in turn, then for real with all of
/// them.
fn proves(user: &User<'_>, command: &str, args: &[&str], changes: bool) {
    let (rehearsal, real): (&[&str], &[&str]) =
        if changes { (&["--dry-run=server"], &["--confirm"]) } else { (&[], &[]) };
    let rights = without_each(user, command, args, rehearsal);
    user.has(&rights, &[]);
    let ran = user.runs(&[args, real].concat());
    assert!(matches!(ran.exit, Some(0 | 2)), "{command}: {ran:#?}");
    untroubled(command, &ran);
}

/// Asserts that the output names no missing right.
fn untroubled(command: &str, ran: &RunResult) {
    let text = format!("{}{}", ran.stdout, ran.stderr);
    for word in ["forbidden", "cannot read", "could not be", "rbac"] {
        assert!(!text.contains(word), "{command}: {ran:#?}");
    }
}

/// Asserts that the command names each right that is missing (unless it is needed only in some cases);
/// returns its rights.
fn without_each(user: &User<'_>, command: &str, args: &[&str], rehearsal: &[&str]) -> Vec<Right> {
    let rights = printed(user.cluster, command);
    for (at, missing) in rights.iter().enumerate() {
        if not_here(missing) {
            continue;
        }
        let mut left = rights.clone();
        left.remove(at);
        user.has(&left, std::slice::from_ref(missing));
        let ran = user.runs(&[args, rehearsal].concat());
        let (verb, group, resource) = missing;
        let dot = if group.is_empty() { "" } else { "." };
        let text = format!("{}{}", ran.stdout, ran.stderr);
        // The right as the server writes it, and as `kubectl auth can-i` reads it.
        let named = format!("{verb} {resource}{dot}{group}");
        let plain = named.replace("/log", "");
        if needed_at_times(command, missing) && ran.exit == Some(0) && !text.contains(&plain) {
            untroubled(command, &ran);
            continue;
        }
        assert!(text.contains(&named) || text.contains(&plain), "{command} without {named}: {ran:#?}");
        assert!(
            ran.stderr.contains(&format!("kubectl skyhook rbac --for '{command}'"))
                || ran.stderr.contains(&format!("kubectl skyhook rbac --for {command}")),
            "{command} without {named}: {ran:#?}"
        );
    }
    rights
}

pub fn read_commands(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    let user = User::new(cluster);
    for (command, args) in [
        ("status", vec!["status"]),
        ("diagnose stuck", vec!["diagnose", "stuck"]),
        ("node status", vec!["node", "status"]),
        ("node list", vec!["node", "list", "--skyhook", "gpu"]),
        ("package status", vec!["package", "status", "--skyhook", "gpu"]),
        ("status", vec!["status", "gpu"]),
        ("wait", vec!["wait", "gpu", "--timeout", "30s"]),
        ("version", vec!["version"]),
    ] {
        proves(&user, command, &args, false);
    }
}

pub fn write_commands(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    let user = User::new(cluster);
    let commands: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("node ignore", vec!["node", "ignore", "node-3", "--leave-batch"]),
        ("node unignore", vec!["node", "unignore", "node-3"]),
        ("pause", vec!["pause", "gpu"]),
        ("resume", vec!["resume", "gpu"]),
        ("disable", vec!["disable", "gpu"]),
        ("enable", vec!["enable", "gpu"]),
        ("node reset", vec!["node", "reset", "node-2", "--skyhook", "gpu"]),
        ("reset", vec!["reset", "gpu"]),
        ("package rerun", vec!["package", "rerun", "driver", "--skyhook", "gpu", "--node", "node-2"]),
        ("uninstall", vec!["uninstall", "gpu", "driver"]),
    ]);
    // Each command undoes the one before, or waits for it.
    for command in [
        "node ignore",
        "node unignore",
        "pause",
        "resume",
        "disable",
        "enable",
        "node reset",
        "reset",
        "package rerun",
        "uninstall",
    ] {
        proves(&user, command, &commands[command], true);
        if matches!(command, "enable" | "node reset" | "reset" | "package rerun") {
            gpu.until(everywhere("driver|2.0.1", "config", "complete")).until(complete());
        }
    }
}

/// The commands that clean up, and those that carry out or undo an earlier plan.
pub fn cleanup_commands(cluster: &Cluster) {
    let interrupting = || skyhook("gpu").with(package("driver", "2.0.1").interrupts("service"));
    let user = User::new(cluster);
    let plan = cluster.kubeconfig("admin").with_file_name("plan.json");
    let plan = plan.to_str().expect("a path in plain letters");

    cluster.result(pods("driver", "interrupt"), StepResult::Hang);
    let gpu = cluster.apply(&interrupting());
    gpu.until(everywhere("driver|2.0.1", "interrupt", "in_progress"));
    let logs = ["package", "logs", "driver", "--skyhook", "gpu"];
    user.has(&without_each(&user, "package logs", &logs, &[]), &[]);
    let ran = user.runs(&logs);
    let begins = "node-1 interrupt │ stage \"interrupt\" of \"driver\" begins\n";
    assert_eq!(ran.exit, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with(begins), "{}", ran.stderr);
    assert_eq!(ran.stderr, "");
    let entry = "update-state gpu driver 2.0.1 config complete --node node-1";
    proves(&user, "update-state", &words(entry), true);
    cluster.stop_operator();
    let batches = "deployment-policy reset gpu";
    proves(&user, "deployment-policy reset", &words(batches), true);
    run(cluster, &["pause", "gpu", "--plan-out", plan]);
    proves(&user, "apply-plan", &["apply-plan", plan], true);
    proves(&user, "undo", &["undo"], true);

    gpu.delete();
    proves(&user, "finalizer strip", &words("finalizer strip gpu --force"), true);
    gpu.until(deleted());
    proves(&user, "undelete", &words("undelete gpu"), true);
    gpu.delete().until(deleted());
    proves(&user, "leftovers", &words("leftovers --clean --purge-state"), true);

    cluster.heal();
    cluster.start_operator();
    let gpu = cluster.apply(&interrupting());
    gpu.until(complete());
    proves(&user, "teardown", &["teardown"], true);
    gpu.until(deleted());
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The two roles that `rbac` prints without `--for`, created on the server.
pub fn role_manifests(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(complete());
    let roles = cluster.ours(&["rbac"]);
    for role in roles["items"].as_array().expect("two roles") {
        cluster.api.post(ROLES, role).expect("the server takes it");
    }
    let user = User::new(cluster);
    user.has(&printed(cluster, "viewer"), &[]);
    let ran = user.runs(&["status"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:#?}");
    let ran = user.runs(&["pause", "gpu", "--confirm"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("kubectl skyhook rbac --for pause"), "{ran:#?}");
    user.has(&printed(cluster, "operator"), &[]);
    for args in [["pause", "gpu", "--confirm"], ["resume", "gpu", "--confirm"]] {
        let ran = user.runs(&args);
        assert_eq!(ran.exit, Some(0), "{ran:#?}");
    }
    gpu.until(complete());
}
