use super::{Blocks, Findings, Grade, Subject};
use crate::api::Skyhook;
use crate::cluster::pod::{Container, Pod};
use crate::cluster::{Cluster, PackageRun};

rule! {
    /// A pod of a package is changed by admission, so the operator replaces it forever.
    ///
    /// # What it means
    ///
    /// The operator compares the pods of packages with what it would create: the image, the
    /// environment and the resources of their containers. A pod that differs is deleted and created
    /// again. If something changes every pod on creation, this never ends: pods come and go
    /// every few seconds, and no package progresses. If a container is added after its own, the operator panics instead
    /// (a recovered panic in its log), for every custom resource, as long as that pod exists.
    ///
    /// # What causes it
    ///
    /// A mutating webhook or admission policy rewrites images to a mirror, adds containers or
    /// variables, or gives default resources to pods in the operator's namespace. A LimitRange does
    /// no harm: the operator recognizes its annotation.
    ///
    /// # How to confirm
    ///
    /// The container's image is not the one in the pod's `package` annotation; or its first
    /// container is not the package's; or it has resources that the spec of the same generation does
    /// not ask for.
    ///
    /// # How to fix
    ///
    /// Exempt the operator's namespace from whatever changes the pods. Or set the same values in the
    /// spec: the mirrored image, the same resources.
    ///
    /// # Since
    ///
    /// Up to v0.17, which run bare pods.
    SKY215 "pod-changed-by-admission" Error needs Skyhooks Pods,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.operator_before(0, 18) {
        return;
    }
    // A pod that is being deleted for it says the same as one that is yet to be.
    for package_run in cluster.package_runs().all().iter().filter(|e| !e.interrupt) {
        let skyhook = cluster.skyhook(&package_run.skyhook);
        let Some(skyhook) = skyhook.filter(|s| !s.paused() && !s.disabled()) else {
            continue;
        };
        let pods = package_run.pods.iter().filter(|pod| !pod.ended());
        let Some(change) = pods
            .filter_map(|pod| change(skyhook, package_run, pod))
            .next()
        else {
            continue;
        };
        let (stage, package) = (&package_run.stage, &package_run.package);
        let finding = findings.report(
            Subject::node(package_run.node, Some(skyhook.name())).package(package),
            if change.ends_pass {
                format!(
                    "the pod for stage {stage} of package {package} got an extra container at admission, and \
                     every reconcile by the operator fails while the pod exists"
                )
            } else {
                format!(
                    "the pod for stage {stage} of package {package} is repeatedly replaced: admission changed \
                     {} of the pod",
                    change.what
                )
            },
        );
        if change.ends_pass {
            finding.blocks_only(&[Blocks::Install, Blocks::Uninstall, Blocks::Reconcile]);
        }
        finding
            .evidence(package_run.reference(), change.field, change.is)
            .evidence("operator", "asked for", change.asked)
            .kubectl(
                Grade::B0,
                "See which webhooks change pods, and exempt the operator's namespace from them",
                ["get", "mutatingwebhookconfigurations"],
            );
        if change.ends_pass {
            continue;
        }
        finding
            .kubectl(
                Grade::B2,
                "Or put the values that admission sets into the spec",
                ["edit", &cluster.flavor().resource(), skyhook.name()],
            )
            .caveat("its packages then run on the nodes, including their interrupts");
    }
}

/// What differs from what the operator asked for.
struct Change {
    what: &'static str,
    field: String,
    is: String,
    asked: String,
    /// The operator does not expect it at all.
    ends_pass: bool,
}

/// The containers of a package's pod: its files, the stage, and the check of the stage.
const CONTAINERS: usize = 3;

fn change(skyhook: &Skyhook, package_run: &PackageRun<'_>, pod: &Pod) -> Option<Change> {
    let image = package_run.image.as_ref()?;
    let first = pod.spec.init_containers.first()?;
    let own = format!("{}-init", package_run.package);
    if first.name != own {
        return Some(Change {
            what: "the list of containers",
            field: "spec.initContainers[0].name".to_owned(),
            is: first.name.clone(),
            asked: own,
            ends_pass: false,
        });
    }
    if let Some(more) = pod.spec.init_containers.get(CONTAINERS) {
        return Some(Change {
            what: "the list of containers",
            field: format!("spec.initContainers[{CONTAINERS}].name"),
            is: more.name.clone(),
            asked: "none".to_owned(),
            ends_pass: true,
        });
    }
    if first.image != *image {
        return Some(Change {
            what: "the image",
            field: format!("image of container {own}"),
            is: first.image.clone(),
            asked: image.clone(),
            ends_pass: false,
        });
    }
    let package = skyhook.package(&package_run.package)?;
    let ours = package.resources.is_none()
        && !pod
            .metadata
            .annotations
            .contains_key("kubernetes.io/limit-ranger")
        && is_of_generation(first, skyhook.metadata.generation);
    let limits = &first.resources.limits;
    let (of, given) = if first.resources.requests.is_empty() {
        ("limits", limits)
    } else {
        ("requests", &first.resources.requests)
    };
    if !ours || given.is_empty() {
        return None;
    }
    let given: Vec<String> = given
        .iter()
        .map(|(name, quantity)| {
            let quantity = quantity
                .as_str()
                .map_or_else(|| quantity.to_string(), str::to_owned);
            format!("{name} {quantity}")
        })
        .collect();
    Some(Change {
        what: "the resources",
        field: format!("{of} of container {own}"),
        is: given.join(", "),
        asked: "none".to_owned(),
        ends_pass: false,
    })
}

/// Whether the operator made it from this generation of the spec, as the directory it copies to says.
fn is_of_generation(container: &Container, generation: i64) -> bool {
    let suffix = format!("-{generation}");
    container
        .env
        .iter()
        .any(|env| env.name == "SKYHOOK_DIR" && env.value.ends_with(&suffix))
}
