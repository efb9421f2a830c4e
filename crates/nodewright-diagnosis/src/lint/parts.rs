//! Files whose use another file states: patches and resources of a kustomization, assertions of a test.

use serde_json::Value;

/// The file names of a kustomization.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// The file names of a test of chainsaw.
pub(super) const TESTS: [&str; 2] = ["chainsaw-test.yaml", "chainsaw-test.yml"];

/// The paths in a kustomization, relative to its directory.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Files and directories that are applied together with the kustomization.
    pub resources: Vec<String>,
    /// Files with parts of objects.
    pub parts: Vec<String>,
}

impl Named {
    pub fn of_kustomization(value: &Value) -> Named {
        let resources = ["resources", "bases", "components"].map(|field| strings(&value[field]));
        let paths =
            ["patches", "patchesJson6902"].map(|field| items(&value[field]).map(|patch| &patch["path"]));
        let paths = paths.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let merged = strings(&value["patchesStrategicMerge"]);
        Named { resources: resources.into_iter().flatten().collect(), parts: paths.chain(merged).collect() }
    }

    /// A test applies files one after another, and compares objects with parts of them.
    pub fn of_test(value: &Value) -> Named {
        let steps = items(&value["spec"]["steps"]);
        let actions = steps.flat_map(|step| {
            ["try", "catch", "finally", "cleanup"].into_iter().flat_map(|part| items(&step[part]))
        });
        let files = actions.flat_map(|action| {
            ["assert", "error", "patch"].into_iter().filter_map(|kind| action[kind]["file"].as_str())
        });
        Named { resources: Vec::new(), parts: files.map(str::to_owned).collect() }
    }
}

/// Whether an object is a strategic merge patch: it contains a directive of one.
pub(super) fn has_patch_directive(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(key, value)| key.starts_with("$patch") || has_patch_directive(value))
        }
        Value::Array(items) => items.iter().any(has_patch_directive),
        _ => false,
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn strings(list: &Value) -> Vec<String> {
    items(list).filter_map(Value::as_str).map(str::to_owned).collect()
}
