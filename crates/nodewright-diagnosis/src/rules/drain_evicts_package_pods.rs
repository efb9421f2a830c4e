use super::{Findings, Grade, Severity, Subject};
use crate::api::skyhook::Toleration;
use crate::api::{Executor, Skyhook};
use crate::cluster::{Cluster, Node, Source};

rule! {
    /// The drain for an interrupt evicts the operator's own pods.
    ///
    /// # What it means
    ///
    /// Before an interrupt the operator drains the node. It spares pods that tolerate a cordon, and
    /// looks for that toleration by its key only. A package's pod that tolerates everything through a
    /// toleration without a key is evicted, recreated and evicted again, about once a second, and so
    /// are other pods of the node. The package never runs.
    ///
    /// # What causes it
    ///
    /// `spec.additionalTolerations` has an entry without a key (`operator: Exists`), and admission, as on
    /// AKS, drops the other tolerations.
    ///
    /// # How to confirm
    ///
    /// The pod has a toleration without a key, and none for `node.kubernetes.io/unschedulable`. The
    /// operator's log shows evictions of its own pods.
    ///
    /// # How to fix
    ///
    /// Give each toleration in `additionalTolerations` a key, or upgrade the operator.
    ///
    /// # Affected versions
    ///
    /// Operators up to v0.17.
    ///
    /// # Severity
    ///
    /// If no such pod exists, a warning on AKS nodes and info elsewhere.
    SKY412 "drain-evicts-package-pods" Error needs Skyhooks Nodes, also Pods,
        blocks Install Uninstall
}

const CORDON: &str = "node.kubernetes.io/unschedulable";
/// Prefix of labels that every AKS node has.
const AKS: &str = "kubernetes.azure.com/";

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.flavor().executor() == Executor::Job {
        return;
    }
    let (model, package_runs) = (findings.model(), findings.package_runs());
    for skyhook in &cluster.skyhooks {
        let all = &skyhook.spec.additional_tolerations;
        let Some(package) = interrupts(skyhook).filter(|_| all.iter().any(is_wildcard)) else {
            continue;
        };
        findings.depends_on(Source::Pods);
        if model.unfinished(skyhook).next().is_none() {
            continue;
        }
        let pods = package_runs.of(skyhook.name()).flat_map(|run| run.pods.iter());
        let mut pods = pods.filter(|p| !p.spec.tolerations.is_empty()).peekable();
        let seen = pods.peek().is_some();
        let collapsed = pods.find(|p| {
            let tolerations = &p.spec.tolerations;
            tolerations.iter().any(is_wildcard) && tolerations.iter().all(|t| t.key != CORDON)
        });
        if seen && collapsed.is_none() {
            continue;
        }
        let finding = findings.report(
            Subject::skyhook(skyhook).package(package),
            match collapsed {
                Some(_) => {
                    format!("the drain for the interrupt of package {package} evicts the package's own pods")
                }
                None => format!(
                    "the drain for the interrupt of package {package} evicts the package's own pods if admission control \
                     keeps only the toleration without a key"
                ),
            },
        );
        finding.evidence(
            skyhook,
            "spec.additionalTolerations",
            "a toleration without a key, which tolerates everything",
        );
        if let Some(pod) = collapsed {
            finding.evidence(
                pod,
                "spec.tolerations",
                format!("a toleration without a key, and none for {CORDON}"),
            );
        } else {
            let aks = |n: &Node| n.labels.keys().any(|key| key.starts_with(AKS));
            finding.severity(if cluster.selected(skyhook).any(aks) {
                Severity::Warning
            } else {
                Severity::Info
            });
        }
        finding
            .edit(Grade::B2, "Specify the taint keys in additionalTolerations", skyhook)
            .caveat("the operator then recreates the package pods");
    }
}

fn is_wildcard(toleration: &Toleration) -> bool {
    toleration.key.is_empty() && toleration.operator == "Exists"
}

/// The first package that has an interrupt.
fn interrupts(skyhook: &Skyhook) -> Option<&str> {
    skyhook.packages().find(|(name, p)| skyhook.pending_interrupt(name, p).is_some()).map(|(name, _)| name)
}
