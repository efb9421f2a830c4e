//! `--for v0.15`: what has to be removed before a rollback to an operator without uninstall settings. Pure.

use super::outcome::{Check, Expectation};
use crate::api::{ApiFlavor, Version};
use crate::cluster::{Cluster, Read, Source};
use crate::lint::schema::newer_fields;
use crate::view::{plural, some_of};

/// Maximum number of names in a message.
const LISTED: usize = 5;

/// The checks, in the order in which their problems should be fixed.
pub fn checks(cluster: &Cluster) -> Vec<Check> {
    vec![api(cluster), uninstalls(cluster), fields(cluster)]
}

fn expected(title: &'static str) -> Expectation {
    Expectation("rollback to v0.15", title)
}

fn api(cluster: &Cluster) -> Check {
    let expected = expected("the custom resources use the older API");
    let (older, newer) = (ApiFlavor::Skyhook, ApiFlavor::NodeWright);
    if cluster.flavor() == older {
        return expected.good(older.api_version());
    }
    expected.error(format!("{} is the active API, which v0.15 does not know", newer.api_version())).hint(
        "v0.15 works only on Skyhook objects and on node keys of their group; packages without such keys are installed \
         again",
    )
}

/// Uninstalls in progress: v0.15 does not know their stages.
fn uninstalls(cluster: &Cluster) -> Check {
    let expected = expected("no uninstall is in progress");
    let placements = cluster.skyhooks.items().iter().flat_map(|skyhook| cluster.placements(skyhook.name()));
    let under_way = placements.filter(|placement| placement.phase.is_uninstall());
    let found: Vec<String> =
        under_way.map(|p| format!("{} {} on {}", p.skyhook, p.package, p.node.name)).collect();
    if found.is_empty() {
        return unread(cluster, expected).unwrap_or_else(|| expected.good("no node is at stage uninstall"));
    }
    let message = format!("{}: {}", plural(found.len(), "uninstall"), some_of(&found, LISTED));
    expected.error(message).hint(
        "wait until they have finished: kubectl skyhook uninstall NAME PACKAGE --wait; v0.15 rejects a status with the stage \
         uninstall-interrupt",
    )
}

fn fields(cluster: &Cluster) -> Check {
    let expected = expected("the custom resources set no newer fields");
    let version = Version::parse("v0.15.0").expect("a version");
    let fields = cluster.skyhooks.items().iter().flat_map(|skyhook| {
        let fields = newer_fields(&skyhook.whole, &version).into_iter();
        fields.map(|field| format!("{} {}", skyhook.name(), field.path.join(".")))
    });
    let found: Vec<String> = fields.collect();
    if found.is_empty() {
        return unread(cluster, expected).unwrap_or_else(|| expected.good("none found"));
    }
    expected.error(some_of(&found, LISTED)).hint(
        "remove these fields, in Git first. v0.15 ignores uninstall settings: it installs packages that are uninstalled, and \
         uninstalls every package that leaves the spec",
    )
}

/// The check result if custom resources or nodes were not read; `None` if they were.
fn unread(cluster: &Cluster, expected: Expectation) -> Option<Check> {
    [Source::Skyhooks, Source::Nodes].into_iter().find_map(|source| match cluster.source(source) {
        Read::Ok(_) => None,
        Read::Incomplete(_, why) | Read::Unreadable(why) => Some(expected.unread(&why)),
        Read::NotRequested => Some(expected.not_asked(cluster)),
    })
}
