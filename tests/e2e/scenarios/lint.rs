//! Checks that `lint` reports an error exactly when the API server or the operator's webhooks reject the
//! manifest.

use std::path::{Path, PathBuf};

use kubectl_skyhook::{
    api::{ApiFlavor, Version},
    lint::{self, Documents, Input, Manifest, ManifestFile, Schemas},
};
use serde_json::{Map, Value, json};

use crate::{
    cluster::{Cluster, SKYHOOKS},
    manifest::{package, skyhook},
    operator::{VERSION, document},
};

const POLICIES: &str = "/apis/skyhook.nvidia.com/v1alpha1/deploymentpolicies";
/// The last code for a manifest that is rejected on creation; later codes have other reasons.
const LAST_REFUSAL: &str = "SKY829";
/// A `resourceVersion` is refused by the storage, which a dry run does not reach.
const BY_STORAGE: &str = "SKY828";

/// Manifests of all fixtures that need no capture.
fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lint");
    let entries = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).expect("a directory of fixtures");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let directories = entries(&root).into_iter();
    let offline = directories.filter(|path| !path.join("cluster.yaml").exists());
    let files = offline.flat_map(|path| entries(&path));
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    files
}

/// The API path for creating an object of this kind.
fn collection(manifest: &Manifest) -> Option<&'static str> {
    match (manifest.flavor()?, manifest.kind.as_str()) {
        (ApiFlavor::Skyhook, "Skyhook") => Some(SKYHOOKS),
        (ApiFlavor::Skyhook, "DeploymentPolicy") => Some(POLICIES),
        _ => None,
    }
}

fn is_of_cluster(refusal: &str) -> bool {
    refusal.contains("deploymentPolicy") && refusal.trim_end().ends_with("not found")
}

pub fn webhook_agrees(cluster: &Cluster) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for path in fixtures() {
        let file = ManifestFile {
            path: path.display().to_string(),
            text: std::fs::read_to_string(&path).expect("a fixture"),
            is_part: false,
        };
        let input = Input::new(Documents::parse(&[file]), None, Version::parse(VERSION), &Schemas::default());
        let report = lint::lint(&input);
        let mut created = Vec::new();
        // Policies first: the webhook rejects custom resources that refer to a missing policy.
        let mut manifests: Vec<&Manifest> = input.manifests().collect();
        manifests.sort_by_key(|manifest| manifest.kind.clone());
        for manifest in manifests {
            let Some(collection) = collection(manifest) else {
                continue;
            };
            let is_policy = collection == POLICIES;
            let dry_run = if is_policy { "" } else { "&dryRun=All" };
            let url = format!("{collection}?fieldValidation=Strict{dry_run}");
            let answer = cluster.api.post(&url, &manifest.value);
            let errors: Vec<String> = report
                .findings
                .iter()
                .filter(|f| f.severity == kubectl_skyhook::rules::Severity::Error)
                .filter(|f| f.rule.code <= LAST_REFUSAL && f.rule.code != BY_STORAGE)
                .filter(|f| manifest.contains_line(f.line))
                .map(|f| format!("{} {}", f.rule.code, f.message))
                .collect();
            compared += 1;
            match &answer {
                Ok(_) if !errors.is_empty() => {
                    wrong.push(format!("{} {}: accepted, but {errors:?}", path.display(), manifest.name));
                }
                // Only a cluster shows a policy that is in no file.
                Err(refused) if is_of_cluster(&refused.message) => {}
                Err(refused) if errors.is_empty() => wrong.push(format!(
                    "{} {}: not an error, but {}",
                    path.display(),
                    manifest.name,
                    refused.message
                )),
                _ => {}
            }
            if is_policy && answer.is_ok() {
                created.push(format!("{collection}/{}", manifest.name));
            }
        }
        for path in created {
            cluster.api.delete(&path, &Value::Null).expect("an unused policy");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 100, "{compared} manifests were compared");
}

/// `--server-dry-run` finds what no rule knows: a policy of the cluster.
pub fn asks_the_server(cluster: &Cluster) {
    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
    let metadata = json!({"name": "owners.example.com"});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["skyhook.nvidia.com"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["skyhooks"],
            }]},
            "validations": [{"expression": "has(object.metadata.labels) && 'owner' in object.metadata.labels", "message": "no owner"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": "owners.example.com", "validationActions": ["Deny"]},
    });
    for (plural, object) in
        [("validatingadmissionpolicies", policy), ("validatingadmissionpolicybindings", binding)]
    {
        cluster.api.post(&format!("{ADMISSION}/{plural}"), &object).expect("an admission policy");
    }
    let whole =
        skyhook("gpu").with(package("driver", "1.0.0")).set("interruptionBudget", json!({"count": 1}));
    let refused = |labels: Value| {
        let mut body = whole.body();
        body["metadata"]["labels"] = labels;
        let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
        std::fs::write(file.path(), body.to_string()).expect("written");
        let path = file.path().to_str().expect("text");
        let report = cluster.ours(&["lint", "--server-dry-run", "--fail-on", "never", "-f", path]);
        let findings = report["findings"].as_array().expect("findings").clone();
        let mut own = findings.iter().filter(|finding| finding["code"] == "SKY829");
        own.next().map(|finding| finding["message"].as_str().unwrap_or_default().to_owned())
    };
    // The server takes a moment to load the policy.
    cluster.await_that("the admission policy refuses the object", || refused(json!({})).is_some());
    let message = refused(json!({})).expect("a refusal");
    assert!(message.contains("no owner"), "{message}");
    assert_eq!(refused(json!({"owner": "gpu-team"})), None);
    assert!(cluster.api.get(&format!("{SKYHOOKS}/gpu")).is_err());
}

/// Keeps the structure of a schema: no descriptions, no examples.
fn structure(schema: &Value) -> Value {
    const KEPT: [&str; 15] = [
        "type",
        "default",
        "format",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "nullable",
        "required",
        "x-kubernetes-int-or-string",
        "x-kubernetes-validations",
    ];
    let mut kept = Map::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties = properties.map(|(name, schema)| (name.clone(), structure(schema)));
                kept.insert(key.clone(), properties.collect::<Map<_, _>>().into());
            }
            "items" | "additionalProperties" => {
                kept.insert(key.clone(), structure(value));
            }
            name if KEPT.contains(&name) || name == "x-kubernetes-preserve-unknown-fields" => {
                kept.insert(key.clone(), value.clone());
            }
            _ => {}
        }
    }
    kept.into()
}

/// The embedded schemas equal those of the operator; `UPDATE=1` rewrites them.
pub fn schemas_are_current(cluster: &Cluster) {
    for (file, name) in [("skyhooks", "skyhook"), ("deploymentpolicies", "deploymentpolicy")] {
        let crd = format!("crd/bases/skyhook.nvidia.com_{file}.yaml");
        let text = cluster.tools().operator_config(VERSION, &crd).expect("a CRD");
        let crd = document(&text).expect("YAML");
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let expected = structure(&root["properties"]["spec"]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = root.join(format!("crates/nodewright-diagnosis/src/lint/crd/{name}.json"));
        if std::env::var_os("UPDATE").is_some() {
            let text = serde_json::to_string_pretty(&expected).expect("JSON") + "\n";
            std::fs::write(&path, text).expect("a writable schema");
        }
        let embedded = std::fs::read_to_string(&path).expect("an embedded schema");
        let embedded: Value = serde_json::from_str(&embedded).expect("JSON");
        assert_eq!(embedded, expected, "{name}");
    }
}
