use super::{Findings, Grade, Severity, Subject};
use crate::cluster::Cluster;
use crate::cluster::admission::{Lack, Unreachable};

rule! {
    /// A webhook that must allow every change to a custom resource is unreachable or not trusted.
    ///
    /// # What it means
    ///
    /// An admission webhook with `failurePolicy: Fail` validates every change to custom resources, but its
    /// service is missing or has no ready endpoint, its CA bundle has expired, or, for a webhook of the
    /// operator, the CA bundle is empty. The API server rejects every such change: a pause, a new version,
    /// and the removal of a finalizer, no matter who requests it. Changes to nodes and to the status still
    /// succeed, so rollouts seem to continue.
    ///
    /// # What causes it
    ///
    /// The operator, which serves its webhook itself, is down, was scaled to zero, or was removed and its
    /// webhook configurations were left behind; then the next custom resource cannot be created either. Each
    /// upgrade of the chart empties the CA bundles; the operator fills them again within a minute, unless it
    /// cannot read its certificate or write the configurations. The operator's certificate is valid for a
    /// year; its leader renews it a week before it expires, unless it cannot write the Secret or the
    /// configurations.
    ///
    /// # How to confirm
    ///
    /// Check the service that the configuration names, and its EndpointSlices. A trial change
    /// (`--dry-run=server`) fails with "failed calling webhook". Check that `clientConfig.caBundle` of each
    /// webhook is set, and when its certificate expires. While the operator has just started, or was
    /// restarted or upgraded, this is a warning.
    ///
    /// # How to fix
    ///
    /// Start the operator; if it runs and a CA bundle is empty or has expired, restart it. If it was removed
    /// permanently, delete the webhook configurations that it left behind. To make a change while it cannot
    /// be started, set `failurePolicy: Ignore` on the webhook, and revert that afterwards.
    ///
    /// # Affected versions
    ///
    /// All operators that are installed with webhooks.
    SKY505 "webhook-unreachable" Error needs Webhooks, also Operator,
        blocks Deletion Changes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let dead = cluster.webhooks().unreachable("UPDATE", None);
    let mut configurations: Vec<&Unreachable<'_>> = Vec::new();
    for one in &dead {
        let known = |u: &&Unreachable<'_>| std::ptr::eq(u.configuration, one.configuration);
        if !configurations.iter().any(known) {
            configurations.push(one);
        }
    }
    let operators = cluster.operators.items();
    for first in configurations {
        let configuration = first.configuration;
        let name = &configuration.metadata.name;
        let resource = configuration.resource();
        let ours = configuration.is_operators();
        let finding = findings.report(
            Subject::object(&configuration.kind, name),
            format!(
                "every change to a custom resource is rejected: {}, and webhook {} has failurePolicy Fail",
                first.why, first.webhook.name
            ),
        );
        let reference = format!("{}/{name}", configuration.kind.to_lowercase());
        let policy = first.webhook.failure_policy.as_deref();
        finding.evidence(&reference, "failurePolicy", policy.unwrap_or("Fail (by default)")).evidence(
            &reference,
            first.lacks.field(),
            &first.why,
        );
        if !first.certain {
            finding.severity(Severity::Warning).evidence(
                &reference,
                "metadata.creationTimestamp",
                "absent, so the CA bundle may be empty only for a moment",
            );
        }
        // A stopped operator explains a missing endpoint, but not a missing Service.
        let explained = first.lacks == Lack::Endpoint && !operators.is_empty();
        let absent = cluster.operator().is_gone();
        if ours && (explained || absent) {
            finding.effect_of(&["SKY501"]);
        }
        let comes_up = cluster.operator().coming_up_since();
        if comes_up.is_some() && ours {
            finding.severity(Severity::Warning).since(comes_up);
            for deployment in operators {
                finding.describe_operator("See whether the operator starts", deployment);
            }
            continue;
        }
        if absent && ours {
            finding
                .kubectl(Grade::B1, "Delete the leftover webhook configuration", ["delete", resource, name])
                .caveat("a later installation of the operator recreates it");
            continue;
        }
        if let Some(service) = first.webhook.client_config.service.as_ref()
            && matches!(first.lacks, Lack::Service | Lack::Endpoint)
            && operators.iter().all(|d| d.replicas() > 0)
        {
            finding.kubectl(
                Grade::B0,
                "Compare the selector of the service with the labels of the pods that should serve it",
                ["get", "services,pods", "-n", &service.namespace, "-o", "wide", "--show-labels"],
            );
        }
        let places = dead.iter().filter(|u| std::ptr::eq(u.configuration, configuration)).map(|u| u.index);
        if let Some((why, restart)) = of_certificate(first.lacks).filter(|_| ours) {
            finding.operator_log(cluster, why);
            for deployment in operators {
                finding.kubectl(
                    Grade::B1,
                    restart,
                    ["rollout", "restart", "deployment", "-n", deployment.namespace(), deployment.name()],
                );
            }
        }
        finding.ignore_failures("Set failurePolicy to Ignore", configuration, places).caveat(
            "changes are not validated while the webhook is unreachable; set it back to Fail afterwards",
        );
        if let Some(deployment) = operators.iter().find(|d| ours && d.replicas() == 0) {
            finding.scale_up("Start the operator", deployment);
        }
    }
}

/// Titles for checking the operator's log and restarting the operator, if the API server does not trust the
/// webhook.
fn of_certificate(lacks: Lack) -> Option<(&'static str, &'static str)> {
    match lacks {
        Lack::Service | Lack::Endpoint => None,
        Lack::CaBundle => Some((
            "Check the operator's log to see why it does not set the CA bundle",
            "Restart the operator: it sets the CA bundle when it starts",
        )),
        Lack::ValidCertificate => Some((
            "Check the operator's log to see why it does not renew its certificate",
            "Restart the operator: its leader renews the certificate when it starts",
        )),
    }
}
