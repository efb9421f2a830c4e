//! The changes of an uninstall in the spec of the custom resource. Pure.

use serde_json::json;

use crate::api::{Package, Skyhook};
use crate::cluster::Cluster;
use crate::plan::{Change, Field, Guard, Step, Target};

/// A step that changes the custom resource, for the operator to act on.
pub fn step(cluster: &Cluster, skyhook: &Skyhook, change: Change) -> Step {
    Step::new(Target::of_skyhook(cluster.flavor(), skyhook), change, "the operator applies this setting")
}

/// The path of a package's field in the spec.
pub fn path(package: &str, field: &[&str]) -> Vec<String> {
    let start = ["spec", "packages", package];
    let whole = start.iter().chain(field);
    whole.map(|part| (*part).to_owned()).collect()
}

/// Guard the version: another version is another uninstall.
pub fn same(name: &str, package: &Package) -> Guard {
    let version = format!("/spec/packages/{name}/version");
    Guard::default().require(version, json!(package.version))
}

/// The missing fields of an uninstall request.
pub fn request(name: &str, package: &Package) -> Vec<Field> {
    let now = package.uninstall();
    if package.uninstall.is_none() {
        let whole = json!({"enabled": true, "apply": true});
        return vec![Field::new(path(name, &["uninstall"]), None, Some(whole))];
    }
    let fields = [("enabled", now.enabled), ("apply", now.apply)].into_iter();
    let missing = fields.filter(|(_, is)| !is);
    missing
        .map(|(field, _)| {
            let path = path(name, &["uninstall", field]);
            Field::new(path, Some(json!(false)), Some(json!(true)))
        })
        .collect()
}

/// Removes an uninstalled package from the spec. The guard requires that only packages in `removed_before`
/// depend on it.
///
/// An unchanged request at the same version proves that the package has not been reinstalled: the operator does not
/// install a package with a requested uninstall.
pub fn out_of_the_spec(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    removed_before: &[&str],
) -> Step {
    let mut whole = package.whole.clone();
    whole["uninstall"] = json!({"enabled": true, "apply": true});
    if let Some(before) = package.whole["uninstall"].as_object() {
        whole["uninstall"] = json!(before);
        whole["uninstall"]["enabled"] = json!(true);
        whole["uninstall"]["apply"] = json!(true);
    }
    // Accept any old value: the operator fills in the package's name.
    let field = Field::new(path(name, &[]), Some(whole), None).with_any_old_value();
    let apply = format!("/spec/packages/{name}/uninstall/apply");
    let mut guard = same(name, package).require(apply, json!(true)).not_deleting();
    let others = skyhook.packages();
    for (other, _) in others.filter(|(other, _)| *other != name && !removed_before.contains(other)) {
        guard = guard.require(format!("/spec/packages/{other}/dependsOn/{name}"), json!(null));
    }
    step(cluster, skyhook, Change::Spec(vec![field])).guard(guard)
}
