//! Faults that concern no single command: where the operator is searched, document types, and distribution.

use serde_json::{Value, json};

use super::TestCluster;
use crate::support::run::{RunOutput, run};

/// The operator is found in any namespace, regardless of the context's namespace; help documents it.
#[test]
fn g19_operator_is_found_whatever_the_context_namespace() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let text = std::fs::read_to_string(cluster.served.kubeconfig()).expect("a kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&text).expect("YAML");
    config["contexts"][0]["context"]["namespace"] = json!("elsewhere");
    let file = cluster.state.path().join("kubeconfig");
    std::fs::write(&file, config.to_string()).expect("a file");
    let version = |more: &str| -> RunOutput {
        let words = format!("version --kubeconfig {} {more}", file.display());
        run(&words).output()
    };
    let found = version("");
    found.expect_stdout("v0.17.1");
    assert_eq!(version("-n skyhook").stdout, found.stdout);
    let help = run("version --help").output().stdout;
    assert!(help.contains("Namespace of the operator; detected automatically by default"), "{help}");
}

/// The three documents of upstream keep their shape; all others have `apiVersion` and `kind`.
#[test]
fn g21_new_documents_have_api_version_and_kind() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for (words, kind) in [
        ("status", "Status"),
        ("diagnose stuck", "Diagnosis"),
        ("reset gpu --dry-run", "Plan"),
        ("reset gpu -y", "Outcome"),
        ("journal list", "JournalList"),
        ("journal show", "Journal"),
    ] {
        let ran = cluster.run(&format!("{words} -o json"));
        let document = ran.json();
        assert_eq!(document["apiVersion"], json!("kubectl-skyhook/v1"), "{}", ran.transcript());
        assert_eq!(document["kind"], json!(kind), "{words}");
    }
}

/// The tests of krew check the archives and the manifest; this one checks the installed binary.
#[test]
fn g24_binary_has_the_plugin_name_and_prints_its_version() {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_kubectl-skyhook"));
    let name = binary.file_stem().expect("a name");
    assert_eq!(name, "kubectl-skyhook");
    let manifest = std::fs::read_to_string("krew-manifest.yaml").expect("a manifest");
    assert!(manifest.contains("bin: kubectl-skyhook"), "{manifest}");
    assert!(manifest.contains("sha256"), "{manifest}");
    let ran = run("--version").output();
    assert_eq!(ran.stdout, format!("kubectl-skyhook {}\n", env!("CARGO_PKG_VERSION")));
}
