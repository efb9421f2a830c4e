//! What the operator's webhooks accept, deny and warn about.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, SKYHOOKS},
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    rollout::{Rollout, pods},
    view::{absent, complete, deleted, everywhere, pod},
};

#[track_caller]
fn turned_down(cluster: &Cluster, skyhook: &Skyhook, why: &str) {
    let Err(refused) = cluster.try_apply(skyhook) else { panic!("{} is let in", skyhook.name) };
    assert!(refused.message.contains("denied the request"), "{refused}");
    assert!(refused.message.contains(why), "{refused}");
}

#[track_caller]
fn edit_turned_down(rollout: &Rollout<'_>, spec: Value, why: &str) {
    let Err(refused) = rollout.try_edit(spec.clone()) else { panic!("{spec} is let in") };
    assert!(refused.message.contains("denied the request"), "{refused}");
    assert!(refused.message.contains(why), "{refused}");
}

pub fn create_validation(cluster: &Cluster) {
    let driver = || package("driver", "2.0.1");
    let apply_only = driver().set("uninstall", json!({"enabled": false, "apply": true}));
    turned_down(cluster, &skyhook("gpu").with(apply_only), "uninstall");
    turned_down(cluster, &skyhook("gpu").with(package("driver", "latest")), "version");
    turned_down(cluster, &skyhook("gpu").with(driver().after("tuning", "1.2.0")), "tuning");
    turned_down(cluster, &skyhook("gpu").with(driver()).set("deploymentPolicy", json!("nowhere")), "nowhere");
    // Accepted: the webhook cannot distinguish a package that was never installed from an uninstalled one.
    let never = cluster.apply(&skyhook("gpu").with(driver().uninstalling()));
    never.until(complete());
    never.delete().until(deleted());
}

pub fn uninstall_validation(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(everywhere("driver|2.0.1", "config", "complete")).until(complete());
    let removal = || json!({"packages": {"driver": null}});
    let downgrade = || json!({"packages": {"driver": {"version": "1.9.0"}}});
    edit_turned_down(&gpu, removal(), "driver");
    edit_turned_down(&gpu, downgrade(), "driver");

    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true).until(pod("driver", "uninstall"));
    edit_turned_down(&gpu, removal(), "driver");
    edit_turned_down(&gpu, downgrade(), "driver");

    let cancel = json!({"spec": {"packages": {"driver": {"uninstall": {"apply": false}}}}});
    let warnings =
        cluster.api.merge_warned(&format!("{SKYHOOKS}/gpu?dryRun=All"), &cancel).expect("valid dry run");
    assert!(
        warnings.iter().any(|warning| warning.contains("driver")),
        "cancelling is warned of: {warnings:?}"
    );

    cluster.heal();
    gpu.until(absent("driver|2.0.1")).until(complete());
    // The webhook reads the custom resource's status, which is updated slightly later than the nodes.
    cluster.await_that("the removal is let in", || gpu.try_edit(removal()).is_ok());
    gpu.until(complete());
    gpu.edit(json!({"packages": {"driver": {"version": "1.9.0", "image": "ghcr.io/nvidia/skyhook-packages/driver"}}}));
    gpu.until(everywhere("driver|1.9.0", "config", "complete")).until(complete());
}

/// Changes that are accepted although they cause problems.
pub fn accepted_but_harmful(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(complete());
    gpu.edit(json!({"packages": {"tuning": {"version": "1.1.0"}}}));
    gpu.until(everywhere("tuning|1.1.0", "config", "complete")).until(complete());
    assert_eq!(gpu.view().entries("tuning|1.2.0").len(), 3, "what was there before is not forgotten");
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true).until(pod("driver", "uninstall"));
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    cluster.heal();
    gpu.until(absent("driver|2.0.1")).until(absent("driver|2.1.0"));
    gpu.stays(&absent("driver|2.1.0"), Duration::from_secs(5));
}

/// An expired certificate that does not belong to the operator, in base64.
fn expired() -> String {
    use base64::Engine as _;
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    params.not_after = rcgen::date_time_ymd(2026, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    base64::engine::general_purpose::STANDARD.encode(pem)
}

/// SKY505: the operator has no right to update its webhook configurations, and their CA certificate has
/// expired.
pub fn expired_certificate(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(complete());
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let binding = cluster.api.get(&format!("{rbac}/clusterrolebindings/operator"));
    let binding = binding.expect("the operator's roles are bound");
    let role = binding["roleRef"]["name"].as_str().expect("a role").to_owned();
    let role = format!("{rbac}/clusterroles/{role}");
    let whole = cluster.api.get(&role).expect("the role exists")["rules"].clone();
    let mut reads = whole.clone();
    for rule in reads.as_array_mut().expect("rules") {
        if rule["apiGroups"][0] == "admissionregistration.k8s.io" {
            rule["verbs"] = json!(["get", "list", "watch"]);
        }
    }
    let may = |rules: &Value| {
        let changed = cluster.api.merge(&role, &json!({"rules": rules}));
        changed.expect("a role can be changed");
    };
    may(&reads);
    let group = "/apis/admissionregistration.k8s.io/v1";
    let configurations = ["validating", "mutating"];
    let bundle = expired();
    let edit = json!({"spec": {"serial": true}});
    let dry = format!("{}?dryRun=All", gpu.path());
    cluster.await_that("the API server trusts the operator no more", || {
        for kind in configurations {
            let path = format!("{group}/{kind}webhookconfigurations/skyhook-operator-{kind}-webhook");
            let mut configuration = cluster.api.get(&path).expect("the configuration exists");
            for webhook in configuration["webhooks"].as_array_mut().expect("webhooks") {
                webhook["clientConfig"]["caBundle"] = json!(bundle);
            }
            // At first the operator may still be able to write, which can cause a conflict.
            if cluster.api.put(&path, &configuration).is_err() {
                return false;
            }
        }
        let refused = cluster.api.merge(&dry, &edit).err();
        let named = |kind| {
            let report = cluster.report(&[]);
            let mut found = report.with_code("SKY505").into_iter();
            found.any(|f| {
                f["subject"]["name"] == format!("skyhook-operator-{kind}-webhook") && f["severity"] == "Error"
            })
        };
        refused.is_some_and(|r| r.message.contains("failed calling webhook"))
            && configurations.iter().all(named)
    });
    may(&whole);
    // The remedy restarts the pods of the Deployment; here no controller does, so restart the process.
    cluster.stop_operator();
    cluster.start_operator();
    cluster.await_that("the API server trusts the operator", || {
        cluster.report(&[]).with_code("SKY505").is_empty() && cluster.api.merge(&dry, &edit).is_ok()
    });
}
