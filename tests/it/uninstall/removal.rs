//! `--remove` and `--all-packages`: stages that wait for each other.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{SKYHOOK, driver, installed, nodes, uninstall, uninstalled};
use crate::support::fake_api::{FakeApi, State};
use crate::support::run::{RunOutput, run};

fn packages(fake: &FakeApi) -> Value {
    fake.get("skyhooks", "", "gpu").expect("the custom resource exists")["spec"]["packages"].clone()
}

#[test]
fn package_leaves_the_spec_once_uninstalled_and_undo_restores_it() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(uninstalled(SKYHOOK));
    let served = fake.serve();
    let state = TempDir::new().expect("a directory");
    let go = |words: &str| -> RunOutput {
        run(words).kubeconfig(&served.kubeconfig()).env("XDG_STATE_HOME", state.path()).output()
    };
    let ran = go("uninstall gpu driver --remove --timeout 60s --confirm");
    ran.expect_code(0);
    assert!(
        ran.stdout.starts_with(
            "uninstall driver of gpu, wait, and remove it from the spec: 2 changed\n\
             driver 1.0.0 is gone from all nodes\n\
             to undo: kubectl skyhook undo "
        ),
        "{}",
        ran.stdout
    );
    assert_eq!(packages(&fake), json!({}));
    let removal = fake.writes().pop().expect("the removal was sent").body;
    let operations = removal.as_array().expect("a JSON patch");
    let tests = |path: &str| {
        let mut tests = operations.iter().filter(|o| o["op"] == "test");
        tests.any(|o| o["path"] == path)
    };
    assert!(tests("/spec/packages/driver/uninstall/apply"), "{removal:#}");
    assert!(tests("/spec/packages/driver/version"), "{removal:#}");

    insta::assert_snapshot!(go("undo --dry-run").transcript());
    let ran = go("undo --confirm");
    ran.expect_code(0);
    assert_eq!(packages(&fake), driver(false));
}

#[test]
fn repeated_removal_has_nothing_to_do() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(uninstalled(SKYHOOK));
    uninstall(&fake, "--remove").expect_code(0);
    let writes = fake.writes().len();
    let again = uninstall(&fake, "--remove");
    assert_eq!(
        again.parts(),
        ("", "driver is no longer in the spec of gpu or on any node: nothing to do\n", Some(0))
    );
    // A package with a record on a node is not removed.
    fake.load(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 uninstall in_progress"]));
    let recorded = uninstall(&fake, "--remove");
    recorded.expect_code(1);
    recorded.expect_stderr("package \"driver\" not found");
    assert_eq!(fake.writes().len(), writes);
}

/// The operator's webhook reads the copy in the status, which the operator writes after the node.
#[test]
fn status_copy_of_node_states_is_awaited() {
    let fake = installed(SKYHOOK);
    let mirrored = |it: &mut State, state: Value| {
        let mut cr = SKYHOOK.skyhook("in_progress", driver(true));
        cr["status"]["nodeState"] = json!({"node-1": state});
        it.store.load(cr);
    };
    fake.on("WATCH nodes").nth(1).after(move |it| {
        uninstalled(SKYHOOK)(it);
        mirrored(it, json!({"driver|1.0.0": {}}));
    });
    fake.on("LIST events").nth(3).after(move |it| mirrored(it, json!({})));
    let ran = uninstall(&fake, "--remove");
    ran.expect_code(0);
    assert_eq!(packages(&fake), json!({}));
}

#[test]
fn package_with_new_dependents_stays_in_the_spec() {
    let fake = installed(SKYHOOK);
    let mut two = driver(false);
    two["tuning"] = json!({"version": "1.0.0", "image": "example.com/tuning"});
    fake.load(SKYHOOK.skyhook("complete", two.clone()));
    two["driver"]["uninstall"]["apply"] = true.into();
    two["tuning"]["dependsOn"] = json!({"driver": "1.0.0"});
    let after = two.clone();
    fake.on("WATCH nodes").nth(1).after(move |it| {
        it.store.load(SKYHOOK.skyhook("complete", two.clone()));
        uninstalled(SKYHOOK)(it);
    });
    let ran = uninstall(&fake, "--remove");
    ran.expect_code(4);
    assert!(ran.stdout.contains("skipped"), "{}", ran.stdout);
    assert_eq!(packages(&fake), after);
}

#[test]
fn webhook_denial_is_shown() {
    let fake = installed(SKYHOOK);
    let denied =
        crate::support::fake_api::Problem::new(422, "Invalid", "admission webhook denied the request: no");
    fake.on("PATCH skyhooks").reply(denied);
    let ran = uninstall(&fake, "--dry-run=server");
    ran.expect_code(1);
    assert!(ran.stdout.contains("denied the request: no"), "{}", ran.stdout);
    assert_eq!(packages(&fake), driver(false));
}

const CHAIN: [&str; 2] = ["base|1.0.0 config complete", "driver|1.0.0 config complete"];

fn chain(base: bool, driver: bool) -> Value {
    let package = |apply: bool, on: Value| {
        json!({
            "version": "1.0.0", "image": "example.com/any", "dependsOn": on,
            "uninstall": {"enabled": true, "apply": apply},
        })
    };
    json!({
        "base": package(base, json!({})),
        "driver": package(driver, json!({"base": "1.0.0"})),
    })
}

fn all(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("uninstall gpu --all-packages --timeout 60s --confirm --no-journal {words}"))
        .kubeconfig(&served.kubeconfig())
        .output()
}

/// Simulates the operator: it uninstalls requested packages, one at each read.
#[test]
fn packages_are_removed_after_their_dependents() {
    let fake = SKYHOOK
        .serve(chain(false, false))
        .with(SKYHOOK.node("node-1", "complete", &CHAIN))
        .with(SKYHOOK.node("node-2", "complete", &CHAIN));
    fake.on("PATCH skyhooks").nth(2).after(|it| {
        let base = it.store.find("skyhooks", "", "gpu").expect("the custom resource exists");
        assert_eq!(base["spec"]["packages"]["base"]["uninstall"]["apply"], false);
    });
    fake.on("LIST events")
        .nth(3)
        .after(nodes(SKYHOOK, [&["base|1.0.0 config complete"], &["base|1.0.0 config complete"]]));
    fake.on("PATCH skyhooks").nth(3).after(uninstalled(SKYHOOK));
    let ran = all(&fake, "--remove");
    ran.expect_code(0);
    assert_eq!(
        ran.stdout,
        "uninstall all packages of gpu (driver, then base), wait, and remove them from the spec: 4 changed\n\
         driver 1.0.0 and base 1.0.0 are gone from all nodes\n"
    );
    assert_eq!(packages(&fake), json!({}));
}

#[test]
fn first_blocked_package_ends_the_removal() {
    let fake = SKYHOOK.serve(chain(false, false)).with(SKYHOOK.node("node-1", "complete", &CHAIN));
    fake.on("WATCH nodes").nth(1).after(|it| {
        let failing = [CHAIN[0], "driver|1.0.0 uninstall erroring"];
        it.store.load(SKYHOOK.node("node-1", "erroring", &failing));
    });
    let ran = all(&fake, "--tolerate 0s");
    ran.expect_code(2);
    assert!(ran.stdout.contains("error SKY112"), "{}", ran.stdout);
    assert!(ran.stdout.trim_end().ends_with("base 1.0.0 not started"), "{}", ran.stdout);
    assert_eq!(packages(&fake), chain(false, true));
}

/// The guard on the dependencies of another package must not fail once that package has left the spec.
#[test]
fn removal_of_another_package_during_the_wait_is_no_obstacle() {
    for depends in [false, true] {
        let fake = installed(SKYHOOK);
        let mut two = driver(false);
        two["tuning"] = json!({"version": "1.0.0", "image": "example.com/tuning"});
        if depends {
            two["base"] = json!({"version": "1.0.0", "image": "example.com/base"});
            two["tuning"]["dependsOn"] = json!({"base": "1.0.0"});
        }
        fake.load(SKYHOOK.skyhook("complete", two.clone()));
        two["driver"]["uninstall"]["apply"] = true.into();
        two.as_object_mut().expect("a map").remove("tuning");
        fake.on("WATCH nodes").nth(1).after(move |it| {
            it.store.load(SKYHOOK.skyhook("complete", two.clone()));
            uninstalled(SKYHOOK)(it);
        });
        let ran = uninstall(&fake, "--remove");
        ran.expect_code(0);
        let left: Vec<String> = packages(&fake).as_object().expect("a map").keys().cloned().collect();
        assert_eq!(left, if depends { vec!["base"] } else { vec![] }, "{}", ran.transcript());
    }
}
