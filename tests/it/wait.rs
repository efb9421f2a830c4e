//! `wait`: each condition, what ends it early, and which server errors it survives.

mod deletion;
mod server;

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::fake_api::{FakeApi, State};
use crate::support::object_builder::{NODEWRIGHT, ObjectBuilder, PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};
use crate::support::test_cluster::operator_of_version;

fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

fn removable(apply: bool) -> Value {
    json!({"driver": {
        "version": "1.0.0",
        "image": "example.com/driver",
        "uninstall": {"enabled": true, "apply": apply},
    }})
}

/// A cluster in progress: the package is applied on its node.
fn in_progress(world: ObjectBuilder, packages: Value) -> FakeApi {
    let mut node = world.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]);
    // Just created, so that nothing counts as stalled.
    node["metadata"]["creationTimestamp"] = json!(now());
    world.serve(packages).with(node)
}

#[expect(clippy::disallowed_methods, reason = "the command reads the clock as well")]
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn wait(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("wait --timeout 20s {words}")).kubeconfig(&served.kubeconfig()).output()
}

/// Changes the cluster once the nodes are watched.
fn on_watch(fake: &FakeApi, change: impl Fn(&mut State) + Send + Sync + 'static) {
    fake.on("WATCH nodes").nth(1).after(change);
}

/// Changes the cluster at the n-th read of unwatched sources; the first read precedes the watches.
fn on_read(fake: &FakeApi, nth: usize, change: impl Fn(&mut State) + Send + Sync + 'static) {
    fake.on("LIST poddisruptionbudgets").nth(nth).after(change);
}

fn complete(world: ObjectBuilder, packages: Value) -> impl Fn(&mut State) + Send + Sync {
    move |it| {
        it.store.load(world.node("node-1", "complete", &["driver|1.0.0 config complete"]));
        it.store.load(world.skyhook("complete", packages.clone()));
    }
}

#[test]
fn wait_for_complete_works_for_both_api_flavors() {
    for (world, line) in [(SKYHOOK, "skyhook/gpu complete\n"), (NODEWRIGHT, "nodewright/gpu complete\n")] {
        let fake = in_progress(world, driver());
        on_watch(&fake, complete(world, driver()));
        assert_eq!(wait(&fake, "gpu").parts(), (line, "", Some(0)));
    }
}

#[test]
fn stale_observed_generation_is_not_complete() {
    let upgraded = json!({"driver": {"version": "2.0.0", "image": "example.com/driver"}});
    let fake = in_progress(SKYHOOK, upgraded.clone());
    fake.change(complete(SKYHOOK, upgraded.clone()));
    on_watch(&fake, move |it| {
        it.store.load(SKYHOOK.node("node-1", "complete", &["driver|2.0.0 config complete"]));
        let mut skyhook = SKYHOOK.skyhook("complete", upgraded.clone());
        skyhook["metadata"]["annotations"] = json!({"touched": "yes"});
        it.store.load(skyhook);
    });
    let ran = wait(&fake, "gpu -o json");
    assert_eq!(ran.json()["items"], json!([{"kind": "Skyhook", "name": "gpu", "met": true}]));
    assert!(fake.lines().iter().any(|l| l.contains("watch=true")));
}

/// Since v0.17, a package without an interrupt is complete at stage post-interrupt, too.
#[test]
fn package_whose_interrupt_was_removed_is_complete() {
    let wait_with = |version: &str| {
        let done = SKYHOOK.node("node-1", "complete", &["driver|1.0.0 post-interrupt complete"]);
        let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
        let fake = fake.with(SKYHOOK.skyhook("complete", driver())).with(done);
        wait(&fake.with(operator_of_version(version)), "gpu")
    };
    assert_eq!(wait_with("v0.17.0").parts(), ("skyhook/gpu complete\n", "", Some(0)));
    let ran = wait_with("v0.16.0");
    ran.expect_code(2);
    ran.expect_stdout("packages are unfinished on 1 node and no pod or job is running");
}

/// After an edit that runs nothing, the status keeps its generation, and only the condition `Ready` has the new one.
#[test]
fn edit_that_runs_nothing_is_complete() {
    let mut skyhook = SKYHOOK.skyhook("complete", driver());
    skyhook["metadata"]["generation"] = 6.into();
    skyhook["status"]["observedGeneration"] = 5.into();
    let ready = |generation: i64| json!([{"type": "Ready", "status": "True", "reason": "NodesConverged", "observedGeneration": generation}]);
    let pending = "error: timed out after 3s: gpu: complete, 1 of 1 node done\n\
                   hint: kubectl skyhook diagnose stuck gpu\n";
    for (generation, expected) in [(5, ("", pending, Some(5))), (6, ("skyhook/gpu complete\n", "", Some(0)))]
    {
        skyhook["status"]["conditions"] = ready(generation);
        let fake = in_progress(SKYHOOK, driver());
        fake.change(complete(SKYHOOK, driver()));
        fake.load(skyhook.clone());
        assert_eq!(wait(&fake, "gpu --timeout 3s").parts(), expected, "generation {generation}");
    }
}

#[test]
fn timeout_is_reported() {
    let fake = in_progress(SKYHOOK, driver());
    let ran = wait(&fake, "gpu --timeout 3s");
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: timed out after 3s: gpu: in_progress, 0 of 1 node done\n\
             hint: kubectl skyhook diagnose stuck gpu\n",
            Some(5)
        )
    );
    let ran = wait(&fake, "gpu --timeout 3s -o json");
    assert_eq!(ran.json()["items"][0]["progress"], "in_progress, 0 of 1 node done");
}

/// The operator reports a custom resource without nodes as complete, but nothing was installed.
#[test]
fn custom_resource_without_nodes_is_not_complete() {
    let fake = SKYHOOK.serve(driver());
    let mut skyhook = SKYHOOK.skyhook("complete", driver());
    skyhook["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpuu"}});
    fake.load(skyhook);
    fake.load(SKYHOOK.node("node-1", "", &[]));
    assert_eq!(
        wait(&fake, "gpu --timeout 3s --keep-going").parts(),
        (
            "",
            "error: timed out after 3s: gpu: no node is selected\n\
             hint: kubectl skyhook diagnose stuck gpu\n",
            Some(5)
        )
    );
}

/// A wait that a warning ends does not call it an error, as in `diagnose`.
#[test]
fn ignored_node_blocks_the_wait_without_an_error() {
    let fake = in_progress(SKYHOOK, driver());
    on_watch(&fake, |it| {
        let mut node = SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]);
        node["metadata"]["labels"][ApiFlavor::Skyhook.key("ignore")] = json!("true");
        it.store.load(node);
    });
    let ran = wait(&fake, "gpu");
    ran.expect_code(2);
    ran.expect_stdout(
        "No errors, but some work is blocked until someone intervenes: 1 warning\n\n\
         warning SKY304 node-ignored  gpu on node-1",
    );
}

#[test]
fn blocker_ends_the_wait_with_its_finding() {
    let fake = in_progress(SKYHOOK, driver());
    on_watch(&fake, |it| {
        it.store.load(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
        it.store.load(SKYHOOK.skyhook("erroring", driver()));
    });
    let ran = wait(&fake, "gpu --tolerate 0s");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""));
    let first: Vec<&str> = ran.stdout.lines().take(3).collect();
    assert_eq!(
        first,
        ["STUCK: 1 cause blocks 1 of 1 node", "", "error SKY201 package-erroring  gpu driver on node-1"]
    );
}

/// The operator panics over the pod in every pass.
#[test]
fn pod_that_stops_the_operator_ends_the_wait() {
    let mut node = SKYHOOK.node("node-1", "", &[]);
    node["metadata"]["creationTimestamp"] = json!(now());
    let stray = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stray", "namespace": "default", "labels": {SKYHOOK.0.key("name"): "gpu"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "example.com/c"}]},
        "status": {"phase": "Running"},
    });
    let fake = SKYHOOK.serve(driver()).with(node).with(stray);
    let ran = wait(&fake, "gpu");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""));
    ran.expect_stdout("error SKY504 pod-missing-package-annotation");
}

#[test]
fn brief_failure_does_not_end_the_wait() {
    let fake = in_progress(SKYHOOK, driver());
    on_watch(&fake, |it| {
        it.store.load(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
        it.store.load(SKYHOOK.skyhook("erroring", driver()));
    });
    // The first read finds the failure; the confirming read does not.
    on_read(&fake, 2, complete(SKYHOOK, driver()));
    assert_eq!(wait(&fake, "gpu").code, Some(0));
}

#[test]
fn retried_failure_is_tolerated_for_a_while() {
    let failing =
        || SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
    let fake = failing();
    on_read(&fake, 4, complete(SKYHOOK, driver()));
    assert_eq!(wait(&fake, "gpu").code, Some(0));
    // The wait ends after the tolerated time, or at once if the failure has already lasted that long.
    let began = std::time::Instant::now();
    assert_eq!(wait(&failing(), "gpu --tolerate 1s").code, Some(2));
    assert!(began.elapsed() >= std::time::Duration::from_secs(1));
    let fake = failing();
    let mut node = fake.get("nodes", "", "node-1").expect("a node");
    node["status"]["conditions"] = json!([
        {"type": "Ready", "status": "True"},
        {"type": "skyhook.nvidia.com/gpu/Erroring", "status": "True", "lastTransitionTime": "2026-11-20T11:00:00Z"},
    ]);
    fake.load(node);
    assert_eq!(wait(&fake, "gpu").code, Some(2));
}

#[test]
fn keep_going_waits_despite_blockers() {
    let fake =
        SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
    on_read(&fake, 3, complete(SKYHOOK, driver()));
    assert_eq!(wait(&fake, "gpu --keep-going").code, Some(0));
}

#[test]
fn wait_for_erroring_ends_on_failure() {
    let fake = in_progress(SKYHOOK, driver());
    on_watch(&fake, |it| {
        it.store.load(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
        it.store.load(SKYHOOK.skyhook("erroring", driver()));
    });
    assert_eq!(wait(&fake, "--for=erroring").parts(), ("skyhook/gpu erroring\n", "", Some(0)));
}

#[test]
fn wait_for_uninstalled_ends_when_removed() {
    for words in ["gpu --for=uninstalled=driver", "gpu --for=uninstalled"] {
        let fake = SKYHOOK.serve(removable(true)).with(SKYHOOK.node(
            "node-1",
            "in_progress",
            &["driver|1.0.0 uninstall in_progress"],
        ));
        on_watch(&fake, |it| {
            it.store.load(SKYHOOK.node("node-1", "complete", &[]));
            it.store.load(SKYHOOK.skyhook("complete", removable(true)));
        });
        let ran = wait(&fake, words);
        let condition = words.trim_start_matches("gpu --for=");
        assert_eq!(ran.parts(), (format!("skyhook/gpu {condition}\n").as_str(), "", Some(0)));
    }
}

#[test]
fn unrequested_uninstall_is_not_awaited() {
    let fake = SKYHOOK.serve(removable(false)).with(SKYHOOK.node(
        "node-1",
        "complete",
        &["driver|1.0.0 config complete"],
    ));
    assert_eq!(
        wait(&fake, "gpu --for=uninstalled=driver").parts(),
        (
            "",
            "error: no uninstall of driver was requested, but the package is still on 1 node\n\
             hint: kubectl skyhook uninstall gpu driver\n",
            Some(1)
        )
    );
}

#[test]
fn invalid_flag_combinations_are_refused() {
    let fake = in_progress(SKYHOOK, driver());
    for (words, code) in [
        ("gpx", 1),
        ("gpu --for=ready", 64),
        ("gpu --for=uninstalled=", 64),
        ("gpu --for=uninstalled=drivr", 1),
        ("gpu --timeout soon", 64),
        ("gpu --from tests/clusters/complete", 64),
    ] {
        assert_eq!(wait(&fake, words).code, Some(code), "{words}");
    }
    let ran = run("rollout status gpu --from tests/clusters/complete").output();
    let error = "error: a wait requires a cluster; --from is not supported\nhint: kubectl skyhook status gpu --from PATH\n";
    assert_eq!(ran.parts(), ("", error, Some(64)));
}

/// The operator does nothing on a node that is no longer selected, so a failure there does not block the uninstall.
#[test]
fn failure_on_a_deselected_node_does_not_end_the_wait() {
    let node = |name: &str, pool: &str, entries: &[&str]| {
        let mut node = SKYHOOK.node(name, "in_progress", entries);
        node["metadata"]["labels"] = json!({"pool": pool});
        node["metadata"]["creationTimestamp"] = json!(now());
        node
    };
    let mut gpu = SKYHOOK.skyhook("in_progress", removable(true));
    gpu["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpu"}});
    let fake = SKYHOOK.serve(removable(true));
    fake.load(gpu);
    fake.load(node("node-1", "gpu", &["driver|1.0.0 uninstall in_progress"]));
    fake.load(node("node-2", "other", &["driver|1.0.0 uninstall erroring"]));
    let gone = node("node-1", "gpu", &[]);
    on_read(&fake, 4, move |it| it.store.load(gone.clone()));
    let ran = wait(&fake, "gpu --for=uninstalled=driver --tolerate 0s");
    assert_eq!(ran.parts(), ("skyhook/gpu uninstalled=driver\n", "", Some(0)));
}

/// A wait for a failure continues while any of its custom resources exists.
#[test]
fn a_deleted_custom_resource_does_not_end_a_wait_for_a_failure() {
    let fake = in_progress(SKYHOOK, driver());
    let mut other = SKYHOOK.skyhook("in_progress", driver());
    other["metadata"]["name"] = json!("other");
    other["metadata"]["uid"] = json!("uid-other");
    fake.load(other);
    on_watch(&fake, |it| it.store.forget("skyhooks", "", "other"));
    let ran = wait(&fake, "gpu other --for=erroring --timeout 1s");
    assert_snapshot!(ran.transcript());
}

/// Nodes that leave the selection while their uninstall runs are not done: nothing may follow that counts on it.
#[test]
fn an_uninstall_that_runs_on_deselected_nodes_is_not_finished() {
    let mut gpu = SKYHOOK.skyhook("in_progress", removable(true));
    gpu["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpu"}});
    let node = SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 uninstall in_progress"]);
    let place = PackageRun { stage: "uninstall", node: "node-1", ..PackageRun::default() };
    let pod = SKYHOOK.pod("driver-uninstall", &place, "Running", &[]);
    for (pods, expected) in [
        (vec![pod], "still on 1 node"),
        (Vec::new(), "no node is selected, and the package is still on 1 node"),
    ] {
        let fake = SKYHOOK.serve(removable(true));
        pods.into_iter().chain([gpu.clone(), node.clone()]).for_each(|object| fake.load(object));
        let ran = wait(&fake, "gpu --for=uninstalled=driver --timeout 1s");
        let stderr =
            format!("error: timed out after 1s: gpu: {expected}\nhint: kubectl skyhook diagnose stuck gpu\n");
        assert_eq!(ran.parts(), ("", stderr.as_str(), Some(5)));
    }
}

/// Without a request, packages stay: having no uninstall in progress does not mean that all are uninstalled.
#[test]
fn uninstall_that_nobody_requested_is_not_awaited() {
    let captured = clusters::named("complete");
    let ran = wait(&captured.served(), "gpu-tune --for=uninstalled");
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: no uninstall of a package of gpu-tune was requested, and packages are installed\n\
             hint: kubectl skyhook uninstall gpu-tune PACKAGE\n",
            Some(1)
        )
    );
}

/// The operator of the newer API does not act on an object of the older API that it has not migrated.
#[test]
fn name_that_only_the_older_api_has_is_not_gone() {
    let older = SKYHOOK.skyhook("complete", driver());
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).serving(ApiFlavor::NodeWright);
    let fake = fake.with(older).with(NODEWRIGHT.operator());
    for words in ["gpu", "gpu --for=deleted", "gpu --for=uninstalled=driver"] {
        let ran = wait(&fake, words);
        let stderr = "error: gpu exists only as a Skyhook object, not as NodeWright\n\
                      hint: to use the older API, add --api skyhook\n";
        assert_eq!(ran.parts(), ("", stderr, Some(1)), "{words}");
    }
}
