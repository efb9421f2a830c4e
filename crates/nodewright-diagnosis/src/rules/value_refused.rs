use super::{Blocks, Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::model::spec_errors::{SpecError, SpecErrorKind, spec_errors};

rule! {
    /// Kubernetes refuses a value of a stored spec.
    ///
    /// # What it means
    ///
    /// The operator's webhook accepts the value, but the API server rejects the object that the operator creates from
    /// it. Without its Pods or Jobs a package never runs. A rejected ConfigMap ends every reconcile, so nothing starts
    /// for any custom resource. An invalid selector in `podNonInterruptLabels` keeps the operator from draining nodes.
    ///
    /// # What causes it
    ///
    /// The spec has a value that the webhook does not check: the label `NAME-VERSION` of a package (at most
    /// 63 characters, no `+`), a variable in `env`, a toleration in `additionalTolerations`, a key of a
    /// `configMap`, or the size of a `configMap` (at most 1 MiB).
    ///
    /// # How to confirm
    ///
    /// The evidence names the field and the rule that it violates; the operator's log has the API server's error.
    ///
    /// # How to fix
    ///
    /// Correct the field.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// Info while no node needs the object, and a warning if the ConfigMap exists and is only updated once
    /// the package is complete on all nodes.
    SKY223 "value-refused" Error needs Skyhooks Nodes, also ConfigMaps,
        blocks Install Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        for error in spec_errors(skyhook) {
            let package = error.package().unwrap_or_default();
            let (outcome, severity) = match error.kind {
                SpecErrorKind::ConfigMap => config_map(cluster, skyhook, package),
                // A label that is recorded on a node was valid.
                SpecErrorKind::PodLabel if has_run(cluster, skyhook, package) => continue,
                SpecErrorKind::PodLabel | SpecErrorKind::Env => (
                    format!("no pod can be created for package {package}"),
                    severity(is_awaited(cluster, skyhook, |name| name == package)),
                ),
                SpecErrorKind::Toleration => (
                    format!("no pod can be created for {skyhook}"),
                    severity(is_awaited(cluster, skyhook, |_| true)),
                ),
                SpecErrorKind::ProtectedPods => {
                    let interrupts = |name: &str| {
                        skyhook.package(name).is_some_and(|p| skyhook.pending_interrupt(name, p).is_some())
                    };
                    let outcome = "no package that interrupts its nodes can start".to_owned();
                    (outcome, severity(is_awaited(cluster, skyhook, interrupts)))
                }
                _ => continue,
            };
            report(findings, skyhook, &error, &outcome, severity);
        }
    }
}

fn severity(is_awaited: bool) -> Severity {
    if is_awaited { Severity::Error } else { Severity::Info }
}

/// The outcome of a ConfigMap that the API server refuses, and its severity (operator `UpsertConfigmaps`).
fn config_map(cluster: &Cluster, skyhook: &Skyhook, package: &str) -> (String, Severity) {
    let name = skyhook.package(package).map(|spec| crate::cluster::kubernetes::name(skyhook, package, spec));
    let mut made = cluster.config_maps.iter();
    let owner = Some((cluster.flavor(), skyhook.name()));
    let exists = made.any(|map| Some(&map.metadata.name) == name.as_ref() && map.owner() == owner);
    let object = format!("the ConfigMap of package {package}");
    match (exists, is_awaited(cluster, skyhook, |name| name == package)) {
        _ if skyhook.paused() => (format!("{object} will be refused"), Severity::Info),
        (true, true) => (format!("the update of {object} will be refused"), Severity::Warning),
        _ => (format!("{object} is refused, and every reconcile ends with this error"), Severity::Error),
    }
}

fn report(findings: &mut Findings, skyhook: &Skyhook, error: &SpecError, outcome: &str, severity: Severity) {
    let mut subject = Subject::skyhook(skyhook);
    subject.package = error.package().map(str::to_owned);
    let finding = findings.report(subject, format!("{outcome}: {}", error.message()));
    finding.severity(severity);
    if error.kind != SpecErrorKind::ConfigMap {
        finding.blocks_only(&[Blocks::Install]);
    }
    finding
        .evidence(skyhook, error.field(), &error.why)
        .edit(Grade::B2, error.fix(), skyhook)
        .caveat("the package is then installed on every selected node");
}

/// Whether one of these packages still has to run on a selected node.
pub(super) fn is_awaited(cluster: &Cluster, skyhook: &Skyhook, is_concerned: impl Fn(&str) -> bool) -> bool {
    let concerned: Vec<&str> = skyhook.packages().map(|(name, _)| name).filter(|n| is_concerned(n)).collect();
    skyhook.is_active()
        && cluster
            .selected(skyhook)
            .any(|node| concerned.iter().any(|name| !cluster.placement(skyhook, name, node).is_done()))
}

/// Whether the package is recorded on a node.
fn has_run(cluster: &Cluster, skyhook: &Skyhook, name: &str) -> bool {
    let key = skyhook.package(name).map(|package| package.entry_key(name));
    let mut tracked = cluster.tracked(skyhook.name());
    key.is_some_and(|key| tracked.any(|(_, on)| on.entry(&key).is_some()))
}
