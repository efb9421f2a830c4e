//! Evidence and predicates that several rules share.

use std::fmt::Display;

use jiff::Timestamp;

use super::reason::shown;
use crate::api::{ApiFlavor, Condition, Entry, Meta, Skyhook, State, Status};
use crate::cluster::node::{NodeCondition, Taint};
use crate::cluster::package_run::PackageRun;
use crate::cluster::pod::{ContainerTrouble, Ending};
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, Pod, attempts};
use crate::rules::{Finding, Findings, Severity, Subject};
use crate::text::{self, NodeSet, count, distinct, plural};

/// Maximum number of node-name ranges in the evidence.
const RANGES: usize = 4;

impl Finding {
    /// Adds an entry of the node state: stage, state and restarts.
    pub fn entry(&mut self, node: &str, entry: &Entry) -> &mut Self {
        self.evidence(
            format!("node/{node}"),
            format!("nodeState {}", entry.key),
            format!("{}/{}{}", entry.stage, entry.state, restarts(entry.restarts)),
        )
    }

    /// Adds a field of a package in the spec.
    pub fn package_field(
        &mut self,
        skyhook: &Skyhook,
        package: &str,
        field: &str,
        value: impl Display,
    ) -> &mut Self {
        let field = format!("spec.packages.{package}.{field}");
        self.evidence(skyhook, field, value)
    }

    /// Adds that no selected node has an entry of the package.
    pub fn absent_from_node_states(&mut self, package: &str) -> &mut Self {
        let field = format!("nodeState of {package}");
        self.evidence("nodes", field, "absent on every selected node")
    }

    /// Adds a condition of the custom resource with its reason or message, and sets `since` to the
    /// condition's last transition.
    pub fn condition(&mut self, skyhook: &Skyhook, condition: &Condition, text: &str) -> &mut Self {
        let field = format!("condition {}", condition.kind);
        self.since(condition.last_transition_time).evidence(skyhook, field, text)
    }

    /// Adds the deletion of the custom resource, and sets `since` to its time.
    pub fn since_deletion(&mut self, skyhook: &Skyhook) -> &mut Self {
        self.since(skyhook.metadata.deletion_timestamp).evidence(skyhook, "deletionTimestamp", "set")
    }

    /// Adds the annotation that pauses or disables the custom resource, with its author and reason.
    pub fn annotated(&mut self, skyhook: &Skyhook, flavor: ApiFlavor, name: &str) -> &mut Self {
        self.evidence(skyhook, flavor.key(name), "true");
        if let Some((manager, time)) = skyhook.annotated_by(name) {
            self.since(time).evidence(skyhook, "set by", manager);
        }
        if let Some((key, reason)) = skyhook.annotated_reason(name) {
            self.evidence(skyhook, key, reason);
        }
        self
    }

    /// Adds the waiting nodes, if any, that will be held up by such pods as well.
    pub fn other_waiting_nodes(&mut self, skyhook: &Skyhook, pods: &str, nodes: &NodeSet) -> &mut Self {
        if nodes.is_empty() {
            return self;
        }
        let value = format!("{} ({})", nodes.limited(RANGES), count(nodes.len()));
        self.evidence(skyhook, format!("other waiting nodes with {pods}"), value)
    }

    /// Adds a taint with its owner and its age.
    pub fn taint(&mut self, node: &Node, taint: &Taint) -> &mut Self {
        let mut value = taint.kubectl_notation();
        if let Some(owner) = taint.owner() {
            value += &format!(", of {}, removed {}", owner.name, owner.until);
        }
        if let Some(since) = node.tainted_since(taint) {
            value += &format!(", since {since}");
        }
        self.evidence(node, "taint", value)
    }

    /// Adds the finalizers of an object, if it has any.
    pub fn finalizers(&mut self, object: impl Display, meta: &Meta) -> &mut Self {
        if !meta.finalizers.is_empty() {
            self.evidence(object, "finalizers", meta.finalizers.join(", "));
        }
        self
    }

    /// Adds the operator's version, if it is known.
    pub fn operator_version(&mut self, cluster: &Cluster) -> &mut Self {
        if let Some(version) = &cluster.active_api.operator_version {
            self.evidence("operator", "version", version);
        }
        self
    }

    /// Makes the finding a warning if the custom resource no longer selects the node: the operator no longer
    /// works on the node, so nothing waits for it.
    pub fn warning_unless_selected(&mut self, skyhook: &Skyhook, node: &Node) -> &mut Self {
        if !skyhook.selects(node) {
            self.severity(Severity::Warning).evidence(
                skyhook,
                "spec.nodeSelectors",
                "no longer matches the node",
            );
        }
        self
    }

    /// Adds that reruns wait while the custom resource is paused or disabled.
    pub fn reruns_wait(&mut self, skyhook: &Skyhook) -> &mut Self {
        let (is, until) = if skyhook.paused() {
            ("paused", "resumed")
        } else if skyhook.disabled() {
            ("disabled", "enabled")
        } else {
            return self;
        };
        let value = format!("reruns start only after the custom resource is {until}");
        self.evidence(skyhook, is, value)
    }

    /// Adds why the Job failed, and the problem of the newest attempt.
    pub fn package_run_trouble<'a>(
        &mut self,
        cluster: &'a Cluster,
        package_run: &PackageRun<'a>,
    ) -> &mut Self {
        if let Some(failed) = package_run.job.and_then(|j| j.failed()) {
            self.evidence(package_run, "condition Failed", reason(failed));
        }
        let timed_out = package_run.timed_out().and_then(|pod| Some((pod, cluster.ending(pod)?)));
        if let Some((pod, ending)) = timed_out.or(package_run.ended_as_a_whole(cluster)) {
            self.ending(pod, ending);
        }
        if let Some((pod, trouble)) = package_run.trouble() {
            self.container_trouble(cluster, pod, &trouble);
            // A script controls its termination message, which may contain secrets.
            if let Some(message) = shown(trouble.message) {
                self.evidence(pod, "message", message);
            }
            // The image was built for another architecture: show the node's architecture.
            if trouble.message.contains("exec format error") {
                self.architecture(cluster, &pod.spec.node_name);
            }
        }
        self
    }

    /// Adds the node's processor architecture.
    pub fn architecture(&mut self, cluster: &Cluster, node: &str) {
        if let Some(node) = cluster.node(node) {
            let architecture = node.body().map_or("", |body| &body.system.architecture);
            self.evidence(node, "status.nodeInfo.architecture", architecture);
        }
    }

    /// Adds why a pod ended as a whole.
    pub fn ending(&mut self, pod: &Pod, ending: Ending<'_>) -> &mut Self {
        let Ending { field, reason, message } = ending;
        let text = shown(message).map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}"));
        self.evidence(pod, field, text)
    }

    /// Adds the problem of a container: `CrashLoopBackOff, exit code 3, 3 restarts`.
    pub fn container_trouble(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        trouble: &ContainerTrouble<'_>,
    ) -> &mut Self {
        let mut value = trouble.reason.to_owned();
        if let Some(code) = trouble.exit_code {
            // The kubelet's reason for the end of the pod explains the code.
            value += &match cluster.ending(pod) {
                Some(ending) => format!(", exit code {code} ({})", ending.reason),
                None => format!(", {}", attempts::with_meaning(code, trouble.reason)),
            };
        }
        value += &restarts(trouble.restarts);
        let field = format!("container {}", trouble.container);
        self.evidence(pod, field, value)
    }

    /// Adds the problem of a container, and the kubelet's message.
    pub fn container_message(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        trouble: &ContainerTrouble<'_>,
    ) -> &mut Self {
        self.container_trouble(cluster, pod, trouble);
        if !trouble.message.is_empty() {
            self.evidence(pod, "message", trouble.message);
        }
        self
    }

    /// Adds that no pods and Jobs were found, and how certain that is.
    pub fn no_package_run(&mut self, cluster: &Cluster, what: &str) -> &mut Self {
        let value = match cluster.certainty_of_no_package_run() {
            Certainty::Proven => "none",
            Certainty::Presumed => "none in the capture, which has no objects of this kind",
            Certainty::Unknown => "could not be read",
        };
        self.evidence("cluster", what, value)
    }

    /// Adds the pending uninstalls of a deletion, the operator's reason, and finalizers of other owners.
    pub fn pending_deletion(&mut self, cluster: &Cluster, skyhook: &Skyhook) -> &mut Self {
        let pending = cluster.pending_uninstalls(skyhook);
        let packages = distinct(pending.iter().map(|p| p.name));
        let mut nodes: Vec<&str> = pending.iter().map(|p| p.node.name.as_str()).collect();
        nodes.dedup();
        self.since(skyhook.metadata.deletion_timestamp).evidence(
            skyhook,
            "waits for the uninstall of",
            format!("{} on {}", packages.join(", "), plural(nodes.len(), "node")),
        );
        if let Some(condition) = skyhook.true_condition("DeletionBlocked") {
            self.evidence(skyhook, "condition DeletionBlocked", &condition.reason);
        }
        self.other_finalizers(skyhook)
    }

    /// Adds the finalizers of other owners: they still block the deletion after the operator has removed its
    /// own.
    pub fn other_finalizers(&mut self, skyhook: &Skyhook) -> &mut Self {
        let ours = skyhook.flavor().map(ApiFlavor::finalizer);
        let all = skyhook.metadata.finalizers.iter();
        let others: Vec<&str> = all.filter(|f| Some(*f) != ours.as_ref()).map(String::as_str).collect();
        if !others.is_empty() {
            self.evidence(
                skyhook,
                "third-party finalizers that will still block the deletion",
                others.join(", "),
            );
        }
        self
    }
}

fn reason(condition: &Condition) -> String {
    match condition.message.as_str() {
        "" => condition.reason.to_string(),
        message => format!("{}: {message}", condition.reason),
    }
}

/// `, 3 restarts` for the end of a sentence; empty without restarts.
fn restarts(number: i64) -> String {
    match number {
        0 => String::new(),
        1 => ", 1 restart".to_owned(),
        n => format!(", {n} restarts"),
    }
}

/// Lists the first names, and the number of the remaining ones.
pub fn some_of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    text::some_of(&Vec::from_iter(names), 5)
}

/// The time since which the operator reports the node as erroring for a custom resource.
pub fn failing_since(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> Option<Timestamp> {
    let erroring = condition_of(cluster, skyhook, node, "Erroring").filter(|c| c.is_true())?;
    erroring.last_transition_time
}

/// Whether the operator's condition has long reported the node as complete for the custom resource.
pub fn complete_for_long(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    condition_of(cluster, skyhook, node, "NotReady")
        .filter(|c| c.status == "False")
        .is_some_and(|c| cluster.is_stale(c.last_transition_time))
}

/// The operator's condition on a node for a custom resource.
fn condition_of<'a>(
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &'a Node,
    kind: &str,
) -> Option<&'a NodeCondition> {
    let kind = cluster.flavor().key(&format!("{}/{kind}", skyhook.name()));
    node.condition(&kind)
}

/// Whether an erroring interrupt is a normal effect of its reboot.
///
/// The container that reboots the node is killed by the reboot and runs once more afterwards, so one restart
/// of a reboot interrupt is part of every healthy rollout.
pub fn restarted_by_its_own_reboot(skyhook: &Skyhook, entry: &Entry) -> bool {
    entry.stage.is_interrupt() && is_reboot(skyhook, entry) && entry.restarts <= 1
}

/// Whether the package of an entry has a reboot as its interrupt.
pub fn is_reboot(skyhook: &Skyhook, entry: &Entry) -> bool {
    skyhook.package(&entry.name).and_then(|p| skyhook.pending_interrupt(&entry.name, p)) == Some("reboot")
}

/// Whether a node fails for a custom resource, and is not just in the middle of a reboot.
pub fn fails_outside_reboot(skyhook: &Skyhook, on: &NodeRecord) -> bool {
    let mut entries = on.entries().iter();
    on.drain_start.is_some() && on.operator_status() == Status::Erroring
        || entries.any(|e| {
            e.state == State::Erroring
                && skyhook.package(&e.name).is_some()
                && !restarted_by_its_own_reboot(skyhook, e)
        })
}

/// The entries of packages of the spec that are not complete on a node.
pub fn open_entries<'a, 's>(
    cluster: &'s Cluster,
    skyhook: &'s Skyhook,
    on: &'a NodeRecord,
) -> impl Iterator<Item = &'a Entry> + use<'a, 's> {
    on.entries()
        .iter()
        .filter(|e| skyhook.package(&e.name).is_some() && !skyhook.is_package_complete(cluster, &e.name, e))
}

/// The node-state entry for the stage of a pod or Job; `None` if the entry is complete or at another stage.
pub fn due_entry<'a>(cluster: &'a Cluster, package_run: &PackageRun<'_>) -> Option<&'a Entry> {
    let node = cluster.node(package_run.node)?;
    let on = cluster.on_node(node, &package_run.skyhook)?;
    let entry = on.entry(&format!("{}|{}", package_run.package, package_run.version))?;
    (entry.stage == package_run.stage && entry.state != State::Complete).then_some(entry)
}

/// Reports the custom resources that are being deleted while they are stopped, with pending uninstalls. `state` and `verb`:
/// `paused` and `resume`.
///
/// The operator's condition is sufficient: the operator may see nodes that were not read.
pub fn report_stopped_deletions(
    cluster: &Cluster,
    findings: &mut Findings,
    stopped: fn(&Skyhook) -> bool,
    [state, reason, verb, title]: [&str; 4],
) {
    for skyhook in cluster.skyhooks.iter().filter(|s| s.deleting() && s.has_finalizer() && stopped(s)) {
        let condition = skyhook.true_condition("DeletionBlocked");
        let blocked = condition.is_some_and(|c| c.reason == reason);
        if !blocked && cluster.pending_uninstalls(skyhook).is_empty() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "deletion of {skyhook} is blocked: the custom resource is {state}, so nothing is uninstalled"
            ),
        );
        finding
            .pending_deletion(cluster, skyhook)
            .offer_resume(cluster, skyhook, title, verb)
            .strip_finalizer("Strip the finalizer", skyhook);
    }
}
