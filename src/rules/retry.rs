//! Remedies that let the operator go on where it stands, and lose no record.

use super::{Finding, Grade};
use crate::api::{Entry, Skyhook};
use crate::cluster::package_run::PackageRun;
use crate::cluster::pod::Pod;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::build::{effects, node_state};

/// Adds the ways out of a node state that cannot be read; the milder one where the operator's own copy can be read.
pub fn repair_node_state(finding: &mut Finding, skyhook: &Skyhook, node: &Node, on: &NodeRecord) {
    if let Ok(repaired) = node_state::repaired(skyhook, node, on) {
        finding
            .remedy(
                repaired.grade(skyhook, node),
                "Restore the node state from the status of the custom resource",
                ["node", "repair", &node.name, "--skyhook", skyhook.name()],
            )
            .caveat("the operator then continues for every custom resource");
    }
    finding
        .remedy(
            Grade::B4,
            "Reset the node",
            ["reset", skyhook.name(), "--node", &node.name],
        )
        .caveat(
            "the record of what is installed is lost: packages are installed again, and packages that a deletion \
             would have uninstalled stay on the host",
        );
}

/// Adds the command that makes the operator work on a node of a deletion: once other nodes are uninstalled, it works
/// only on those in progress.
pub fn take_up<'f>(
    finding: &'f mut Finding,
    skyhook: &Skyhook,
    node: &str,
    package: &str,
    title: &str,
) -> &'f mut Finding {
    let grade = grade_of_stage(skyhook, package);
    retry(finding, grade, title, skyhook.name(), node, package)
        .caveat("once other nodes have finished the uninstall, the operator works only on nodes with status in_progress")
}

/// Adds the command that runs a stage again which was given up, without touching what is recorded.
pub fn retry<'f>(
    finding: &'f mut Finding,
    grade: Grade,
    title: &str,
    skyhook: &str,
    node: &str,
    package: &str,
) -> &'f mut Finding {
    let words = [
        "package",
        "retry",
        package,
        "--skyhook",
        skyhook,
        "--node",
        node,
    ];
    finding
        .remedy(grade, title, words)
        .for_all_nodes(["--all-nodes"])
}

/// How grave it is that a stage of a package runs again: its interrupt may follow.
pub fn grade_of_stage(skyhook: &Skyhook, package: &str) -> Grade {
    let spec = skyhook.package(package);
    Grade::of_rerun(spec.and_then(|p| skyhook.pending_interrupt(package, p)))
}

/// Adds the command that retries a stage, if it was given up; says whether it did.
pub fn retry_given_up(
    finding: &mut Finding,
    package_run: Option<&PackageRun<'_>>,
    skyhook: &Skyhook,
    node: &str,
    entry: &Entry,
) -> bool {
    let at_this_stage = |e: &&PackageRun<'_>| e.stage == entry.stage || e.interrupt;
    let given_up = package_run
        .filter(at_this_stage)
        .is_some_and(PackageRun::given_up);
    if given_up {
        retry(
            finding,
            grade_of_stage(skyhook, &entry.name),
            "Once the cause is gone, retry the stage",
            skyhook.name(),
            node,
            &entry.name,
        );
    }
    given_up
}

/// Adds the command that runs a package again from its start, with the grade that its preview has; says whether there is
/// one: the operator does not run again what it is to uninstall, nor anything of a custom resource that is being deleted.
pub fn rerun(
    finding: &mut Finding,
    title: &str,
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &Node,
    package: &str,
) -> bool {
    let spec = skyhook.package(package);
    if skyhook.deleting() || spec.is_some_and(|p| skyhook.uninstalls(p)) {
        return false;
    }
    let effects = effects::rerun(cluster, skyhook, package, &[node], true);
    finding.remedy(
        effects.grade.unwrap_or(Grade::B2),
        title,
        [
            "package",
            "rerun",
            package,
            "--skyhook",
            skyhook.name(),
            "--node",
            &node.name,
        ],
    );
    if let Some(kind) = spec.and_then(|p| skyhook.pending_interrupt(package, p)) {
        finding.caveat(format!(
            "its interrupt ({kind}) runs after the node is drained"
        ));
    }
    true
}

/// Adds the command that deletes a pod, which the operator then creates again.
pub fn delete_pod<'f>(
    finding: &'f mut Finding,
    title: &str,
    package_run: &PackageRun<'_>,
    pod: &Pod,
) -> &'f mut Finding {
    // The new pod has the same name, and kubectl may wait until that one is gone as well.
    let namespace = package_run.namespace();
    let words = ["delete", "pod", "--wait=false", "-n", namespace, pod.name()];
    finding.kubectl(Grade::B2, title, words)
}
