use super::{Input, LintFindings};
use crate::api::ApiFlavor;
use crate::error::near;

lint_rule! {
    /// The API group has no such kind or version.
    ///
    /// # What it means
    ///
    /// The API server rejects the object: `no matches for kind`.
    ///
    /// # How to fix
    ///
    /// Correct `kind` and `apiVersion`. `Skyhook` belongs to the older group, which operators up to v0.20 serve,
    /// `NodeWright` to the newer one, which operators since v0.18 serve.
    SKY805 "unknown-kind" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests() {
        let Some(flavor) = manifest.flavor() else {
            continue;
        };
        let kinds = [flavor.kind(), "DeploymentPolicy"];
        if !kinds.contains(&manifest.kind.as_str()) {
            let message = format!("{} has no kind {:?}", flavor.group(), manifest.kind);
            let finding = findings.report(manifest, &["kind"], message);
            if manifest.kind == flavor.other().kind() {
                finding.fix(format!("Write {}, or kind {}", flavor.other().api_version(), flavor.kind()));
            } else if let Some(kind) = near(&manifest.kind, kinds).first() {
                finding.fix(format!("Did you mean {kind}?"));
            }
        } else if manifest.api_version != flavor.api_version() {
            let message = format!("{} is not served", manifest.api_version);
            let finding = findings.report(manifest, &["apiVersion"], message);
            finding.fix(format!("Write {}", flavor.api_version()));
        } else if let Some(why) = unserved(input, flavor) {
            let message = format!("{why} {}", manifest.api_version);
            let finding = findings.report(manifest, &["apiVersion"], message);
            finding.fix(format!("Write {}", flavor.other().api_version()));
        }
    }
    for manifest in input.others() {
        let mut of_kind = ApiFlavor::ALL.into_iter().filter(|flavor| {
            let kinds = [flavor.kind(), "DeploymentPolicy"];
            kinds.contains(&manifest.kind.as_str()) && is_misspelled(&manifest.api_version, *flavor)
        });
        if let Some(flavor) = of_kind.next() {
            let message =
                format!("apiVersion {:?} does not exist for kind {}", manifest.api_version, manifest.kind);
            let finding = findings.report(manifest, &["apiVersion"], message);
            finding.fix(format!("Write {}", flavor.api_version()));
        }
    }
}

/// Why the cluster does not serve an API, as the beginning of a sentence; `None` if it may.
fn unserved(input: &Input<'_>, flavor: ApiFlavor) -> Option<String> {
    let live = input.cluster.filter(|cluster| !cluster.from_files).map(|cluster| &cluster.active_api.served);
    if live.is_some_and(|served| !served.is_empty() && !served.contains(&flavor)) {
        return Some("the API server does not serve".to_owned());
    }
    let known = match flavor {
        ApiFlavor::NodeWright => input.operator_at_least(0, 18)?,
        ApiFlavor::Skyhook => !input.operator_at_least(0, 21)?,
    };
    let version = input.operator.as_ref().filter(|_| !known)?;
    Some(format!("operator {version} does not serve"))
}

/// Whether the apiVersion of an object with a kind of this API is probably a mistake: it has no group, or a similar
/// one. Other products may have the same kind in a different group.
fn is_misspelled(api_version: &str, flavor: ApiFlavor) -> bool {
    let (group, _) = api_version.rsplit_once('/').unwrap_or_default();
    let domain = flavor.group().split_once('.').map_or("", |(_, domain)| domain);
    group.is_empty()
        || group.ends_with(domain)
        || near(api_version, [flavor.api_version().as_str()]).len() == 1
}
