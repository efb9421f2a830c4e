//! The model of the operator, compared with recordings; and differences between operator versions.

mod effects;
mod estimate;
mod events;
mod on_nodes;
#[allow(dead_code, reason = "the tests of rules need more")]
mod recording;
mod score;
mod setting;
mod timeline;

use std::fmt::Write as _;
use std::path::Path;

use nodewright::api::Skyhook;
use nodewright::cluster::Cluster;
use nodewright::model::{Action, Model, NodeProgress, PackageChange, ProgressState};

use serde_json::json;

use recording::{Recording, recordings};
use score::{Rate, Score};
use setting::{Setting, package, state};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Frames per recording in the test; `FRAMES` overrides it.
const FRAMES: usize = 16;
const WANTED: f64 = 95.0;

fn row(table: &mut String, name: &str, score: &Score) {
    let rate = |rate: Rate| match rate.all {
        0 => String::new(),
        all => format!("{}/{all}", rate.right),
    };
    let cells = [
        rate(score.next_nodes),
        rate(score.actions),
        rate(score.acting),
        rate(score.drains),
        rate(score.running),
    ];
    writeln!(table, "| {name} | {} |", cells.join(" | ")).expect("a string");
}

/// Recordings of the operator generation that runs packages as Jobs.
#[test]
fn predictions_agree_with_recordings() {
    predictions_agree("recordings", "figures");
}

/// Recordings of end-to-end test scenarios with operator v0.17.
#[test]
fn predictions_agree_with_v0_17() {
    predictions_agree("recordings-v0.17", "figures of v0.17");
}

fn predictions_agree(directory: &str, mark: &str) {
    let frames = std::env::var("FRAMES").ok().and_then(|n| n.parse().ok());
    let frames = frames.unwrap_or(FRAMES);
    let mut table = String::from(
        "| Recording | Next nodes | Next actions | of these, with an action | During drains | Running stages |\n\
         | --- | --: | --: | --: | --: | --: |\n",
    );
    let mut total = Score::default();
    for path in recordings(directory) {
        let recording = Recording::read(&path);
        let score = Score::of(&recording, frames);
        row(&mut table, &recording.name, &score);
        assert_eq!(score.forbidden, Vec::<String>::new());
        total = total.plus(score);
    }
    row(&mut table, "**all**", &total);
    let percent = [total.next_nodes, total.actions, total.drains].map(Rate::percent);
    let baseline = total.baseline.percent();
    writeln!(
        table,
        "\nNext nodes: {:.1} percent right. Next actions: {:.1} percent; a prediction of no action is right in \
         {baseline:.1} percent. During drains: {:.1} percent.",
        percent[0], percent[1], percent[2]
    )
    .expect("a string");
    let misses = total.misses.join("\n");
    assert!(percent.iter().all(|p| *p >= WANTED), "{table}\n{misses}");
    assert!(total.actions.percent() > baseline, "{table}\n{misses}");
    assert_eq!(frames, FRAMES, "not the frames of the documentation:\n{table}\n{misses}");
    assert_documented(mark, &table);
}

/// At least 90 percent of the estimates of steady rollouts are right; see [`estimate::Estimate::right`].
#[test]
fn estimates_agree_with_recordings() {
    let mut table = String::from(
        "| Recording | Custom resource | after 25 % | after 50 % | after 75 % | |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut rate = Rate::default();
    for path in recordings("recordings") {
        for rollout in estimate::estimates(&Recording::read(&path)) {
            let cells: Vec<String> = rollout.estimates.iter().map(ToString::to_string).collect();
            let unsteady = if rollout.steady { "" } else { "stage times vary" };
            let (recording, skyhook) = (&rollout.recording, &rollout.skyhook);
            writeln!(table, "| {recording} | {skyhook} | {} | {unsteady} |", cells.join(" | "))
                .expect("a string");
            for estimate in rollout.estimates.iter().filter(|_| rollout.steady) {
                rate.add(estimate.right());
            }
        }
    }
    let (right, all) = (rate.right, rate.all);
    write!(table, "\nWhere stage times are steady, {right} of {all} are right.\n").expect("a string");
    assert!(rate.percent() >= 90.0, "{table}");
    assert_documented("estimates", &table);
}

/// Compares the packages, stages, nodes and the parallelism after an edit.
#[test]
fn effects_agree_with_recordings() {
    let all: Vec<effects::Edit> =
        recordings("recordings").iter().flat_map(|path| effects::edits(&Recording::read(path))).collect();
    let undisturbed = all.iter().filter(|edit| edit.undisturbed).count();
    assert!(undisturbed >= 15, "{undisturbed} edits");
    for edit in &all {
        let (place, predicted, actual) = (&edit.place, &edit.predicted, &edit.actual);
        assert!(edit.right(), "{place}: predicted {predicted:?}, actual {actual:?}");
    }
}

/// Asserts that docs/model.md has this text between two marks; with UPDATE set, writes it there.
fn assert_documented(mark: &str, text: &str) {
    if std::env::var_os("RECORDINGS").is_some() {
        panic!("not the recordings of the documentation:\n{text}");
    }
    let page = Path::new(ROOT).join("docs/model.md");
    let whole = std::fs::read_to_string(&page).expect("docs/model.md");
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let (before, rest) = whole.split_once(&begin).expect("a begin mark");
    let (_, after) = rest.split_once(&end).expect("an end mark");
    let fresh = format!("{before}{begin}{text}{end}{after}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&page, &fresh).expect("the file is writable");
        return;
    }
    assert!(whole == fresh, "docs/model.md is stale: run this test with UPDATE=1\n{text}");
}

/// The progress of the custom resource `tune` on a node, as state, reason and next action.
fn progress(cluster: &Cluster, node: &str) -> (ProgressState, &'static str, Option<String>) {
    let model = Model::new(cluster);
    let progress: NodeProgress<'_> = model.progress("tune", node).expect("a selected node");
    let action = progress.next_action.as_ref().map(Action::to_string);
    (progress.state, progress.reason.describe().code, action)
}

#[test]
fn before_v0_20_a_node_of_the_batch_waits_for_those_in_progress() {
    let at = |version| {
        Setting::new(version)
            .skyhook(
                "tune",
                json!({"packages": {"aa": package(&[])}, "interruptionBudget": {"count": 2}}),
                json!({"nodePriority": {"n1": null, "n2": null}}),
            )
            .node("n1", "tune", "in_progress", &state(&[("aa", "apply", "in_progress")]))
            .node("n2", "tune", "waiting", &state(&[("aa", "apply", "complete")]))
            .cluster()
    };
    let waits = (ProgressState::Waiting, "BatchSibling", None);
    assert_eq!(progress(&at("v0.17.0"), "n2"), waits);
    let next = Some("starts stage config of aa".to_owned());
    assert_eq!(progress(&at("v0.20.0"), "n2"), (ProgressState::Running, "Nothing", next));
}

/// While the first batch is not recorded yet, work on one node does not prevent an uninstall on another.
#[test]
fn a_requested_uninstall_starts_beside_a_batch_that_is_not_recorded() {
    let mut driver = package(&[]);
    driver["uninstall"] = json!({"enabled": true, "apply": true});
    let cluster = Setting::new("v0.17.0")
        .skyhook("tune", json!({"packages": {"aa": driver}, "interruptionBudget": {"count": 1}}), json!({}))
        .node("n1", "tune", "in_progress", &state(&[("aa", "apply", "in_progress")]))
        .node("n2", "tune", "complete", &state(&[("aa", "config", "complete")]))
        .cluster();
    let next = Some("starts stage uninstall of aa".to_owned());
    assert_eq!(progress(&cluster, "n2"), (ProgressState::Running, "Nothing", next));
}

#[test]
fn before_v0_18_a_late_package_without_dependencies_never_runs() {
    let at = |version| {
        let packages =
            json!({"aa": package(&[]), "bb": package(&["aa"]), "cc": package(&["bb"]), "late": package(&[])});
        let done = ["aa", "bb", "cc"].map(|name| (name, "config", "complete"));
        Setting::new(version)
            .skyhook("tune", json!({"packages": packages}), json!({}))
            .node("n1", "tune", "waiting", &state(&done))
            .cluster()
    };
    let never = (ProgressState::Blocked, "NeverScheduled", None);
    assert_eq!(progress(&at("v0.17.0"), "n1"), never);
    let next = Some("starts stage apply of late".to_owned());
    assert_eq!(progress(&at("v0.18.0"), "n1"), (ProgressState::Running, "Nothing", next));
}

#[test]
fn since_v0_17_a_package_after_its_interrupt_is_complete_though_the_spec_has_none() {
    let at = |version| {
        Setting::new(version)
            .skyhook("tune", json!({"packages": {"aa": package(&[])}}), json!({}))
            .node("n1", "tune", "complete", &state(&[("aa", "post-interrupt", "complete")]))
            .cluster()
    };
    let complete = (ProgressState::Complete, "Nothing", None);
    assert_eq!(progress(&at("v0.17.0"), "n1"), complete);
    let again = Some("starts stage apply of aa".to_owned());
    assert_eq!(progress(&at("v0.16.0"), "n1"), (ProgressState::Running, "Nothing", again));
}

#[test]
fn a_malformed_state_halts_every_custom_resource() {
    let cluster = Setting::new("v0.20.0")
        .skyhook("other", json!({"packages": {"aa": package(&[])}, "priority": 900}), json!({}))
        .skyhook("tune", json!({"packages": {"aa": package(&[])}}), json!({}))
        .node("n1", "tune", "waiting", &state(&[]))
        .node("n2", "other", "waiting", &json!("{"))
        .cluster();
    let blocked = (ProgressState::Blocked, "MalformedState", None);
    assert_eq!(progress(&cluster, "n1"), blocked);
    let model = Model::new(&cluster);
    let next = model.next_nodes("tune");
    assert_eq!(next[0].1.count, 0, "{next:?}");
}

#[test]
fn a_deletion_waits_for_uninstalls_on_other_nodes() {
    let mut enabled = package(&[]);
    enabled["uninstall"] = json!({"enabled": true, "apply": false});
    let cluster = Setting::new("v0.20.0")
        .skyhook("tune", json!({"packages": {"aa": enabled}}), json!({}))
        .deleted()
        .node("n1", "tune", "complete", &state(&[("aa", "config", "complete")]))
        .node("n2", "tune", "complete", &state(&[]))
        .cluster();
    let next = Some("starts stage uninstall of aa".to_owned());
    assert_eq!(progress(&cluster, "n1"), (ProgressState::Running, "Nothing", next));
    let waits = (ProgressState::Waiting, "Deletion", None);
    assert_eq!(progress(&cluster, "n2"), waits);
}

#[test]
fn a_node_that_two_compartments_select_belongs_to_the_safer_one() {
    let compartment = |name: &str, strategy: &str| {
        json!({
            "name": name, "selector": {"matchLabels": {"pool": "n1"}}, "budget": {"count": 1},
            "strategy": {strategy: {"initialBatch": 1}},
        })
    };
    let cluster = Setting::new("v0.20.0")
        .policy(json!({
            "default": {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}},
            "compartments": [compartment("fast", "exponential"), compartment("slow", "fixed")],
        }))
        .skyhook("tune", json!({"packages": {"aa": package(&[])}, "deploymentPolicy": "policy"}), json!({}))
        .node("n1", "tune", "waiting", &state(&[]))
        .node("n2", "tune", "waiting", &state(&[]))
        .cluster();
    let model = Model::new(&cluster);
    let next = model.next_nodes("tune");
    let names = next.iter().map(|(compartment, next)| {
        let nodes: Vec<&str> = next.nodes.iter().map(|n| n.name.as_str()).collect();
        (*compartment, nodes, next.ordered)
    });
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("fast", vec![], true), ("slow", vec!["n1"], true), ("__default__", vec!["n2"], true)]
    );
}

/// Stage config of an upgrade is not a change of a configMap.
#[test]
fn upgrade_in_progress_changes_no_config_map() {
    let path = recordings("recordings").into_iter().find(|path| path.ends_with("upgrade_service.ndjson.gz"));
    let cluster = Recording::read(&path.expect("the recording")).cluster_then(12.0);
    let effects = nodewright::model::effects(&cluster, &cluster, &["gpu-tune"]);
    let packages = effects.iter().flat_map(|effects| &effects.packages);
    let driver = packages.into_iter().find(|package| package.package == "driver").expect("the driver runs");
    assert_eq!(driver.change, PackageChange::Install);
}

/// A reboot takes much longer than the restarts that were measured.
#[test]
fn restarts_do_not_tell_how_long_a_reboot_takes() {
    let path = recordings("recordings").into_iter().find(|path| path.ends_with("upgrade_service.ndjson.gz"));
    let recording = Recording::read(&path.expect("the recording"));
    let before = recording.cluster_then(recording.end());
    let object = &recording.specs_at(recording.end())["gpu-tune"];
    let is_estimated = |interrupt: &str| {
        let mut object = object.clone();
        let driver = &mut object["spec"]["packages"]["driver"];
        driver["version"] = json!("9.0.0");
        driver["interrupt"]["type"] = json!(interrupt);
        let skyhook = Skyhook::deserialize(&object).expect("a custom resource");
        let after = before.with_applied(vec![skyhook], Vec::new());
        let effects = nodewright::model::effects(&before, &after, &["gpu-tune"]).remove(0);
        assert!(effects.stuck.is_none(), "{:?}", effects.stuck);
        effects.rollout.estimate.is_some()
    };
    assert!(is_estimated("service"));
    assert!(!is_estimated("reboot"));
}

/// Nodes of the running batch start before others.
#[test]
fn next_nodes_may_wait_for_the_batch() {
    let cluster = Setting::new("v0.20.0")
        .policy(json!({"default": {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}}))
        .skyhook("tune", json!({"packages": {"aa": package(&[])}, "deploymentPolicy": "policy"}), json!({}))
        .node("n1", "tune", "in_progress", &state(&[("aa", "apply", "in_progress")]))
        .node("n2", "tune", "waiting", &state(&[]))
        .cluster();
    let model = Model::new(&cluster);
    let (_, next) = model.next_nodes("tune").remove(0);
    let names: Vec<&str> = next.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!((names, next.after_batch), (vec!["n2"], true));
}

/// An upgrade starts at once on nodes with an earlier version; a node without one is installed in a batch.
#[test]
fn a_new_version_upgrades_some_nodes_and_is_installed_on_others() {
    let cluster = |version: &str| {
        let mut a = package(&[]);
        a["version"] = json!(version);
        Setting::new("v0.20.0")
            .policy(json!({"default": {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}}))
            .skyhook("tune", json!({"packages": {"aa": a}, "deploymentPolicy": "policy"}), json!({}))
            .node("n1", "tune", "complete", &state(&[("aa", "config", "complete")]))
            .node("n2", "tune", "complete", &state(&[("aa", "config", "complete")]))
            .node("n3", "tune", "waiting", &state(&[]))
            .cluster()
    };
    let (before, after) = (cluster("1.0.0"), cluster("2.0.0"));
    let effects = nodewright::model::effects(&before, &after, &["tune"]).remove(0);
    let packages = effects.packages.iter().map(|package| {
        let mut nodes: Vec<&str> = package.nodes.iter().map(String::as_str).collect();
        nodes.sort_unstable();
        (package.change, package.from.as_deref().zip(package.to.as_deref()), nodes, package.at_once)
    });
    assert_eq!(
        packages.collect::<Vec<_>>(),
        [
            (PackageChange::Upgrade, Some(("1.0.0", "2.0.0")), vec!["n1", "n2"], Some(2)),
            (PackageChange::Install, None, vec!["n3"], Some(1)),
        ]
    );
}
