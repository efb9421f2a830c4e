//! A migration that holds the operator: changes without effect are refused, with hints on the required steps.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::clusters;
use crate::support::run::RunOutput;

/// The newer operator, held by an unfinished object of the older API.
struct Held(TestCluster);

impl Held {
    fn new() -> Held {
        let fake = clusters::named("modelled-migration-hold").served();
        let fake = fake.serving(ApiFlavor::Skyhook);
        Held(TestCluster::serving(fake))
    }

    fn run(&self, words: &str) -> RunOutput {
        self.0.run(words)
    }

    fn patches(&self) -> usize {
        let writes = self.0.fake.writes();
        writes.iter().filter(|w| w.method == "PATCH").count()
    }

    fn cr_annotation(&self, key: &str) -> Value {
        let cr = self.0.fake.get("nodewrights", "", "gpu").expect("the custom resource exists");
        cr["metadata"]["annotations"][ApiFlavor::NodeWright.key(key)].clone()
    }
}

/// Pods that the older operator still runs.
const OLD_PODS: [&str; 2] =
    ["gpu-driver-2-0-1-apply-node-3-9669eb68", "gpu-driver-2-0-1-config-node-2-c90a12db"];

const REFUSED: &str = "\
error: the operator does nothing until these Skyhook objects of the older API are finished or gone: gpu; nothing was \
                       changed\n";

#[test]
fn change_without_effect_during_a_migration_hold_needs_force() {
    for words in [
        "reset gpu",
        "reset gpu --node node-1",
        "node reset node-1 --skyhook gpu",
        "package rerun driver --skyhook gpu --node node-2",
        "update-state gpu driver 2.0.1 config complete --node node-2",
        "uninstall gpu driver --enable",
    ] {
        let held = Held::new();
        held.adopted();
        let ran = held.run(&format!("{words} --confirm"));
        ran.expect_code(3);
        assert_eq!(ran.stdout, "");
        ran.expect_stderr(REFUSED);
        for hint in ["kubectl delete skyhooks.", "kubectl skyhook explain SKY601", "--force"] {
            ran.expect_stderr(hint);
        }
        assert_eq!(held.patches(), 0, "{words}");

        let forced = held.run(&format!("{words} --confirm --force"));
        forced.expect_code(0);
        forced.expect_stderr("the operator does nothing while");
        assert!(held.patches() > 0, "{words}");
        // Without a pause, which the operator would not acknowledge.
        assert_eq!(held.cr_annotation("pause"), Value::Null);
    }
}

impl Held {
    /// Copies the keys on nodes to the newer prefix, as the operator does before the hold.
    fn adopted(&self) {
        self.0.fake.change(|state| {
            for name in ["node-1", "node-2", "node-3"] {
                let mut node = state.store.find("nodes", "", name).cloned().expect("a node");
                let [old, new] = [ApiFlavor::Skyhook, ApiFlavor::NodeWright];
                for map in ["annotations", "labels"] {
                    let Some(keys) = node["metadata"][map].as_object().cloned() else {
                        continue;
                    };
                    for (key, value) in keys {
                        if let Some(rest) = key.strip_prefix(&old.key("")) {
                            node["metadata"][map][new.key(rest)] = value;
                        }
                    }
                }
                state.store.load(node);
            }
        });
    }
}

#[test]
fn commands_start_no_work_during_a_migration_hold() {
    for (stop, go) in [("pause", "resume"), ("disable", "enable")] {
        let held = Held::new();
        // `pause` and `disable` work during a migration.
        let stopped = held.run(&format!("{stop} gpu --confirm"));
        stopped.expect_code(0);
        stopped.expect_stderr("the operator does nothing while");
        assert_eq!(held.cr_annotation(stop), json!("true"));
        held.0.fake.change(|state| {
            for pod in OLD_PODS {
                state.store.forget("pods", "skyhook", pod);
            }
        });
        let ran = held.run(&format!("{go} gpu"));
        ran.expect_code(3);
        ran.expect_stderr(REFUSED);
        assert_eq!(held.cr_annotation(stop), json!("true"));
        held.run(&format!("{go} gpu --force -y")).expect_code(0);
        assert_eq!(held.cr_annotation(stop), Value::Null);
        // A command with nothing to change succeeds.
        held.run(&format!("{go} gpu")).expect_code(0);
    }
}

#[test]
fn resume_with_two_executors_needs_force() {
    let held = Held::new();
    held.run("pause gpu --confirm").expect_code(0);
    let ran = held.run("resume gpu");
    ran.expect_code(3);
    ran.expect_stderr("pods of the older operator are still running for gpu: pod/skyhook/gpu-driver-2-0-1-");
    held.0.fake.on("LIST pods").reply(403);
    let unseen = held.run("resume gpu");
    unseen.expect_code(3);
    unseen.expect_stderr("so it is unknown whether a pod of the older operator is still running for gpu");
    assert_eq!(held.cr_annotation("pause"), json!("true"));
    held.run("resume gpu --force -y").expect_code(0);
    assert_eq!(held.cr_annotation("pause"), Value::Null);
}

/// Leftovers of a deleted object can be removed without the operator.
#[test]
fn leftovers_can_be_cleaned_during_a_migration_hold() {
    let held = Held::new();
    held.0.fake.change(|state| {
        let mut node = state.store.find("nodes", "", "node-1").cloned().expect("a node");
        let key = ApiFlavor::NodeWright.key("status_gone");
        node["metadata"]["annotations"][key] = json!("complete");
        state.store.load(node);
    });
    held.run("reset gone --confirm").expect_code(0);
    assert_eq!(held.patches(), 1);
}
