use super::{Blocks, Findings, Grade, Severity, Subject};
use crate::cluster::Cluster;
use crate::text::list;

rule! {
    /// A webhook of another program rejects requests of the rollout, because its service does not respond.
    ///
    /// # What it means
    ///
    /// An admission webhook with `failurePolicy: Fail` checks nodes, pods, Jobs or ConfigMaps, and its
    /// service has no ready endpoint. The API server rejects every such request: the operator cannot write
    /// node states, the Job controller cannot create pods, drains do not evict. Custom resources do not show
    /// this.
    ///
    /// # What causes it
    ///
    /// A policy engine or an injector (Kyverno, Gatekeeper, a service mesh) is down, was scaled to zero, or was removed
    /// and left its configurations behind. Its pods may wait for the node that the rollout has cordoned.
    ///
    /// # How to confirm
    ///
    /// The service that `clientConfig` names does not exist or has no ready endpoint in its EndpointSlices. The events of
    /// Jobs and the operator's log contain "failed calling webhook". If the labels of the operator's namespace are
    /// unknown and the webhook selects namespaces by labels, this is a warning.
    ///
    /// # How to fix
    ///
    /// Repair the program behind the webhook. Exempt the operator's namespace from the webhook. If the program was
    /// removed, delete its configuration.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY514 "foreign-webhook-unreachable" Error needs Webhooks, also Operator,
        blocks Install Uninstall Reconcile
}

/// The blocked operations if the operator can still write to nodes.
const OF_PODS: &[Blocks] = &[Blocks::Install, Blocks::Uninstall];

fn detect(cluster: &Cluster, findings: &mut Findings) {
    // Another rule reports webhooks that also reject changes of custom resources.
    let reported = cluster.webhooks().unreachable("UPDATE", None);
    for refusing in cluster.webhooks().refusing() {
        let configuration = refusing.configuration;
        if reported.iter().any(|other| std::ptr::eq(other.configuration, configuration)) {
            continue;
        }
        let (name, webhook) = (&configuration.metadata.name, refusing.webhook);
        let finding = findings.report(
            Subject::object(&configuration.kind, name),
            format!(
                "every request for {} is rejected: {}, and webhook {} of {name} has failurePolicy Fail",
                list(&refusing.refuses),
                refusing.why,
                webhook.name
            ),
        );
        let reference = format!("{}/{name}", configuration.kind.to_lowercase());
        let policy = webhook.failure_policy.as_deref().unwrap_or("Fail (by default)");
        finding
            .evidence(&reference, "failurePolicy", policy)
            .evidence(&reference, "clientConfig.service", &refusing.why)
            .evidence(&reference, "rejects", list(&refusing.refuses));
        let of_nodes = refusing.refuses.contains(&"nodes");
        if !of_nodes {
            finding.blocks_only(OF_PODS);
        }
        if !refusing.certain {
            finding.severity(Severity::Warning).evidence(
                &reference,
                "selectors",
                "may not match: the labels of the operator's namespace and its objects were not read",
            );
        }
        if let Some(service) = &webhook.client_config.service {
            let words = ["get", "service,endpointslices,pods", "-n", &service.namespace];
            finding.kubectl(
                Grade::B0,
                "See why the program behind the webhook does not run, and repair it",
                words,
            );
        }
        let resource = configuration.resource();
        finding
            .kubectl(
                Grade::B1,
                if of_nodes {
                    "Or exempt the operator's requests from the rules and selectors of the webhook"
                } else {
                    "Or exempt the operator's namespace in the namespaceSelector of the webhook"
                },
                ["edit", resource, name],
            )
            .ignore_failures(
                "Or set failurePolicy to Ignore until the program runs",
                configuration,
                std::iter::once(refusing.index),
            )
            .caveat(
                "in the meantime, its checks are skipped for the whole cluster; its owner may revert the \
                 change",
            );
    }
}
