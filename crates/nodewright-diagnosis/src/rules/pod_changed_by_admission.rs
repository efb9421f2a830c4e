use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Blocks, Findings, Grade, Subject};
use crate::api::{Package, Skyhook, quantity};
use crate::cluster::attempts::containers;
use crate::cluster::pod::{Container, EnvVar, Pod, Resources};
use crate::cluster::{Cluster, PackageRun};
use crate::text::Joined;

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
    /// sets no resources. If the package sets resources, a LimitRange that adds others, such as
    /// `ephemeral-storage`, has this effect. Or the API server itself sets a default in a variable:
    /// `apiVersion` in a `fieldRef`, `divisor` in a `resourceFieldRef`.
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
    /// # Affected versions
    ///
    /// Up to v0.17, which run bare pods.
    SKY215 "pod-changed-by-admission" Error needs Skyhooks Pods,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !crate::model::profile::replaces_changed_pods(cluster) {
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
        // Only the panic concerns a disabled custom resource: it ends the operator's reconcile for all custom
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
    finding.evidence(package_run, change.field, change.is).evidence("operator", "requested", change.asked);
    if change.fix != Fix::Defaults {
        finding.kubectl(
            Grade::B0,
            "See which webhooks and LimitRanges change pods; exempt the operator's namespace from the webhooks, or correct the LimitRange",
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
                 every new pod gets the extra container again",
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

/// A difference between a pod and the pod that the operator would create.
pub struct Change {
    pub what: &'static str,
    pub field: String,
    pub is: String,
    pub asked: String,
    pub fix: Fix,
}

impl Change {
    fn of_containers(at: usize, is: &str, asked: &str, fix: Fix) -> Change {
        let field = format!("spec.initContainers[{at}].name");
        Change { what: "the list of containers", field, is: is.to_owned(), asked: asked.to_owned(), fix }
    }
}

/// The remedy for a difference, besides an exemption of the namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fix {
    /// Only an exemption helps: the spec has no such field.
    Exempt,
    /// The spec can contain the same value.
    Spec,
    /// The spec must contain the same value: no exemption prevents the API server's defaults.
    Defaults,
    /// The operator panics on the pod.
    DeletePod,
}

/// The first difference, container by container, as in the operator's comparison (its `podMatchesPackage`).
pub fn change(package: &Package, generation: i64, package_run: &PackageRun<'_>, pod: &Pod) -> Option<Change> {
    let own = names(package_run);
    let containers = &pod.spec.init_containers;
    let of_generation = is_of_generation(containers.first()?, generation);
    for (at, (container, own)) in containers.iter().zip(&own).enumerate() {
        if container.name != *own {
            return Some(Change::of_containers(at, &container.name, own, Fix::Exempt));
        }
        // The other containers use the agent's image, from the operator's settings.
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
        // The spec may have been different when the pod was created.
        if !of_generation {
            continue;
        }
        let (asked, fix) = match at {
            0 => (Vec::new(), Fix::Exempt),
            _ => (asked_variables(package), Fix::Spec),
        };
        let found = environment(&asked, container, fix).or_else(|| resources(package, container, pod));
        if found.is_some() {
            return found;
        }
    }
    // The operator replaces a pod of another generation before it counts the containers.
    let more = containers.get(own.len())?;
    if !of_generation && !package_run.interrupt {
        return None;
    }
    Some(Change::of_containers(own.len(), &more.name, "none", Fix::DeletePod))
}

/// Names of the operator's containers for a package: its files, the stage, and the check of the stage.
fn names(package_run: &PackageRun<'_>) -> Vec<String> {
    let (package, interrupt) = (&package_run.package, package_run.interrupt);
    let files = (!interrupt).then(|| format!("{package}-init"));
    let stage = containers(package, &package_run.stage, interrupt);
    files.into_iter().chain(stage).collect()
}

/// Variables that the operator sets. It compares only the last one, which contains the generation.
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
    // Show only names: values may be secrets.
    let names = |all: &[&EnvVar]| or_none(all.iter().map(|env| env.name.as_str()).joined(", "));
    let (is, asked, fix) = match (defaulted(&asked, &given), names(&given), names(&asked)) {
        (Some(names), ..) => {
            (format!("{names}, with defaults"), format!("{names}, as in the spec"), Fix::Defaults)
        }
        (None, is, asked) if is == asked => (format!("{is} (other values)"), asked, fix),
        (None, is, asked) => (is, asked, fix),
    };
    Some(Change {
        what: "the environment",
        field: format!("variables of container {}", container.name),
        is,
        asked,
        fix,
    })
}

/// Variables that differ from the spec only by the API server's defaults for references; `None` for any other
/// difference.
fn defaulted(asked: &[&EnvVar], given: &[&EnvVar]) -> Option<String> {
    let completed = |env: &EnvVar| {
        let mut env = env.clone();
        let field = env.value_from.field_ref.as_mut();
        if let Some(field) = field.filter(|field| field.api_version.is_empty()) {
            "v1".clone_into(&mut field.api_version);
        }
        let resource = env.value_from.resource_field_ref.as_mut();
        if let Some(resource) = resource.filter(|resource| resource.divisor.is_empty()) {
            "0".clone_into(&mut resource.divisor);
        }
        env
    };
    let pairs = || asked.iter().zip(given);
    let alike = asked.len() == given.len() && pairs().all(|(a, g)| completed(a) == **g);
    let changed = pairs().filter(|(a, g)| a != g).map(|(a, _)| a.name.as_str()).joined(", ");
    alike.then_some(changed)
}

/// The first difference in resources. With resources in the spec, the operator compares all of them; without,
/// only a LimitRange may set any.
fn resources(package: &Package, container: &Container, pod: &Pod) -> Option<Change> {
    let annotations = &pod.metadata.annotations;
    let asked = match &package.resources {
        Some(resources) => asked_resources(resources),
        None if annotations.contains_key("kubernetes.io/limit-ranger") => return None,
        None => Resources::default(),
    };
    let Resources { requests, limits } = &container.resources;
    let (of, given, asked) = [("requests", requests, asked.requests), ("limits", limits, asked.limits)]
        .into_iter()
        .find(|(_, given, asked)| quantities(given) != quantities(asked))?;
    let of_the_spec = given.keys().all(|name| SETTABLE.contains(&name.as_str()));
    Some(Change {
        what: "the resources",
        field: format!("{of} of container {}", container.name),
        is: quantities(given),
        asked: quantities(&asked),
        fix: if of_the_spec { Fix::Spec } else { Fix::Exempt },
    })
}

/// The resources for which a package has fields.
const SETTABLE: [&str; 2] = ["cpu", "memory"];

/// The operator's container resources for the fields of a package; empty if all are zero.
fn asked_resources(fields: &Value) -> Resources {
    let of = |suffix: &str| -> BTreeMap<String, Value> {
        let fields = SETTABLE.iter().map(|name| {
            let field = fields.get(format!("{name}{suffix}"));
            ((*name).to_owned(), field.cloned().unwrap_or(json!("0")))
        });
        fields.collect()
    };
    let (requests, limits) = (of("Request"), of("Limit"));
    let zero = |quantity: &Value| quantity::parse(quantity) == Some(0.0);
    if requests.values().chain(limits.values()).all(zero) {
        return Resources::default();
    }
    Resources { requests, limits }
}

/// Formats quantities in their own notation, as the operator compares them: `cpu 500m, memory 1Gi`.
fn quantities(all: &BTreeMap<String, Value>) -> String {
    or_none(all.iter().map(|(name, q)| format!("{name} {}", quantity::value_text(q))).joined(", "))
}

fn or_none(list: String) -> String {
    if list.is_empty() { "none".to_owned() } else { list }
}

/// Whether the pod is from this generation of the spec: its variable `SKYHOOK_DIR` ends in the generation.
fn is_of_generation(container: &Container, generation: i64) -> bool {
    let suffix = format!("-{generation}");
    let mut env = container.env.iter();
    env.any(|env| env.name == DIRECTORY && env.value.ends_with(&suffix))
}

/// The environment variables in the spec.
fn asked_variables(package: &Package) -> Vec<EnvVar> {
    let env = package.whole.get("env").cloned().unwrap_or_default();
    serde_json::from_value(env).unwrap_or_default()
}
