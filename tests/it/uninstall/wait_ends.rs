//! Reasons for which the wait ends before the package is removed.

use serde_json::json;

use super::{FAILING, SKYHOOK, UNDER_WAY, driver, installed, nodes, progress, uninstall};
use crate::support::run::{Child, run};

#[test]
fn blocker_ends_the_wait_with_its_finding() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(nodes(SKYHOOK, [&[FAILING], &[]]));
    let ran = uninstall(&fake, "--tolerate 0s --wait");
    ran.expect_code(2);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines[..3],
        ["STUCK: 1 cause blocks 1 of 2 nodes", "", "error SKY112 uninstall-failing  gpu driver on node-1"]
    );
    let end = [
        "uninstall driver of gpu, and wait: 1 changed",
        "stopped: progress is blocked until someone intervenes",
        "driver 1.0.0: 1 of 2 nodes done: uninstall erroring on node-1; the uninstall continues in the cluster unless \
         it is blocked",
    ];
    assert!(ran.stdout.ends_with(&(end.join("\n") + "\n")), "{}", ran.stdout);
}

#[test]
fn json_output_is_one_document() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(nodes(SKYHOOK, [&[FAILING], &[]]));
    let ran = uninstall(&fake, "--tolerate 0s --wait -o json");
    ran.expect_code(2);
    let outcome = ran.json();
    assert_eq!(outcome["kind"], "Outcome");
    assert_eq!(outcome["ended"], "blocked");
    assert_eq!(outcome["findings"], json!(["SKY112 gpu driver node-1"]));
    assert_eq!(outcome["report"]["findings"][0]["code"], "SKY112");
    assert_eq!(outcome["steps"][0]["result"], "applied");
}

#[test]
fn failing_install_blocks_the_uninstall() {
    let fake = SKYHOOK.serve(driver(false)).with(SKYHOOK.node(
        "node-1",
        "erroring",
        &["driver|1.0.0 apply erroring"],
    ));
    let ran = uninstall(&fake, "--tolerate 0s --wait");
    ran.expect_code(2);
    assert!(ran.stdout.contains("error SKY201"), "{}", ran.stdout);
}

#[test]
fn brief_failure_does_not_end_the_wait() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(nodes(SKYHOOK, [&[FAILING], &[]]));
    // The read that would confirm the failure finds the next attempt instead.
    fake.on("LIST events").nth(3).after(nodes(SKYHOOK, [&[UNDER_WAY], &[]]));
    fake.on("LIST events").nth(5).after(super::uninstalled(SKYHOOK));
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(0);
}

#[test]
fn timeout_is_reported() {
    let fake = installed(SKYHOOK);
    let ran = uninstall(&fake, "--wait --timeout 1s");
    ran.expect_code(5);
    assert_eq!(
        ran.stdout,
        "uninstall driver of gpu, and wait: 1 changed\n\
         timed out waiting until driver 1.0.0 is gone from all nodes\n\
         driver 1.0.0: 0 of 2 nodes done: not started on node-[1-2]; the uninstall continues in the cluster unless it \
         is blocked\n"
    );
}

/// The nodes no longer have a record, but the operator's copy in the status does: the message names the copy.
#[test]
fn timeout_names_the_part_that_is_missing() {
    let fake = installed(SKYHOOK);
    fake.on("PATCH skyhooks").nth(1).after(|it| {
        super::uninstalled(SKYHOOK)(it);
        let mut skyhook = it.store.find("skyhooks", "", "gpu").cloned().expect("the custom resource exists");
        skyhook["status"]["nodeState"] = json!({"node-1": {"driver|1.0.0": {}}});
        it.store.load(skyhook);
    });
    let ran = uninstall(&fake, "--remove --timeout 2s");
    ran.expect_code(5);
    ran.expect_stdout(
        "timed out waiting until the operator has removed driver 1.0.0 from status.nodeState of gpu\n\
         driver 1.0.0 is gone from all nodes\n",
    );
}

#[test]
fn interrupt_leaves_the_uninstall_running() {
    let fake = installed(SKYHOOK);
    let child = Child::default();
    fake.on("LIST events").nth(3).after(child.interrupt());
    let served = fake.serve();
    let ran = run("uninstall gpu driver --wait --confirm --no-journal")
        .kubeconfig(&served.kubeconfig())
        .child(&child)
        .output();
    ran.expect_code(130);
    assert!(ran.stdout.contains("the uninstall continues in the cluster"), "{}", ran.stdout);
    let now = fake.get("skyhooks", "", "gpu").expect("the custom resource exists");
    assert_eq!(now["spec"]["packages"], driver(true), "nothing is taken back");
}

#[test]
fn cancellation_ends_the_wait() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(|it| {
        it.store.load(SKYHOOK.skyhook("in_progress", driver(false)));
    });
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(1);
    assert!(ran.stdout.contains("stopped waiting: the uninstall of driver was canceled"), "{}", ran.stdout);
    assert!(ran.stdout.contains("; the spec does not request the uninstall\n"), "{}", ran.stdout);
}

#[test]
fn version_change_ends_the_wait() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(|it| {
        let mut packages = driver(true);
        packages["driver"]["version"] = "1.1.0".into();
        it.store.load(SKYHOOK.skyhook("in_progress", packages));
    });
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(1);
    assert!(ran.stdout.contains("(SKY104)"), "{}", ran.stdout);
}

#[test]
fn removed_node_is_not_awaited() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(nodes(SKYHOOK, [&[], &[UNDER_WAY]]));
    fake.on("LIST events").nth(3).after(|it| it.store.forget("nodes", "", "node-2"));
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(0);
    assert_eq!(progress(&ran).len(), 2, "{}", ran.stderr);
}

#[test]
fn invalid_flag_combinations_are_refused() {
    let fake = installed(SKYHOOK);
    for (words, code) in
        [("--wait --timeout soon", 64), ("--cancel --wait", 64), ("--all-packages", 64), ("--timeout 5s", 64)]
    {
        assert_eq!(uninstall(&fake, words).code, Some(code), "{words}");
    }
    assert!(fake.writes().is_empty());
}

/// A saved plan waits like the command: for the nodes, not only for the operator's copy in the status, which is empty
/// here. A limit below a second is not "no limit".
#[test]
fn saved_plan_waits_for_the_nodes() {
    for blocked in [false, true] {
        let fake = installed(SKYHOOK);
        let served = fake.serve();
        let plan = served.dir().join("plan.json").display().to_string();
        let go = |words: &str| run(words).kubeconfig(&served.kubeconfig()).output();
        let timeout = if blocked { "60s" } else { "500ms" };
        go(&format!("uninstall gpu driver --wait --timeout {timeout} --plan-out {plan}")).expect_code(0);
        if blocked {
            fake.on("WATCH nodes").nth(1).after(|it| {
                let mut node = SKYHOOK.node("node-1", "in_progress", &[UNDER_WAY]);
                node["metadata"]["labels"] = json!({SKYHOOK.0.key("ignore"): "true"});
                it.store.load(node);
            });
        }
        let ran = go(&format!("apply-plan {plan} --confirm --no-journal"));
        ran.expect_code(if blocked { 2 } else { 5 });
        ran.expect_stdout(if blocked {
            "stopped: progress is blocked until someone intervenes"
        } else {
            "timed out waiting until driver 1.0.0 is gone from all nodes\n\
             driver 1.0.0: 0 of 2 nodes done: not started on node-[1-2]"
        });
    }
}
