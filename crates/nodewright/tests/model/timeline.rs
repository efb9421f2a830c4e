//! The timeline of a rollout: order of nodes, packages and custom resources, and rollouts that never end.

use nodewright::cluster::Cluster;
use nodewright::model::{Happening, Model, Timeline};
use serde_json::{Value, json};

use super::setting::{Setting, package, state};

/// The steps of a timeline in order, as `node: step`, prefixed with the custom resource if there are several.
fn lines(timeline: &Timeline<'_>, several: bool) -> Vec<String> {
    let line = |moment: &nodewright::model::Moment<'_>| {
        let what = match &moment.what {
            Happening::Cordon { pods } => format!("cordon, {pods} pods"),
            Happening::Start { package, stage } => format!("{stage} {package}"),
            Happening::Complete => "complete".to_owned(),
        };
        let owner = if several { format!("{}/", moment.skyhook) } else { String::new() };
        format!("{owner}{}: {what}", moment.node.name)
    };
    timeline.moments.iter().map(line).collect()
}

fn timeline(cluster: &Cluster) -> Timeline<'_> {
    Model::new(cluster).timeline()
}

fn fixed(batch: i64) -> Value {
    json!({"default": {"budget": {"percent": 100}, "strategy": {"fixed": {"initialBatch": batch}}}})
}

fn nodes(setting: Setting, skyhook: &str, count: usize) -> Setting {
    (1..=count).fold(setting, |setting, at| setting.node(&format!("n{at}"), skyhook, "unknown", &json!({})))
}

#[test]
fn batches_follow_each_other_and_packages_their_dependencies() {
    let packages = json!({"base": package(&[]), "driver": package(&["base"])});
    let spec = json!({"packages": packages, "deploymentPolicy": "policy"});
    let setting = Setting::new("v0.20.0").policy(fixed(2)).skyhook("tune", spec, json!({}));
    let cluster = nodes(setting, "tune", 3).cluster();
    let of_batch = |names: &[&str]| -> Vec<String> {
        let steps = ["apply base", "config base", "apply driver", "config driver", "complete"];
        let all = names.iter().flat_map(|name| steps.map(|step| format!("{name}: {step}")));
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    };
    let all = lines(&timeline(&cluster), false);
    let (first, second) = all.split_at(10);
    let mut first = first.to_vec();
    first.sort();
    assert_eq!(first, of_batch(&["n1", "n2"]));
    let second = second.to_vec();
    assert_eq!(
        second,
        ["n3: apply base", "n3: config base", "n3: apply driver", "n3: config driver", "n3: complete"]
    );
}

#[test]
fn an_interrupt_cordons_first_and_waits_for_other_stages_on_the_node() {
    let mut driver = package(&[]);
    driver["interrupt"] = json!({"type": "reboot"});
    let spec = json!({"packages": {"driver": driver, "tuning": package(&[])}});
    let setting = Setting::new("v0.20.0").skyhook("tune", spec, json!({}));
    let cluster = nodes(setting, "tune", 1).cluster();
    assert_eq!(
        lines(&timeline(&cluster), false),
        [
            "n1: cordon, 0 pods",
            "n1: apply driver",
            "n1: apply tuning",
            "n1: config driver",
            "n1: config tuning",
            "n1: interrupt driver",
            "n1: post-interrupt driver",
            "n1: complete",
        ]
    );
}

#[test]
fn a_resource_with_sequencing_all_comes_first_everywhere() {
    let spec = |priority: i64| {
        json!({
            "packages": {"base": package(&[])}, "priority": priority, "sequencing": "all",
            "interruptionBudget": {"count": 1},
        })
    };
    let setting = Setting::new("v0.20.0").skyhook("b", spec(1), json!({})).skyhook("a", spec(2), json!({}));
    let cluster = nodes(setting, "b", 2).cluster();
    let all = lines(&timeline(&cluster), true);
    let owners: Vec<&str> = all.iter().map(|line| &line[..1]).collect();
    assert_eq!(owners, [["b"; 6], ["a"; 6]].concat());
}

#[test]
fn a_stage_that_failed_for_good_keeps_the_rollout_from_its_end() {
    let setting = Setting::new("v0.20.0")
        .policy(json!({"default": {
            "budget": {"percent": 100},
            "strategy": {"fixed": {"initialBatch": 1, "failureThreshold": 1, "safetyLimit": 90}},
        }}))
        .skyhook(
            "tune",
            json!({"packages": {"base": package(&[])}, "deploymentPolicy": "policy"}),
            json!({"compartmentStatuses": {"__default__": {"batchState": {
                "currentBatch": 2, "consecutiveFailures": 1, "failedNodes": 1, "lastBatchSize": 1, "lastBatchFailed": true,
                "shouldStop": true,
            }}}}),
        )
        .node("n1", "tune", "erroring", &state(&[("base", "apply", "erroring")]));
    let cluster = nodes(setting, "tune", 0).node("n2", "tune", "unknown", &json!({})).cluster();
    let timeline = timeline(&cluster);
    assert!(timeline.stuck.keys().eq(["tune"].iter()));
    assert_eq!(lines(&timeline, false), [""; 0]);
    assert_eq!(timeline.remaining("tune"), None);
}
