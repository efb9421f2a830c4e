use super::{Findings, Subject};
use crate::api::{Entry, Skyhook, Stage, State, Status};
use crate::cluster::{Certainty, Cluster, NodeRecord};

rule! {
    /// A package waits for an interrupt that another package should have run.
    ///
    /// # What it means
    ///
    /// Several packages that need an interrupt share one: the strongest runs, the others are set to `skipped` and
    /// continue when it has succeeded. Here the package that was chosen for the interrupt will no longer run it, so
    /// this package stays at `skipped`, and the node stays cordoned.
    ///
    /// # What causes it
    ///
    /// The package that was chosen for the interrupt was removed, changed or reset in between.
    ///
    /// # How to confirm
    ///
    /// The entry is at `interrupt` and `skipped`, no interrupt pod is on the node, and no other
    /// package of the custom resource there waits for or runs an interrupt.
    ///
    /// # How to fix
    ///
    /// If the node has been interrupted since, set the entry to `interrupt/complete`: the package
    /// then continues. Otherwise rerun the package, with its own interrupt.
    ///
    /// # Affected versions
    ///
    /// Up to v0.16 (upstream issue 270).
    ///
    /// # Severity
    ///
    /// Operator v0.17 continues such a package automatically, so while the operator's version is unknown,
    /// this is a warning, and an error only after nothing has happened for ten minutes.
    SKY210 "interrupt-skipped-for-good" Error needs Skyhooks Nodes Pods, also Operator,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.certainty_of_no_package_run();
    let continues = crate::model::profile::continues_skipped_packages(cluster);
    if continues == Some(true) || absence == Certainty::Unknown {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    let changes = findings.changes();
    for skyhook in &cluster.skyhooks {
        let due_since = changes.due_since(skyhook);
        for node in model.actionable_nodes(skyhook) {
            let Some(on) = cluster.on_node(node, skyhook.name()) else {
                continue;
            };
            let interrupts = package_runs
                .of_skyhook_on(skyhook.name(), &node.name)
                .any(|run| run.interrupt || run.stage.is_interrupt());
            let unsure = absence != Certainty::Proven && on.operator_status() == Status::InProgress;
            if interrupts || unsure || someone_else_interrupts(skyhook, on) {
                continue;
            }
            let skipped = on.entries().iter().filter(|e| is_skipped(e));
            for entry in skipped.filter(|e| skyhook.package(&e.name).is_some()) {
                let finding = findings.report(
                    Subject::skyhook_on_node(skyhook, node).package(&entry.name),
                    format!(
                        "package {} waits for the interrupt of another package, which will not run anymore",
                        entry.name
                    ),
                );
                finding.entry(&node.name, entry).evidence(node, "interrupt pods", "none");
                if let Some(why) = cluster.operator().why_no_version() {
                    // After a recent change, an operator of v0.17 may still continue the package.
                    finding.warning_if(!cluster.is_stale(due_since(node)));
                    finding.evidence(
                        "operator",
                        "version",
                        format!("unknown ({why}); v0.17 continues such a package automatically"),
                    );
                }
                finding
                    .remedy(
                        "If the interrupt has since run on the node, let the package continue",
                        [
                            "update-state",
                            skyhook.name(),
                            &entry.name,
                            &entry.version,
                            "interrupt",
                            "complete",
                            "--node",
                            &node.name,
                        ],
                    )
                    .caveat("the interrupt of this package is then skipped")
                    .rerun("Otherwise run the package again", skyhook, node, &entry.name)
                    .by_choice();
            }
        }
    }
}

fn is_skipped(entry: &Entry) -> bool {
    entry.stage == Stage::Interrupt && entry.state == State::Skipped
}

/// Whether another package will run the shared interrupt, or is running it.
fn someone_else_interrupts(skyhook: &Skyhook, on: &NodeRecord) -> bool {
    on.entries().iter().any(|e| match (&e.stage, &e.state) {
        (Stage::Interrupt, State::Skipped) => false,
        (Stage::Interrupt, _) => e.state != State::Complete,
        (Stage::Config, State::Complete) => {
            skyhook.package(&e.name).is_some_and(|p| skyhook.pending_interrupt(&e.name, p).is_some())
        }
        _ => false,
    })
}
