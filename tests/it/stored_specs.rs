//! Specs that the API server stores and the operator cannot carry out: `lint` finds them in a file, `diagnose stuck` on
//! the cluster.

use serde_json::{Value, json};

use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::{RunOutput, run};

/// The rule of `lint`, the rule of `diagnose stuck`, and the spec.
fn defects() -> Vec<(&'static str, &'static str, Value)> {
    let package = |field: &str, value: Value| {
        let mut package = json!({"version": "1.0.0", "image": "registry.example/driver"});
        package[field] = value;
        json!({"packages": {"driver": package}})
    };
    let spec = |field: &str, value: Value| {
        let mut spec = package("version", json!("1.0.0"));
        spec[field] = value;
        spec
    };
    let depends = |on: &str| json!({"version": "1.0.0", "image": "a", "dependsOn": {on: "1.0.0"}});
    let mut protected = package("interrupt", json!({"type": "reboot"}));
    protected["podNonInterruptLabels"] = json!({"matchLabels": {"app": "-"}});
    vec![
        ("SKY811", "SKY212", json!({"packages": {"Driver": {"version": "1.0.0", "image": "a"}}})),
        ("SKY811", "SKY212", package("version", json!("latest"))),
        ("SKY811", "SKY212", package("resources", json!({"cpuRequest": "1"}))),
        ("SKY811", "SKY212", spec("interruptionBudget", json!({"count": 1, "percent": 10}))),
        ("SKY811", "SKY212", spec("nodeSelectors", json!({"matchLabels": {"pool": "-"}}))),
        ("SKY811", "SKY223", protected),
        ("SKY811", "SKY212", package("dependsOn", json!({"base": "1.0.0"}))),
        ("SKY811", "SKY212", package("uninstall", json!({"apply": true}))),
        ("SKY811", "SKY212", package("configInterrupts", json!({"a": {"type": "noop"}}))),
        ("SKY811", "SKY212", package("gracefulShutdown", json!("5 minutes"))),
        ("SKY830", "SKY207", json!({"packages": {"aa": depends("bb"), "bb": depends("aa")}})),
        ("SKY849", "SKY223", package("version", json!("1.0.0+cuda12"))),
        ("SKY871", "SKY223", spec("additionalTolerations", json!([{"operator": "Equal", "value": "x"}]))),
        ("SKY872", "SKY223", package("configMap", json!({"a b": "x"}))),
        ("SKY872", "SKY223", package("configMap", json!({"large": "x".repeat(1 << 20)}))),
        ("SKY873", "SKY223", package("env", json!([{"name": "A=B", "value": "x"}]))),
    ]
}

fn object(name: &str, spec: Value) -> Value {
    let mut object = NODEWRIGHT.skyhook("in_progress", json!({}));
    object["metadata"]["name"] = name.into();
    object["spec"] = spec;
    object
}

fn capture(object: &Value, status: &str, entries: &[&str]) -> String {
    let node = NODEWRIGHT.node("node-1", status, entries);
    json!({"apiVersion": "v1", "kind": "List", "items": [NODEWRIGHT.operator(), object, node]}).to_string()
}

fn stuck(object: &Value, status: &str, entries: &[&str]) -> RunOutput {
    run("diagnose stuck --all --from -").stdin(capture(object, status, entries)).output()
}

#[test]
fn a_defect_in_a_file_is_found_on_the_cluster() {
    for (lint, diagnose, spec) in defects() {
        let object = object("gpu", spec);
        let ran = run("lint --offline -f -").stdin(object.to_string()).output();
        ran.expect_stdout(format!(" {lint}: "));
        let ran = stuck(&object, "waiting", &[]);
        ran.expect_code(2);
        ran.expect_stdout(format!("error {diagnose} "));
    }
    let object = object(&"n".repeat(60), json!({"packages": {"driver": {"version": "1.0.0", "image": "a"}}}));
    run("lint --offline -f -").stdin(object.to_string()).output().expect_stdout(" SKY850: ");
    stuck(&object, "waiting", &[]).expect_stdout("error SKY502 ");
}

/// A value that no node needs now does not make the custom resource stuck.
#[test]
fn a_refused_value_of_a_complete_package_is_a_note() {
    let complete = ["driver|1.0.0 config complete"];
    for (field, value) in [("env", json!([{"name": "A=B", "value": "x"}])), ("version", json!("1.0.0"))] {
        let mut package = json!({"version": "1.0.0", "image": "registry.example/driver"});
        package[field] = value;
        let tolerations = json!([{"operator": "Equal", "value": "x"}]);
        let spec = json!({"packages": {"driver": package}, "additionalTolerations": tolerations});
        let ran = stuck(&object("gpu", spec), "complete", &complete);
        ran.expect_code(0);
        ran.expect_stdout("SKY223");
        ran.expect_no_stdout("error SKY223");
    }
}

/// The operator writes the ConfigMap of every package in each reconcile, also of complete ones.
#[test]
fn a_refused_config_map_stops_the_operator() {
    let package = json!({"version": "1.0.0", "image": "a", "configMap": {"large": "x".repeat(1 << 20)}});
    let object = object("gpu", json!({"packages": {"driver": package}}));
    let ran = stuck(&object, "complete", &["driver|1.0.0 config complete"]);
    ran.expect_code(2);
    ran.expect_stdout("every reconcile ends with this error: configMap has 1048581 bytes");
    let node = run("diagnose node node-1 --from -").stdin(capture(&object, "waiting", &[])).output();
    node.expect_code(2);
    node.expect_stdout("SKY223");
}
