//! `uninstall --wait`: its progress, what ends it, and which server errors it survives.

mod preview;
mod progress_screen;
mod pruned;
mod removal;
mod server_faults;
mod wait_ends;

use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, State};
use crate::support::object_builder::{NODEWRIGHT, ObjectBuilder, SKYHOOK};
use crate::support::run::{RunOutput, run};

const INSTALLED: &str = "driver|1.0.0 config complete";
const UNDER_WAY: &str = "driver|1.0.0 uninstall in_progress";
const FAILING: &str = "driver|1.0.0 uninstall erroring";

fn driver(apply: bool) -> Value {
    json!({"driver": {
        "version": "1.0.0",
        "image": "example.com/driver",
        "env": [{"name": "A", "value": "b"}],
        "uninstall": {"enabled": true, "apply": apply},
    }})
}

/// Two nodes with the package.
fn installed(world: ObjectBuilder) -> FakeApi {
    let fake = world.serve(driver(false));
    ["node-1", "node-2"]
        .into_iter()
        .fold(fake, |fake, name| fake.with(world.node(name, "complete", &[INSTALLED])))
}

/// A write of the operator that sets these node states.
fn nodes(world: ObjectBuilder, states: [&'static [&'static str]; 2]) -> impl Fn(&mut State) + Send + Sync {
    move |it| {
        for (name, entries) in ["node-1", "node-2"].into_iter().zip(states) {
            it.store.load(world.node(name, "in_progress", entries));
        }
    }
}

fn uninstalled(world: ObjectBuilder) -> impl Fn(&mut State) + Send + Sync {
    nodes(world, [&[], &[]])
}

fn uninstall(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    let timeout = if words.contains("--wait") || words.contains("--remove") { "--timeout 60s" } else { "" };
    run(&format!("uninstall gpu driver {timeout} --confirm --no-journal {words}"))
        .kubeconfig(&served.kubeconfig())
        .output()
}

/// The lines on stderr after the preview.
fn progress(ran: &RunOutput) -> Vec<&str> {
    let lines = ran.stderr.lines();
    let after = lines.skip_while(|line| !line.contains("cannot be undone"));
    after.skip(1).collect()
}

#[test]
fn wait_ends_when_removed_from_all_nodes() {
    for world in [SKYHOOK, NODEWRIGHT] {
        let fake = installed(world);
        fake.on("WATCH nodes").nth(1).after(nodes(world, [&[UNDER_WAY], &[]]));
        // Blockers are checked during the wait.
        fake.on("LIST events").nth(3).after(uninstalled(world));
        let ran = uninstall(&fake, "--wait");
        ran.expect_code(0);
        assert_eq!(
            ran.stdout,
            "uninstall driver of gpu, and wait: 1 changed\ndriver 1.0.0 is gone from all nodes\n"
        );
        assert_eq!(
            progress(&ran),
            [
                "driver on node-1: uninstall, not started; 1 of 2 nodes done",
                "driver on node-2: gone; 1 of 2 nodes done",
                "driver on node-1: gone; 2 of 2 nodes done",
            ]
        );
        let spec = &fake.get(world.0.plural(), "", "gpu").expect("the custom resource exists")["spec"];
        assert_eq!(spec["packages"], driver(true));
    }
}

#[test]
fn watched_resources_are_listed_once() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(uninstalled(SKYHOOK));
    assert_eq!(uninstall(&fake, "--wait").code, Some(0));
    let lines = fake.lines();
    let lists = |of: &str| {
        let of = lines.iter().filter(|l| l.contains(of) && !l.contains("watch=true"));
        of.count()
    };
    assert_eq!(lists("/api/v1/nodes?"), 1, "{lines:#?}");
    let watch = lines
        .iter()
        .find(|l| l.starts_with("GET /api/v1/nodes?") && l.contains("watch=true"))
        .expect("nodes are watched");
    assert!(watch.contains("allowWatchBookmarks=true"), "{watch}");
    assert!(watch.contains("timeoutSeconds=60"), "{watch}");
}

/// Between the end of a Job and the operator's record of it, the stage does not count as not started again.
#[test]
fn progress_does_not_go_back_when_a_job_ends() {
    use crate::support::object_builder::PackageRun;
    let fake = installed(NODEWRIGHT);
    let place = PackageRun { stage: "uninstall", job: Some("driver-uninstall"), ..PackageRun::default() };
    fake.on("WATCH nodes").nth(1).after(move |it| {
        nodes(NODEWRIGHT, [&[UNDER_WAY], &[]])(it);
        it.store.load(NODEWRIGHT.job(&place, json!({"active": 1})));
    });
    fake.on("LIST events").nth(3).after(move |it| {
        let complete = json!([{"type": "Complete", "status": "True"}]);
        it.store.load(NODEWRIGHT.job(&place, json!({"succeeded": 1, "conditions": complete})));
    });
    fake.on("LIST events").nth(5).after(uninstalled(NODEWRIGHT));
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(0);
    assert_eq!(
        progress(&ran),
        [
            "driver on node-1: uninstall; 1 of 2 nodes done",
            "driver on node-2: gone; 1 of 2 nodes done",
            "driver on node-1: gone; 2 of 2 nodes done",
        ]
    );
}

#[test]
fn jobs_and_pods_are_read_in_the_operator_namespace() {
    use crate::support::object_builder::PackageRun;
    let fake = installed(NODEWRIGHT);
    let place = PackageRun { stage: "uninstall", job: Some("driver-uninstall"), ..PackageRun::default() };
    fake.on("WATCH nodes").nth(1).after(move |it| {
        nodes(NODEWRIGHT, [&[UNDER_WAY], &[]])(it);
        it.store.load(NODEWRIGHT.job(&place, json!({"active": 1})));
    });
    fake.on("LIST events").nth(3).after(move |it| {
        uninstalled(NODEWRIGHT)(it);
        let complete = json!([{"type": "Complete", "status": "True"}]);
        it.store.load(NODEWRIGHT.job(&place, json!({"succeeded": 1, "conditions": complete})));
    });
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(0);
    let lines = progress(&ran);
    assert!(lines.contains(&"driver on node-1: uninstall; 1 of 2 nodes done"), "{lines:#?}");
}

#[test]
fn requested_uninstall_is_awaited_without_a_prompt() {
    let fake = SKYHOOK.serve(driver(true)).with(SKYHOOK.node("node-1", "in_progress", &[UNDER_WAY]));
    fake.on("LIST events").nth(3).after(|it| {
        it.store.load(SKYHOOK.node("node-1", "complete", &[]));
    });
    let served = fake.serve();
    let ran = run("uninstall gpu driver --wait --timeout 60s").kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(0);
    assert_eq!(
        ran.stdout,
        "uninstall driver of gpu, and wait: nothing to change\ndriver 1.0.0 is gone from all nodes\n"
    );
    assert!(fake.writes().is_empty());
}
