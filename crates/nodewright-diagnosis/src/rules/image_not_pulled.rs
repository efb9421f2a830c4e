use super::support::overdue::succeeded;
use super::{Finding, Findings, Grade, Subject};
use crate::api::Entry;
use crate::cluster::pod::{ContainerTrouble, TroubleKind};
use crate::cluster::{Cluster, Event, PackageRun, Pod};

rule! {
    /// The image of a package cannot be pulled on a node.
    ///
    /// # What it means
    ///
    /// The container runtime cannot pull the image. The operator does not check this: the node
    /// state continues to show `in_progress`.
    ///
    /// # What causes it
    ///
    /// A wrong image or version of the package or of the agent that runs its stages, a missing pull secret, a registry
    /// that is down or unreachable. A node that has just run its interrupt can also fail here, when the image for the
    /// final container is not cached.
    ///
    /// # How to confirm
    ///
    /// A container of the package's pod waits with `ErrImagePull`, `ImagePullBackOff` or
    /// `InvalidImageName`; its message, or the pod's events, show the response of the registry. For the
    /// first ten minutes this is a warning if the registry could not be reached, or if nothing
    /// explains why the first attempt failed: the next may succeed.
    ///
    /// # How to fix
    ///
    /// Correct the image, version or pull secret; the operator then replaces the pod. The image of the agent is the
    /// `agentImageOverride` of the package, or else the operator's `AGENT_IMAGE`. If the registry was down, the kubelet
    /// retries automatically. Operators before v0.16.0 also uninstall a version that left the spec: if its image no longer
    /// exists, reset that version on the node, which skips the uninstall.
    ///
    /// # Affected versions
    ///
    /// All operators (upstream issue 306).
    SKY202 "image-not-pulled" Error needs Pods Jobs, also Events,
        blocks Install Uninstall, retried true
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for package_run in package_runs.all().iter().filter(|run| run.alive()) {
        let Some((pod, trouble)) = package_run.trouble() else {
            continue;
        };
        if trouble.kind != TroubleKind::Image || pod.ended() || pod.metadata.deleting() {
            continue;
        }
        let (image, package, stage) = (trouble.image, &package_run.package, &package_run.stage);
        let has_run = succeeded(pod);
        let agent = package_run.runs_agent(trouble.container);
        let of = if agent { "the agent for package" } else { "package" };
        let response = response(cluster, pod, &trouble);
        let refusal = PullFailure::of(&response);
        let cannot = match refusal {
            PullFailure::RateLimit => "cannot be pulled because of the registry's rate limit",
            PullFailure::Credentials => {
                "cannot be pulled because the registry does not accept the credentials"
            }
            PullFailure::NotFound => "does not exist in the registry",
            PullFailure::Platform => "has no build for the architecture of the node",
            PullFailure::Other => "cannot be pulled",
        };
        let finding = findings.report(
            Subject::package_run(package_run),
            if has_run {
                format!(
                    "image {image} of {of} {package} {cannot}: stage {stage} has run but does not complete"
                )
            } else {
                format!("image {image} of {of} {package} {cannot}, so stage {stage} does not start")
            },
        );
        if may_come(&response, &trouble) {
            finding.warning_if(cluster.is_recent(pod.metadata.creation_timestamp));
        }
        finding
            .set_failing_since(pod.metadata.creation_timestamp)
            .since(pod.metadata.creation_timestamp)
            .container_message(cluster, pod, &trouble)
            .describe_pod("See the error from the registry", pod)
            .effect_of(&["SKY213"]);
        if has_run {
            finding.caveat(
                "the stage completes once the image can be pulled; a reset would run the stage and its interrupt again",
            );
            continue;
        }
        if matches!(refusal, PullFailure::Platform) {
            finding.architecture(cluster, package_run.node);
        }
        if matches!(refusal, PullFailure::RateLimit | PullFailure::Credentials) {
            pull_with_secret(cluster, finding, pod, &refusal);
            continue;
        }
        if agent {
            correct_agent_image(cluster, finding, package_run);
            continue;
        }
        if let Some(entry) = left_spec(cluster, package_run) {
            finding.skip_uninstall(&package_run.skyhook, package_run.node, entry);
            continue;
        }
        let (title, caveat) = if package_run.stage.is_uninstall() {
            // A changed version counts as never installed, so the uninstall would end without having run.
            (
                "Correct the image, and do not change the version",
                "the operator then replaces the pod on every node; with another version, the uninstall would not run",
            )
        } else if matches!(refusal, PullFailure::Platform) {
            (
                "Use an image that is built for this architecture, or select only nodes whose architecture the image supports",
                "the operator then replaces the pod on every node",
            )
        } else {
            ("Correct the image or the version", "the operator then replaces the pod on every node")
        };
        let edit = ["edit", &cluster.flavor().resource(), &package_run.skyhook];
        finding.kubectl(Grade::B2, title, edit).caveat(caveat);
    }
}

/// The node-state entry of a version that an older operator uninstalls because it left the spec. No edit of the spec
/// changes its image; without the entry, the operator deletes the pod and counts the version as uninstalled.
fn left_spec<'a>(cluster: &'a Cluster, package_run: &PackageRun<'_>) -> Option<&'a Entry> {
    let (name, version) = (&package_run.package, &package_run.version);
    let skyhook = cluster.skyhook(&package_run.skyhook)?;
    let kept = skyhook.package(name).is_some_and(|p| p.version == *version);
    if kept || !package_run.stage.is_uninstall() || cluster.operator().knows_uninstall() {
        return None;
    }
    let mut entries = cluster.on_node(cluster.node(package_run.node)?, skyhook.name())?.entries().iter();
    entries.find(|entry| entry.identity() == (name.as_str(), version.as_str()))
}

/// Adds remedies for the agent's image: the package's override, or the operator's setting for all packages.
fn correct_agent_image(cluster: &Cluster, finding: &mut Finding, package_run: &PackageRun<'_>) {
    const REPLACES: &str = "the operator then replaces the pod on every node";
    let edit = ["edit", &cluster.flavor().resource(), &package_run.skyhook];
    let skyhook = cluster.skyhook(&package_run.skyhook);
    let package = skyhook.and_then(|s| s.package(&package_run.package));
    let own = package.and_then(|p| p.whole["agentImageOverride"].as_str()).filter(|image| !image.is_empty());
    if let Some((skyhook, image)) = skyhook.zip(own) {
        finding
            .package_field(skyhook, &package_run.package, "agentImageOverride", image)
            .kubectl(Grade::B2, "Correct the package's agentImageOverride", edit)
            .caveat(REPLACES);
        return;
    }
    if let Some(deployment) = cluster.operator().deployment() {
        if let Some(image) = deployment.env("AGENT_IMAGE") {
            finding.evidence(deployment, "AGENT_IMAGE", image);
        }
        finding.edit_operator(Grade::B2, "Correct the operator's AGENT_IMAGE", deployment).caveat(
            "the operator restarts and then replaces the pods of every package that waits for the image",
        );
    }
    let title = if cluster.operator().deployment().is_none() {
        "Correct the operator's AGENT_IMAGE, or set agentImageOverride on the package"
    } else {
        "Or set agentImageOverride on the package"
    };
    finding.kubectl(Grade::B2, title, edit).caveat(REPLACES);
}

/// Adds remedies for the pull secret: the operator puts its `IMAGE_PULL_SECRET` into every package pod.
fn pull_with_secret(cluster: &Cluster, finding: &mut Finding, pod: &Pod, refusal: &PullFailure) {
    let missing = |event: &Event| {
        let (_, names) = event.message.split_once('(').filter(|_| event.reason == MISSING_SECRET)?;
        names.split_once([',', ')']).map(|(name, _)| name.to_owned())
    };
    if let Some(secret) = cluster.events_about("Pod", pod.name()).find_map(missing) {
        let title =
            format!("Create secret {secret} with credentials for the registry: the kubelet did not find it");
        finding.kubectl(Grade::B0, title, ["get", "secret", "-n", pod.namespace(), &secret]);
    }
    let operator = cluster.operator().deployment();
    let secret = operator.and_then(|operator| Some((operator, operator.env("IMAGE_PULL_SECRET")?)));
    if let Some((operator, secret)) = secret {
        let title =
            format!("Check that secret {secret} has valid credentials for the registry, and renew them");
        let words = ["get", "secret", "-n", operator.namespace(), secret];
        finding.evidence(operator, "IMAGE_PULL_SECRET", secret).kubectl(Grade::B0, title, words);
    } else if let Some(operator) = operator {
        let title = "Set the operator's IMAGE_PULL_SECRET to a secret with credentials for the registry";
        finding
            .edit_operator(Grade::B2, title, operator)
            .caveat("the operator restarts, and new package pods use the secret");
    }
    if matches!(refusal, PullFailure::RateLimit) {
        finding.caveat("the kubelet retries automatically; pulls with credentials, or through a mirror, have a higher limit");
    }
}

/// The reason of the kubelet's event about pull secrets that it cannot read, whose message lists them in parentheses.
const MISSING_SECRET: &str = "FailedToRetrieveImagePullSecret";

/// The registry's reason for refusing an image.
enum PullFailure {
    RateLimit,
    Credentials,
    NotFound,
    /// The image has no build for the node's architecture.
    Platform,
    /// Not refused, or without a clear reason: some registries deny access to images that do not exist.
    Other,
}

impl PullFailure {
    fn of(response: &str) -> PullFailure {
        let mentions = |words: &[&str]| words.iter().any(|word| response.contains(word));
        let absent = mentions(&["not found", "unknown", "does not exist"]);
        let denied =
            mentions(&["unauthorized", "authentication required", "no basic auth", "denied", "forbidden"]);
        if mentions(&["no match for platform", "no matching manifest for"]) {
            PullFailure::Platform
        } else if mentions(&["too many requests", "toomanyrequests", "rate limit"]) {
            PullFailure::RateLimit
        } else {
            match (absent, denied) {
                (false, true) => PullFailure::Credentials,
                (true, false) => PullFailure::NotFound,
                _ => PullFailure::Other,
            }
        }
    }
}

/// Error messages if a registry is unreachable or overloaded.
const UNREACHABLE: [&str; 15] = [
    "timeout",
    "timed out",
    "deadline exceeded",
    "connection refused",
    "connection reset",
    "no such host",
    "no route to host",
    "unreachable",
    "server misbehaving",
    "temporary failure",
    "too many requests",
    "toomanyrequests",
    "bad gateway",
    "unavailable",
    "unexpected eof",
];

/// Error messages if a registry refuses to provide the image.
const REFUSED: [&str; 7] =
    ["not found", "unknown", "does not exist", "denied", "unauthorized", "forbidden", "invalid"];

/// The response of the registry in lower case, without the name of the image. The kubelet's back-off message may omit
/// it, so the events are searched, too.
fn response(cluster: &Cluster, pod: &Pod, trouble: &ContainerTrouble<'_>) -> String {
    let failures = cluster.events_about("Pod", pod.name());
    let newest =
        failures.filter(|e| e.reason == "Failed" && e.message.contains("pull")).max_by_key(|e| e.last);
    let why = format!("{} {}", trouble.message, newest.map_or("", |e| &e.message));
    why.replace(trouble.image, "").to_lowercase()
}

/// Whether the next attempt may succeed: the registry was unreachable, or the first attempt failed without a refusal.
fn may_come(response: &str, trouble: &ContainerTrouble<'_>) -> bool {
    let mentions = |words: &[&str]| words.iter().any(|word| response.contains(word));
    match trouble.reason {
        "RegistryUnavailable" => true,
        "ErrImagePull" => mentions(&UNREACHABLE) || !mentions(&REFUSED),
        "ImagePullBackOff" => mentions(&UNREACHABLE),
        _ => false,
    }
}
