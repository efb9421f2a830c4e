mod change;

use self::change::{Change, Fix, change};
use super::{Blocks, Findings, Grade, Subject};
use crate::api::Skyhook;
use crate::cluster::pod::Pod;
use crate::cluster::{Cluster, PackageRun};
use crate::model::behavior;

rule! {
    /// A pod of a package is changed by admission, so the operator replaces it forever.
    ///
    /// # What it means
    ///
    /// The operator compares the pods of packages with what it would create: the image, the environment and
    /// the resources of their containers. A pod that differs is deleted and created again. If something
    /// changes every pod on creation, this never ends: pods come and go every few seconds, and no package
    /// progresses. If a container is added after the package's own containers and these are unchanged, the
    /// operator panics instead (a recovered panic in its log), for every custom resource, as long as that pod
    /// exists.
    ///
    /// # What causes it
    ///
    /// A mutating webhook or admission policy rewrites images to a mirror, adds containers or variables, or
    /// gives default resources to pods in the operator's namespace. A LimitRange does no harm if the package
    /// has no resources. If it has resources, a LimitRange that adds others, such as `ephemeral-storage`,
    /// does harm. Or the API server itself sets a default in a variable: `apiVersion` in a `fieldRef`,
    /// `divisor` in a `resourceFieldRef`.
    ///
    /// # How to confirm
    ///
    /// Compare `spec.initContainers` of the pod with the package in the spec of the same generation. The
    /// image of the first init container differs from the pod's `package` annotation; or there are containers
    /// that are not the package's; or a container has variables or resources that the spec does not contain.
    /// For the pod of an interrupt, the operator does not compare resources.
    ///
    /// # How to fix
    ///
    /// Exempt the operator's namespace from the webhook or policy that changes the pods; if the operator
    /// panics, delete the pod afterwards. Or set the changed values in the spec, if it has fields for them:
    /// the mirrored image, the same resources. Defaults of the API server have to be written into the spec:
    /// `apiVersion: v1`, `divisor: "0"`.
    ///
    /// # Since
    ///
    /// Up to v0.17, which run bare pods.
    SKY215 "pod-changed-by-admission" Error needs Skyhooks Pods,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !behavior::replaces_changed_pods(cluster) {
        return;
    }
    // Include pods that the operator is already deleting because of the change.
    for package_run in findings.package_runs().all() {
        let skyhook = cluster.skyhook(&package_run.skyhook);
        let Some(skyhook) = skyhook.filter(|s| !s.paused()) else {
            continue;
        };
        // Skip pods of another version: the operator replaces them anyway, or they uninstall that version.
        let package = skyhook.package(&package_run.package);
        let Some(package) = package.filter(|p| p.version == package_run.version) else {
            continue;
        };
        let generation = skyhook.metadata.generation;
        let mut pods = package_run.pods.iter().filter(|pod| !pod.ended());
        let found = pods.find_map(|pod| Some((pod, change(package, generation, package_run, pod)?)));
        let Some((pod, change)) = found else {
            continue;
        };
        // Only the panic concerns a disabled custom resource: it ends the operator's pass for all custom
        // resources.
        if skyhook.disabled() && change.fix != Fix::DeletePod {
            continue;
        }
        report(skyhook, findings, package_run, pod, change);
    }
}

fn report(
    skyhook: &Skyhook,
    findings: &mut Findings,
    package_run: &PackageRun<'_>,
    pod: &Pod,
    change: Change,
) {
    let (stage, package) = (&package_run.stage, &package_run.package);
    let finding = findings.report(
        Subject::package_run(package_run),
        match change.fix {
            Fix::DeletePod => format!(
                "the pod for stage {stage} of package {package} got an extra container at admission, and \
                 every operator reconcile fails while the pod exists"
            ),
            Fix::Defaults => format!(
                "the pod for stage {stage} of package {package} is repeatedly replaced: the API server set \
                 defaults in {} of the pod",
                change.what
            ),
            Fix::Exempt | Fix::Spec => format!(
                "the pod for stage {stage} of package {package} is repeatedly replaced: admission changed \
                 {} of the pod",
                change.what
            ),
        },
    );
    finding.evidence(package_run, change.field, change.is).evidence("operator", "asked for", change.asked);
    if change.fix != Fix::Defaults {
        finding.kubectl(
            Grade::B0,
            "See which webhooks and LimitRanges change pods, and exempt the operator's namespace from them",
            ["get", "mutatingwebhookconfigurations,limitranges", "-n", package_run.namespace()],
        );
    }
    match change.fix {
        Fix::Exempt => {}
        Fix::DeletePod => {
            finding.blocks_only(&[Blocks::Install, Blocks::Uninstall, Blocks::Reconcile]);
            let title = "Then delete the pod, so that the operator continues";
            finding.delete_pod(title, pod).caveat(
                "the script is killed, which may leave its work on the host unfinished; until the namespace is exempt, \
                 the next pod gets the container, too",
            );
        }
        Fix::Defaults | Fix::Spec => {
            let title = if change.fix == Fix::Spec {
                "Or put the values that admission sets into the spec"
            } else {
                "Write the defaults into the spec: `apiVersion: v1` in a fieldRef, `divisor: \"0\"` in a resourceFieldRef"
            };
            finding
                .edit(Grade::B2, title, skyhook)
                .caveat("its packages then run on the nodes, including their interrupts");
        }
    }
}
