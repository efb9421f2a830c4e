use super::retry::delete_pod;
use super::{Blocks, Findings, Grade, Subject};
use crate::api::Package;
use crate::cluster::attempts::containers;
use crate::cluster::pod::{Container, EnvVar, Pod};
use crate::cluster::{Cluster, PackageRun};

rule! {
    /// A pod of a package is changed by admission, so the operator replaces it forever.
    ///
    /// # What it means
    ///
    /// The operator compares the pods of packages with what it would create: the image, the
    /// environment and the resources of their containers. A pod that differs is deleted and created
    /// again. If something changes every pod on creation, this never ends: pods come and go
    /// every few seconds, and no package progresses. If a container is added after its own and these are unchanged, the
    /// operator panics instead (a recovered panic in its log), for every custom resource, as long as that pod exists.
    ///
    /// # What causes it
    ///
    /// A mutating webhook or admission policy rewrites images to a mirror, adds containers or
    /// variables, or gives default resources to pods in the operator's namespace. A LimitRange does
    /// no harm: the operator recognizes its annotation.
    ///
    /// # How to confirm
    ///
    /// Compare `spec.initContainers` of the pod with the package in the spec of the same generation. The image
    /// of the first one is not the one in the pod's `package` annotation; or there are containers that are not the
    /// package's; or one has variables or resources that the spec does not ask for. Of the pod of an
    /// interrupt, the operator does not compare resources.
    ///
    /// # How to fix
    ///
    /// Exempt the operator's namespace from whatever changes the pods. If the operator panics, delete the pod
    /// then. Or set the same values in the spec, where it has such values: the mirrored image, the same resources.
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
    for package_run in cluster.package_runs().all() {
        let skyhook = cluster.skyhook(&package_run.skyhook);
        let Some(skyhook) = skyhook.filter(|s| !s.paused() && !s.disabled()) else {
            continue;
        };
        // A pod of another version is replaced for that, or is left to uninstall it.
        let package = skyhook.package(&package_run.package);
        let Some(package) = package.filter(|p| p.version == package_run.version) else {
            continue;
        };
        let generation = skyhook.metadata.generation;
        let mut pods = package_run.pods.iter().filter(|pod| !pod.ended());
        let found =
            pods.find_map(|pod| Some((pod, change(package, generation, package_run, pod)?)));
        let Some((pod, change)) = found else {
            continue;
        };
        report(cluster, findings, package_run, pod, change);
    }
}

fn report(
    cluster: &Cluster,
    findings: &mut Findings,
    package_run: &PackageRun<'_>,
    pod: &Pod,
    change: Change,
) {
    let (stage, package) = (&package_run.stage, &package_run.package);
    let skyhook = package_run.skyhook.as_str();
    let finding = findings.report(
        Subject::package_run(package_run),
        if change.fix == Fix::DeletePod {
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
    finding
        .evidence(package_run.reference(), change.field, change.is)
        .evidence("operator", "asked for", change.asked)
        .kubectl(
            Grade::B0,
            "See which webhooks change pods, and exempt the operator's namespace from them",
            ["get", "mutatingwebhookconfigurations"],
        );
    match change.fix {
        Fix::Exempt => {}
        Fix::DeletePod => {
            finding.blocks_only(&[Blocks::Install, Blocks::Uninstall, Blocks::Reconcile]);
            let title = "Then delete the pod, so that the operator continues";
            delete_pod(finding, title, package_run, pod).caveat(
                "the script is killed, which may leave its work on the host unfinished; until the namespace is exempt, \
                 the next pod gets the container, too",
            );
        }
        Fix::Spec => {
            finding
                .kubectl(
                    Grade::B2,
                    "Or put the values that admission sets into the spec",
                    ["edit", &cluster.flavor().resource(), skyhook],
                )
                .caveat("its packages then run on the nodes, including their interrupts");
        }
    }
}

/// What differs from what the operator asked for.
struct Change {
    what: &'static str,
    field: String,
    is: String,
    asked: String,
    fix: Fix,
}

/// What helps, besides an exemption of the namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fix {
    /// Nothing: the spec does not say it.
    Exempt,
    /// The spec may ask for the same.
    Spec,
    /// The operator panics on the pod.
    DeletePod,
}

/// What the operator sees first as it compares one container after the other (its `podMatchesPackage`).
fn change(
    package: &Package,
    generation: i64,
    package_run: &PackageRun<'_>,
    pod: &Pod,
) -> Option<Change> {
    let own = names(package_run);
    let containers = &pod.spec.init_containers;
    let of_generation = is_of_generation(containers.first()?, generation);
    for (at, (container, own)) in containers.iter().zip(&own).enumerate() {
        if container.name != *own {
            return Some(Change {
                what: "the list of containers",
                field: format!("spec.initContainers[{at}].name"),
                is: container.name.clone(),
                asked: own.clone(),
                fix: Fix::Exempt,
            });
        }
        // The others have the agent's, which the operator's settings say.
        let image = package_run.image.as_ref().filter(|_| at == 0);
        if let Some(image) = image.filter(|i| !package_run.interrupt && container.image != **i) {
            return Some(Change {
                what: "the image",
                field: format!("image of container {own}"),
                is: container.image.clone(),
                asked: image.clone(),
                fix: Fix::Spec,
            });
        }
        if package_run.interrupt {
            if let Some(change) = environment(&[], container, Fix::Exempt) {
                return Some(change);
            }
            continue;
        }
        // The spec may have asked for something else when it was made.
        if !of_generation {
            continue;
        }
        let (asked, fix) = match at {
            0 => (Vec::new(), Fix::Exempt),
            _ => (asked_variables(package), Fix::Spec),
        };
        let found = environment(&asked, container, fix);
        let found = found.or_else(|| resources(package, container, pod));
        if found.is_some() {
            return found;
        }
    }
    let more = containers.get(own.len())?;
    Some(Change {
        what: "the list of containers",
        field: format!("spec.initContainers[{}].name", own.len()),
        is: more.name.clone(),
        asked: "none".to_owned(),
        fix: Fix::DeletePod,
    })
}

/// The containers that the operator asks for: of a package the one with its files, the stage, and the check of the stage.
fn names(package_run: &PackageRun<'_>) -> Vec<String> {
    let (package, interrupt) = (&package_run.package, package_run.interrupt);
    let files = (!interrupt).then(|| format!("{package}-init"));
    let stage = containers(package, &package_run.stage, interrupt);
    files.into_iter().chain(stage).collect()
}

/// Variables that the operator sets in containers, and does not compare; it compares the last one, which says the generation.
const OWN_VARIABLES: [&str; 6] = [
    "SKYHOOK_LOG_DIR",
    "SKYHOOK_ROOT_DIR",
    "COPY_RESOLV",
    "SKYHOOK_RESOURCE_ID",
    "SKYHOOK_NODE_ORDER",
    DIRECTORY,
];

const DIRECTORY: &str = "SKYHOOK_DIR";

fn environment(asked: &[EnvVar], container: &Container, fix: Fix) -> Option<Change> {
    let foreign = |env: &&EnvVar| !OWN_VARIABLES.contains(&env.name.as_str());
    let asked: Vec<&EnvVar> = asked.iter().filter(foreign).collect();
    let given: Vec<&EnvVar> = container.env.iter().filter(foreign).collect();
    if asked == given {
        return None;
    }
    // Values may be secrets.
    let names = |all: &[&EnvVar]| {
        let names: Vec<&str> = all.iter().map(|env| env.name.as_str()).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let (mut is, asked) = (names(&given), names(&asked));
    if is == asked {
        is.push_str(" (other values)");
    }
    Some(Change {
        what: "the environment",
        field: format!("variables of container {}", container.name),
        is,
        asked,
        fix,
    })
}

fn resources(package: &Package, container: &Container, pod: &Pod) -> Option<Change> {
    let annotations = &pod.metadata.annotations;
    if package.resources.is_some() || annotations.contains_key("kubernetes.io/limit-ranger") {
        return None;
    }
    let limits = &container.resources.limits;
    let (of, given) = if container.resources.requests.is_empty() {
        ("limits", limits)
    } else {
        ("requests", &container.resources.requests)
    };
    if given.is_empty() {
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
        field: format!("{of} of container {}", container.name),
        is: given.join(", "),
        asked: "none".to_owned(),
        fix: Fix::Spec,
    })
}

/// Whether the operator made it from this generation of the spec, as the directory it copies to says.
fn is_of_generation(container: &Container, generation: i64) -> bool {
    let suffix = format!("-{generation}");
    let mut env = container.env.iter();
    env.any(|env| env.name == DIRECTORY && env.value.ends_with(&suffix))
}

/// The variables that the spec asks for.
fn asked_variables(package: &Package) -> Vec<EnvVar> {
    let env = package.whole.get("env").cloned().unwrap_or_default();
    serde_json::from_value(env).unwrap_or_default()
}
