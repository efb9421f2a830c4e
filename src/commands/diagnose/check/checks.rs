//! The checks of the installation, outermost component first: API server, CRDs, operator, permissions, webhooks,
//! versions, settings.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{Check, Expectation, operator_log, rules};
use crate::api::ApiFlavor;
use crate::cluster::admission::WebhookConfiguration;
use crate::cluster::installation::{Definition, Installation};
use crate::cluster::{Cluster, Deployment, Kubernetes, Source, admission};
use crate::rules::support::mute::Mutes;
use crate::rules::{Blocks, Finding, NotChecked, Report, Rule, Scope, diagnose};
use crate::view::{Joined, age, ago, list};

pub fn checks(cluster: &Cluster, installation: &Installation, changes: Check, mutes: &Mutes) -> Vec<Check> {
    let mut report = diagnose(cluster, &Scope { rules: rules(), ..Scope::default() });
    mutes.mark(cluster, &mut report.findings);
    let findings = &report.findings;
    let mut checks = vec![server(cluster, installation), definitions(cluster, installation)];
    checks.extend(operator(cluster, findings));
    checks.push(leader(cluster, installation));
    checks.push(in_time(cluster, findings));
    checks.push(rights(cluster));
    checks.push(changes);
    checks.push(webhooks(cluster, findings));
    checks.push(certificates(cluster));
    checks.extend(kubernetes(cluster));
    checks.push(image_and_chart(cluster));
    checks.push(operator_and_api(cluster));
    checks.push(uninstall(cluster, installation));
    checks.push(settings(cluster, &report));
    checks.push(sizes(cluster, findings));
    checks
}

fn server(cluster: &Cluster, installation: &Installation) -> Check {
    let expected = Expectation("server", "the API server responds");
    if cluster.from_files {
        return expected.not_checked("requires a cluster, not a capture");
    }
    match expected.read(cluster, &installation.server) {
        Ok(version) => expected.good(format!("Kubernetes {version}")),
        Err(check) => check,
    }
}

/// A check of the version of Kubernetes; `None` if it has all features.
fn kubernetes(cluster: &Cluster) -> Option<Check> {
    let missing = cluster.missing_features();
    let Kubernetes { version } = cluster.kubernetes().filter(|_| !missing.is_empty())?;
    let losses = missing
        .iter()
        .map(|f| format!("{} (new in 1.{}), without which {}", f.name, f.since, f.loss))
        .joined("; ");
    let expected = Expectation("versions", "Kubernetes has the features that the operator relies on");
    let check = expected.warning(format!("Kubernetes {version} lacks {losses}"));
    Some(check.hint("upgrade Kubernetes"))
}

fn definitions(cluster: &Cluster, installation: &Installation) -> Check {
    let expected = Expectation("definitions", "the operator's CRDs are installed and served");
    let found = match expected.read(cluster, &installation.definitions) {
        Ok(found) => found,
        Err(check) => return check,
    };
    let flavor = cluster.flavor();
    let mut wrong = Vec::new();
    for name in Definition::names(flavor) {
        match found.iter().find(|d| d.metadata.name == name) {
            None => wrong.push(format!("{name} does not exist")),
            Some(definition) if definition.metadata.deleting() => {
                wrong.push(format!("{name} is being deleted"));
            }
            Some(definition) if !definition.established() || definition.served().is_empty() => {
                wrong.push(format!("{name} is not served"));
            }
            Some(_) => {}
        }
    }
    if !wrong.is_empty() {
        return expected.error(list(&wrong)).hint("install the CRDs from the operator's chart");
    }
    let versions = found.iter().map(|d| format!("{} ({})", d.metadata.name, list(&d.served())));
    expected.good(list(&versions.collect::<Vec<_>>()))
}

fn operator(cluster: &Cluster, findings: &[Finding]) -> Vec<Check> {
    let expected = Expectation("operator", "the operator runs");
    let operators = match expected.read(cluster, &cluster.operators) {
        Ok(operators) => operators,
        Err(check) => return vec![check],
    };
    if let Some(check) = expected.check_findings(findings, &["SKY501"]) {
        return vec![check];
    }
    if operators.is_empty() {
        let check = expected.error("no deployment of the operator was found");
        return vec![check.hint("kubectl get deployments -A -l control-plane=controller-manager")];
    }
    let acting = cluster.operator().acting();
    let acts = |d: &Deployment| acting.iter().any(|acting| std::ptr::eq(*acting, d));
    let one = Expectation("operator", "one operator works on the custom resources");
    let several = one.check_findings(findings, &["SKY508"]);
    let each = operators.iter().map(|deployment| {
        if acts(deployment) || acting.is_empty() {
            replicas(deployment, expected)
        } else {
            expected.good(format!("{deployment} is on standby, because another operator is active"))
        }
    });
    several.into_iter().chain(each).collect()
}

fn replicas(deployment: &Deployment, expected: Expectation) -> Check {
    let (wanted, available) = (deployment.replicas(), deployment.available_replicas());
    let namespace = deployment.namespace();
    let version = deployment.operator_version();
    let version = version.map_or("of unknown version".to_owned(), |v| v.to_string());
    let message =
        format!("deployment {namespace}/{}, {version}, {available} of {wanted} available", deployment.name());
    let describe = format!("kubectl describe deployment,pods -n {namespace}");
    if !deployment.observed() {
        return expected.not_checked(format!("{message}; not yet observed by the deployment controller"));
    }
    match available {
        0 => expected.error(message).hint(describe),
        n if n < wanted => expected.warning(message).hint(describe),
        _ => expected.good(message),
    }
}

/// The rules about controllers that do not act in time.
pub const LATE: [&str; 2] = ["SKY228", "SKY229"];

fn in_time(cluster: &Cluster, findings: &[Finding]) -> Check {
    let expected = Expectation("operator", "no action of the operator or the job controller is overdue");
    let found = expected.check_findings(findings, &LATE);
    found.unwrap_or_else(|| expected.good_if_read(cluster, &cluster.skyhooks, "nothing is overdue"))
}

fn leader(cluster: &Cluster, installation: &Installation) -> Check {
    let expected = Expectation("operator", "leader election");
    let leases = match expected.read(cluster, &installation.leases) {
        Ok(leases) => leases,
        Err(check) => return check,
    };
    let Some(lease) = leases.iter().filter(|lease| lease.is_operators()).max_by_key(|l| l.renewed()) else {
        let elects = cluster.operators.iter().find_map(|d| d.env("LEADER_ELECTION"));
        return match elects {
            Some("false") => expected.good("leader election is turned off"),
            _ => expected
                .warning("no leader election lease exists")
                .hint(format!("{} (without leader election, no lease is expected)", operator_log(cluster))),
        };
    };
    let name = lease.name();
    let Some(since_renewed) = lease.age(cluster.taken_at) else {
        return expected.warning(format!("lease {name} has never been renewed"));
    };
    let holder = lease.holder();
    let since = ago(lease.renewed(), cluster.taken_at);
    if since_renewed < -lease.patience() {
        return expected
            .not_checked(format!("lease {name} has a renewal time in the future: the clocks differ"))
            .hint("synchronize the clocks of this machine and the operator's node");
    }
    if since_renewed > lease.patience() {
        return expected
            .error(format!("lease {name} was last renewed {since}, by {holder:?}"))
            .hint(format!("{}; if its replicas hang, restart them", operator_log(cluster)));
    }
    if holder.is_empty() {
        expected.error(format!("lease {name} has no holder")).hint(operator_log(cluster))
    } else {
        expected.good(format!("{holder} holds lease {name}, renewed {since}"))
    }
}

/// Checks that the sources of the rules could be read.
fn rights(cluster: &Cluster) -> Check {
    let expected = Expectation("rights", "permission to read the objects that the rules need");
    let mut refused = Vec::new();
    let mut failed = Vec::new();
    for source in Scope::default().needs() {
        match cluster.source(source).unread() {
            Some(why) if why.is_forbidden() => refused.push(source.to_string()),
            Some(why) => failed.push(format!("{source}: {why}")),
            None => {}
        }
    }
    let withheld = !refused.is_empty() || !failed.is_empty();
    let check = if !refused.is_empty() {
        expected
            .warning(format!("missing permission: read {}", list(&refused)))
            .hint("kubectl skyhook rbac --for viewer")
    } else if !failed.is_empty() {
        expected.not_checked(list(&failed))
    } else if cluster.from_files {
        return expected.not_checked("requires a cluster, not a capture");
    } else {
        expected.good("all needed objects were read")
    };
    Check { withheld, ..check }
}

fn webhooks(cluster: &Cluster, findings: &[Finding]) -> Check {
    let expected = Expectation("webhooks", "the API server can call the admission webhooks");
    if let Some(check) = expected.check_findings(findings, &["SKY505", "SKY514"]) {
        return check;
    }
    match expected.read(cluster, &cluster.source(Source::Webhooks)) {
        Ok(0) => expected.good("no webhooks exist for custom resources"),
        Ok(_) => expected.good(tested(cluster)),
        Err(check) => Check { withheld: check.withheld && !cluster.from_files, ..check },
    }
}

/// The configurations whose backends were checked; the others have failurePolicy Ignore or match other requests.
fn tested(cluster: &Cluster) -> String {
    let all = cluster.admission.webhooks.iter();
    let tests = |c: &&WebhookConfiguration| c.needs_backend() && cluster.webhooks().knows_backends(c);
    let names: Vec<&str> = all.filter(tests).map(|c| c.metadata.name.as_str()).collect();
    format!("backends of {}", if names.is_empty() { "none".to_owned() } else { list(&names) })
}

fn settings(cluster: &Cluster, report: &Report) -> Check {
    let expected = Expectation("custom resources", "no custom resource stops the operator");
    // The operator and its webhooks have their own checks.
    let stops = |rule: &Rule, blocks: &[Blocks]| {
        let other = matches!(rule.code, "SKY501" | "SKY505" | "SKY514" | "SKY515");
        blocks.contains(&Blocks::Reconcile) && !other
    };
    let codes: Vec<&str> =
        report.findings.iter().filter(|f| stops(f.rule, f.blocks)).map(|f| f.rule.code).collect();
    if let Some(check) = expected.check_findings(&report.findings, &codes) {
        return check;
    }
    let unchecked: Vec<&NotChecked> =
        report.not_checked.iter().filter(|n| stops(n.rule, n.rule.blocks)).collect();
    unread(cluster, expected, &unchecked)
        .unwrap_or_else(|| expected.good("no finding about them or their nodes stops it"))
}

/// The result of a check whose rules could not be evaluated; `None` if all could.
fn unread(cluster: &Cluster, expected: Expectation, unchecked: &[&NotChecked]) -> Option<Check> {
    if unchecked.is_empty() {
        return None;
    }
    let failed = unchecked
        .iter()
        .map(|n| n.rule)
        .flat_map(|rule| rule.needs.iter().chain(rule.optional_sources))
        .any(|source| cluster.has(*source) && cluster.missing(*source).is_some());
    let reasons: BTreeSet<&str> = unchecked.iter().flat_map(|n| n.reason.split("; ")).collect();
    let check = expected.not_checked(format!("not read: {}", reasons.joined("; ")));
    Some(Check { withheld: failed || !cluster.from_files, ..check.hint("kubectl skyhook diagnose stuck") })
}

fn sizes(cluster: &Cluster, findings: &[Finding]) -> Check {
    let expected = Expectation("custom resources", "all custom resources are small enough for etcd");
    if let Some(check) = expected.check_findings(findings, &["SKY506"]) {
        return check;
    }
    let message = match cluster.skyhooks.iter().map(|s| (s.size, s.name())).max() {
        Some((size, name)) => format!("the largest is {name} at {} KiB", size.div_ceil(1024)),
        None => "no custom resources".to_owned(),
    };
    expected.good_if_read(cluster, &cluster.skyhooks, message)
}

/// Remaining validity below which a certificate is a warning: the operator renews certificates a week before they
/// expire.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

pub fn certificates(cluster: &Cluster) -> Check {
    let expected = Expectation("webhooks", "the webhook certificates are valid");
    let configurations = match expected.read(cluster, &cluster.admission.webhooks) {
        Ok(configurations) => configurations,
        Err(check) => return check,
    };
    let bundles = configurations
        .iter()
        .filter(|c| c.is_operators())
        .flat_map(|c| c.webhooks.iter().map(move |w| (c.metadata.name.as_str(), w.client_config.bundle())));
    let (mut ends, mut unknown) = (Vec::new(), None);
    for (name, bundle) in bundles {
        let read = match bundle {
            Some(Ok(bundle)) => admission::ends(&bundle),
            Some(Err(why)) => Err(why),
            None => Err("it has no CA bundle yet".to_owned()),
        };
        match read {
            Ok(of_bundle) => ends.extend(of_bundle.into_iter().map(|end| (name, end))),
            Err(why) => unknown = unknown.or(Some(format!("{name}: {why}"))),
        }
    }
    let first = ends.into_iter().min_by_key(|(_, end)| *end);
    let now = cluster.taken_at;
    let hint = "restart the operator: its leader creates a new certificate";
    match (first, unknown) {
        (Some((name, end)), _) if end < now => {
            let message = format!("the certificate of {name} expired {} ago", age(Some(end), now));
            expected.error(message).hint(hint)
        }
        (Some((name, end)), _) if end.duration_since(now) < SOON => {
            let message = format!("the certificate of {name} expires on {}", end.strftime("%Y-%m-%d"));
            expected.warning(message).hint(hint)
        }
        (_, Some(why)) => expected.warning(why).hint(operator_log(cluster)),
        (Some((name, end)), None) => {
            let message =
                format!("the certificate of {name} is the first to expire, on {}", end.strftime("%Y-%m-%d"));
            expected.good(message)
        }
        (None, None) => expected.good("the operator has no webhooks"),
    }
}

/// Compares the versions of image and chart. Overriding only the image tag leaves CRDs and RBAC at the chart's version.
pub fn image_and_chart(cluster: &Cluster) -> Check {
    let expected = Expectation("versions", "the operator has the same version as its chart");
    if cluster.operators.ok().is_none() {
        return expected.not_asked(cluster);
    }
    let mut seen = Vec::new();
    for deployment in cluster.operator().acting() {
        let versions = deployment.operator_version().zip(deployment.chart_version());
        let Some((image, chart)) = versions else {
            continue;
        };
        if image != chart {
            let message = format!("the image version is {image}, but the chart version is {chart}");
            return expected
                .warning(message)
                .hint("upgrade the chart, not only the image: the CRDs and permissions come from the chart");
        }
        seen.push(format!("both have version {image}"));
    }
    if seen.is_empty() {
        expected.not_checked("the version of the operator or of its chart is unknown")
    } else {
        expected.good(list(&seen))
    }
}

pub fn operator_and_api(cluster: &Cluster) -> Check {
    let expected = Expectation("versions", "the API of the operator is served");
    let Some(version) = &cluster.active_api.operator_version else {
        return expected.not_checked("the version of the operator is unknown");
    };
    let newer = version.at_least(0, 18);
    let own = if newer { ApiFlavor::NodeWright } else { ApiFlavor::Skyhook };
    let served = cluster.active_api.served.contains(&own);
    let message = format!("operator {version} uses {}", own.api_version());
    if served {
        expected.good(message)
    } else {
        expected
            .error(format!("{message}, which is not served"))
            .hint("install the CRDs from the operator's chart")
    }
}

pub fn uninstall(cluster: &Cluster, installation: &Installation) -> Check {
    let expected = Expectation("versions", "the CRDs have the fields that the operator uses");
    let found = match expected.read(cluster, &installation.definitions) {
        Ok(found) => found,
        Err(check) => return check,
    };
    let Some(version) = &cluster.active_api.operator_version else {
        return expected.not_checked("the version of the operator is unknown");
    };
    let [main, _] = Definition::names(cluster.flavor());
    let definition = found.iter().find(|d| d.metadata.name == main);
    match definition.and_then(Definition::knows_uninstall) {
        Some(false) if version.at_least(0, 16) => {
            let message = format!(
                "{main} has no field packages.*.uninstall, so the API server drops uninstall requests"
            );
            expected.warning(message).hint("apply the CRDs that match the operator's version")
        }
        Some(_) => expected.good("the API server keeps uninstall settings"),
        None => expected.not_checked("the CRD has no schema for packages"),
    }
}
