//! What the operator's webhooks let pass, turn down and warn of.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, SKYHOOKS},
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    rollout::{Rollout, pods},
    view::{absent, complete, everywhere, gone, pod},
};

#[track_caller]
fn turned_down(cluster: &Cluster, skyhook: &Skyhook, why: &str) {
    let Err(refused) = cluster.try_apply(skyhook) else {
        panic!("{} is let in", skyhook.name)
    };
    assert!(refused.message.contains("denied the request"), "{refused}");
    assert!(refused.message.contains(why), "{refused}");
}

#[track_caller]
fn edit_turned_down(rollout: &Rollout<'_>, spec: Value, why: &str) {
    let Err(refused) = rollout.try_edit(spec.clone()) else {
        panic!("{spec} is let in")
    };
    assert!(refused.message.contains("denied the request"), "{refused}");
    assert!(refused.message.contains(why), "{refused}");
}

pub fn creating(cluster: &Cluster) {
    let driver = || package("driver", "2.0.1");
    let apply_only = driver().set("uninstall", json!({"enabled": false, "apply": true}));
    turned_down(cluster, &skyhook("gpu").with(apply_only), "uninstall");
    turned_down(
        cluster,
        &skyhook("gpu").with(package("driver", "latest")),
        "version",
    );
    turned_down(
        cluster,
        &skyhook("gpu").with(driver().after("tuning", "1.2.0")),
        "tuning",
    );
    turned_down(
        cluster,
        &skyhook("gpu")
            .with(driver())
            .set("deploymentPolicy", json!("nowhere")),
        "nowhere",
    );
    // It cannot tell a package that was never installed from one that has been uninstalled.
    let never = cluster.apply(&skyhook("gpu").with(driver().uninstalling()));
    never.until(complete());
    never.delete().until(gone());
}

pub fn uninstalling(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("tuning", "1.2.0"))
            .with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(everywhere("driver|2.0.1", "config", "complete"))
        .until(complete());
    let removal = || json!({"packages": {"driver": null}});
    let downgrade = || json!({"packages": {"driver": {"version": "1.9.0"}}});
    edit_turned_down(&gpu, removal(), "driver");
    edit_turned_down(&gpu, downgrade(), "driver");

    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true)
        .until(pod("driver", "uninstall"));
    edit_turned_down(&gpu, removal(), "driver");
    edit_turned_down(&gpu, downgrade(), "driver");

    let cancel = json!({"spec": {"packages": {"driver": {"uninstall": {"apply": false}}}}});
    let warnings = cluster
        .api
        .merge_warned(&format!("{SKYHOOKS}/gpu?dryRun=All"), &cancel)
        .expect("it is accepted");
    assert!(
        warnings.iter().any(|warning| warning.contains("driver")),
        "cancelling is warned of: {warnings:?}"
    );

    cluster.heal();
    gpu.until(absent("driver|2.0.1")).until(complete());
    // The webhook asks the CR's status, which follows the nodes a little later.
    cluster.await_that("the removal is let in", || gpu.try_edit(removal()).is_ok());
    gpu.until(complete());
    gpu.edit(json!({"packages": {"driver": {"version": "1.9.0", "image": "ghcr.io/nvidia/skyhook-packages/driver"}}}));
    gpu.until(everywhere("driver|1.9.0", "config", "complete"))
        .until(complete());
}

/// What is not turned down although it leads into trouble.
pub fn let_in(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("tuning", "1.2.0"))
            .with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(complete());
    gpu.edit(json!({"packages": {"tuning": {"version": "1.1.0"}}}));
    gpu.until(everywhere("tuning|1.1.0", "config", "complete"))
        .until(complete());
    assert_eq!(
        gpu.view().entries("tuning|1.2.0").len(),
        3,
        "what was there before is not forgotten"
    );
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true)
        .until(pod("driver", "uninstall"));
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    cluster.heal();
    gpu.until(absent("driver|2.0.1"))
        .until(absent("driver|2.1.0"));
    gpu.stays(&absent("driver|2.1.0"), Duration::from_secs(5));
}
