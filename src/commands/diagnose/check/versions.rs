//! Checks of certificates that expire, and of incompatible versions. Pure.

use jiff::SignedDuration;

use super::outcome::{Check, Expectation, operator_log};
use crate::api::ApiFlavor;
use crate::cluster::certificate;
use crate::cluster::installation::{Definition, Installation};
use crate::cluster::{Cluster, Read};
use crate::view::{age, list};

/// Remaining validity below which a certificate is a warning: the operator renews certificates a week before they
/// expire.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

pub fn certificates(cluster: &Cluster) -> Check {
    let expected = Expectation("webhooks", "the webhook certificates are valid");
    let configurations = match &cluster.admission.webhooks {
        Read::Ok(configurations) => configurations,
        Read::Incomplete(_, why) | Read::Unreadable(why) => return expected.unread(why),
        Read::NotRequested => return expected.not_asked(cluster),
    };
    let own = configurations.iter().filter(|c| c.is_operators());
    let bundles = own.flat_map(|c| {
        let all = c.webhooks.iter();
        all.map(move |w| (c.metadata.name.as_str(), w.client_config.bundle()))
    });
    let (mut ends, mut unknown) = (Vec::new(), None);
    for (name, bundle) in bundles {
        let read = match bundle {
            Some(Ok(bundle)) => certificate::ends(&bundle),
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
    for deployment in cluster.acting_operators() {
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
        let agent = deployment.env("AGENT_IMAGE");
        let agent = agent.map_or(String::new(), |image| format!(", agent image {image}"));
        seen.push(format!("both have version {image}{agent}"));
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
    let found = match &installation.definitions {
        Read::Ok(found) => found,
        Read::Incomplete(_, why) | Read::Unreadable(why) => return expected.unread(why),
        Read::NotRequested => return expected.not_asked(cluster),
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
