//! Evidence and remedies that several rules share.

use jiff::Timestamp;

use super::{Finding, Grade, Severity};
use crate::api::{ApiFlavor, Entry, Skyhook, Stage, State, Status};
use crate::cluster::exit;
use crate::cluster::package_run::PackageRun;
use crate::cluster::pod::ContainerTrouble;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, Pod};

/// Since when the operator calls the node erroring for a custom resource.
pub fn failing_since(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> Option<Timestamp> {
    let kind = cluster
        .flavor()
        .key(&format!("{}/Erroring", skyhook.name()));
    let mut conditions = node.conditions.iter();
    let erroring = conditions.find(|c| c.kind == kind && c.is_true())?;
    erroring.last_transition_time
}

/// Whether the operator has called the node ready for the custom resource so long ago that many passes have ended since.
pub fn complete_for_long(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    let kind = cluster
        .flavor()
        .key(&format!("{}/NotReady", skyhook.name()));
    let mut conditions = node.conditions.iter();
    let ready = conditions.find(|c| c.kind == kind && c.status == "False");
    ready.is_some_and(|c| cluster.is_stale(c.last_transition_time))
}

/// Makes a finding a warning where the custom resource no longer selects the node: the operator has left it, so nothing
/// waits for it. Says whether it does not.
pub fn no_longer_selected(finding: &mut Finding, skyhook: &Skyhook, node: &Node) -> bool {
    if skyhook.selects(node) {
        return false;
    }
    finding.severity(Severity::Warning).evidence(
        skyhook.reference(),
        "spec.nodeSelectors",
        "no longer matches the node",
    );
    true
}

/// Says where what is run again has to wait, as the custom resource is stopped.
pub fn not_before_it_goes_on(finding: &mut Finding, skyhook: &Skyhook) {
    let (is, until) = if skyhook.paused() {
        ("paused", "resumed")
    } else if skyhook.disabled() {
        ("disabled", "enabled")
    } else {
        return;
    };
    finding.evidence(
        skyhook.reference(),
        is,
        format!("reruns start only after it is {until}"),
    );
}

/// Makes a finding a warning while the pod is young: the kubelet tries again, and the next attempt may succeed.
pub fn warn_while_young(finding: &mut Finding, cluster: &Cluster, pod: &Pod) {
    let created = pod.metadata.creation_timestamp;
    if created.is_some() && !cluster.is_stale(created) {
        finding.severity(Severity::Warning);
    }
}

/// Adds why a Job gave up and what went wrong in the newest attempt.
pub fn package_run_trouble(finding: &mut Finding, package_run: &PackageRun<'_>) {
    if let Some(failed) = package_run.job.and_then(|j| j.failed()) {
        finding.evidence(package_run.reference(), "condition Failed", reason(failed));
    }
    if let Some(pod) = package_run.timed_out() {
        let reason = format!("{}: {}", pod.status.reason, pod.status.message);
        finding.evidence(pod.reference(), "status.reason", reason);
    }
    if let Some((pod, trouble)) = package_run.trouble() {
        let field = format!("container {}", trouble.container);
        finding.evidence(pod.reference(), field, describe(&trouble));
    }
}

fn reason(condition: &crate::api::Condition) -> String {
    match condition.message.as_str() {
        "" => condition.reason.to_string(),
        message => format!("{}: {message}", condition.reason),
    }
}

/// `CrashLoopBackOff, exit code 3, 3 restarts`
pub fn describe(trouble: &ContainerTrouble<'_>) -> String {
    let mut text = trouble.reason.to_owned();
    if let Some(code) = trouble.exit_code {
        text.push_str(&format!(", {}", exit::spelled(code, trouble.reason)));
    }
    match trouble.restarts {
        0 => {}
        1 => text.push_str(", 1 restart"),
        n => text.push_str(&format!(", {n} restarts")),
    }
    text
}

/// Adds the command that shows why a stage fails.
pub fn read_logs(finding: &mut Finding, skyhook: &str, node: &str, package: &str, stage: &Stage) {
    finding.remedy(
        Grade::B0,
        "Check the logs for the cause, then fix the package",
        [
            "package",
            "logs",
            package,
            "--skyhook",
            skyhook,
            "--node",
            node,
            "--stage",
            stage.as_str(),
        ],
    );
}

/// Adds the command that shows the pods of a node.
pub fn pods_on_node(finding: &mut Finding, title: &str, node: &str) {
    let selector = format!("spec.nodeName={node}");
    let words = [
        "get",
        "pods",
        "-A",
        "-o",
        "wide",
        "--field-selector",
        &selector,
    ];
    finding.kubectl(Grade::B0, title, words);
}

/// Adds that an execution is missing, and what the absence is worth.
pub fn no_package_run(finding: &mut Finding, cluster: &Cluster, what: &str) {
    let (field, value) = match cluster.certainty_of_no_package_run() {
        Certainty::Proven => (what, "none"),
        Certainty::Presumed => (
            what,
            "none in the input, which contains no objects of this kind",
        ),
        Certainty::Unknown => (what, "could not be read"),
    };
    finding.evidence("cluster", field, value);
}

/// The packages whose uninstall is asked for, in custom resources that are not being deleted.
pub fn uninstall_requested(cluster: &Cluster) -> impl Iterator<Item = (&Skyhook, &str)> {
    cluster
        .skyhooks
        .items()
        .iter()
        .filter(|s| !s.deleting())
        .flat_map(|skyhook| {
            let asked = skyhook
                .packages()
                .filter(|(_, p)| p.uninstall().enabled && p.uninstall().apply);
            asked.map(move |(name, _)| (skyhook, name))
        })
}

/// Those of them that stand in no node state, at whatever version.
///
/// A node whose state cannot be read might hold the package, so it rules the package out, and
/// where no node is selected there is nothing to be absent from.
pub fn absent_everywhere(cluster: &Cluster) -> impl Iterator<Item = (&Skyhook, &str)> {
    uninstall_requested(cluster).filter(|(skyhook, name)| {
        let mut selected = cluster.selected(skyhook).peekable();
        selected.peek().is_some()
            && selected.all(|node| {
                cluster.on_node(node, skyhook.name()).is_none_or(|on| {
                    !on.is_malformed() && on.entries().iter().all(|e| e.name != *name)
                })
            })
    })
}

/// Adds the command that shows the operator's log.
pub fn operator_log(finding: &mut Finding, cluster: &Cluster, title: &str) {
    let operator = cluster.operators.items().first();
    let namespace = operator
        .map(|d| d.namespace())
        .unwrap_or(cluster.flavor().default_namespace());
    let label = "control-plane=controller-manager";
    finding.kubectl(
        Grade::B0,
        title,
        ["logs", "-n", namespace, "-l", label, "--tail=200"],
    );
}

/// Adds the command that removes one package from a node state, and leaves its neighbours alone.
pub fn forget<'f>(
    finding: &'f mut Finding,
    grade: Grade,
    skyhook: &str,
    node: &str,
    entry: &Entry,
) -> &'f mut Finding {
    let package = format!("{}:{}", entry.name, entry.version);
    finding.remedy(
        grade,
        "Reset the package on the node",
        ["reset", skyhook, "--node", node, "--package", &package],
    )
}

/// Adds what a deletion waits for, and how the operator puts it.
pub fn pending_deletion(cluster: &Cluster, finding: &mut Finding, skyhook: &Skyhook) {
    let pending = cluster.pending_uninstalls(skyhook);
    let mut packages: Vec<&str> = pending.iter().map(|p| p.name).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut nodes: Vec<&str> = pending.iter().map(|p| p.node.name.as_str()).collect();
    nodes.dedup();
    finding.since(skyhook.metadata.deletion_timestamp).evidence(
        skyhook.reference(),
        "waits for the uninstall of",
        format!(
            "{} on {} node{}",
            packages.join(", "),
            nodes.len(),
            if nodes.len() == 1 { "" } else { "s" }
        ),
    );
    if let Some(condition) = skyhook.true_condition("DeletionBlocked") {
        finding.evidence(
            skyhook.reference(),
            "condition DeletionBlocked",
            &condition.reason,
        );
    }
    other_finalizers(finding, skyhook);
}

/// Adds the finalizers of others: they hold the custom resource once the operator has let it go.
pub fn other_finalizers(finding: &mut Finding, skyhook: &Skyhook) {
    let ours = skyhook.flavor().map(ApiFlavor::finalizer);
    let all = skyhook.metadata.finalizers.iter();
    let others: Vec<&str> = all
        .filter(|f| Some(*f) != ours.as_ref())
        .map(String::as_str)
        .collect();
    if !others.is_empty() {
        finding.evidence(
            skyhook.reference(),
            "third-party finalizers that will still block the deletion",
            others.join(", "),
        );
    }
}

/// Whether an erroring interrupt is just what a reboot looks like.
///
/// The container that reboots the node is killed by the reboot and runs once more afterwards, so
/// one restart of a reboot interrupt is part of every healthy rollout.
pub fn restarted_by_its_own_reboot(skyhook: &Skyhook, entry: &Entry) -> bool {
    let reboots = skyhook
        .package(&entry.name)
        .and_then(|p| skyhook.pending_interrupt(&entry.name, p))
        .is_some_and(|kind| kind == "reboot");
    entry.stage.is_interrupt() && reboots && entry.restarts <= 1
}

/// Whether a node fails for a custom resource, and is not just in the middle of a reboot.
pub fn fails_for_real(skyhook: &Skyhook, on: &NodeRecord) -> bool {
    let mut entries = on.entries().iter();
    on.drain_start.is_some() && on.operator_status() == Status::Erroring
        || entries.any(|e| {
            e.state == State::Erroring
                && skyhook.package(&e.name).is_some()
                && !restarted_by_its_own_reboot(skyhook, e)
        })
}

/// The first names, and how many more there are.
pub fn some_of(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names
        .iter()
        .take(SHOWN)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The custom resources that are being deleted while they rest, with packages left to uninstall.
///
/// The operator's own word counts too: it may see nodes that we do not.
pub fn deletions_at_rest<'a>(
    cluster: &'a Cluster,
    rests: fn(&Skyhook) -> bool,
    reason: &'static str,
) -> impl Iterator<Item = &'a Skyhook> {
    let deleting = cluster.skyhooks.items().iter().filter(|s| s.deleting());
    let waiting = deleting.filter(|s| s.has_finalizer());
    waiting.filter(move |s| rests(s)).filter(move |skyhook| {
        let said = skyhook.true_condition("DeletionBlocked");
        said.is_some_and(|c| c.reason == reason) || !cluster.pending_uninstalls(skyhook).is_empty()
    })
}

/// What to mind where a node is freed for a deletion: see `deletion-passes-over-node`.
pub const LOOK_AGAIN: &str = "the uninstall runs; if other nodes are already done, the operator may skip this node: check for SKY114 afterwards";
