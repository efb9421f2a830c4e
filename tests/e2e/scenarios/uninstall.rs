//! `uninstall` with the real operator, from its preview to the end of `--wait`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    model::Played,
    ours::{self, RunResult},
    rollout::{Rollout, pods},
    view::{absent, complete, entry, everywhere, pod, that},
};

const DRIVER: &str = "driver|2.0.1";

fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable())
}

fn rebooting() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable().interrupts("reboot"))
}

fn run_words(cluster: &Cluster, words: &str) -> RunResult {
    let words: Vec<&str> = words.split(' ').collect();
    ours::run(&cluster.kubeconfig("admin"), &words)
}

/// Runs our binary, and asserts its exit code.
#[track_caller]
fn ends(cluster: &Cluster, words: &str, code: i32) -> RunResult {
    let ran = run_words(cluster, words);
    assert_eq!(ran.exit, Some(code), "{words}: {ran:#?}");
    ran
}

/// Starts our binary in the background.
fn spawn(cluster: &Cluster, words: &str) -> Child {
    let kubeconfig = cluster.kubeconfig("admin");
    Command::new(crate::run::binary())
        .args(words.split(' '))
        .env("XDG_STATE_HOME", kubeconfig.with_file_name("state"))
        .env("KUBECONFIG", kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo has built it")
}

fn ended(child: Child) -> RunResult {
    let out = child.wait_with_output().expect("the process can be awaited");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
    RunResult { exit: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

#[track_caller]
fn tells(text: &str, words: &str) {
    assert!(text.contains(words), "no {words:?} in:\n{text}");
}

fn installed<'a>(cluster: &'a Cluster, skyhook: &Skyhook) -> Rollout<'a> {
    let gpu = cluster.apply(skyhook);
    gpu.until(complete());
    gpu
}

fn packages(gpu: &Rollout<'_>) -> Value {
    gpu.view().object.expect("the custom resource exists")["spec"]["packages"].clone()
}

pub fn wait_for_completion(cluster: &Cluster) {
    let gpu = installed(cluster, &driver().with(package("tuning", "1.2.0").after("driver", "2.0.1")));
    let shown = ends(cluster, "uninstall gpu driver --dry-run", 0).stdout;
    tells(&shown, "driver  uninstall on 3 nodes (node-[1-3]), all at once");
    tells(&shown, "tuning depends on driver");
    let done = ends(cluster, "uninstall gpu driver --wait --confirm", 0);
    tells(&done.stdout, "driver 2.0.1 is gone from all nodes");
    gpu.stays(&absent(DRIVER), Duration::from_secs(1));
    // A second run has nothing to do, and exits with 0.
    ends(cluster, "uninstall gpu driver --wait --confirm", 0);
}

/// All nodes reboot at once, and the wait continues.
pub fn wait_through_reboots(cluster: &Cluster) {
    let budget = json!({"count": 1});
    let gpu = installed(cluster, &rebooting().set("interruptionBudget", budget));
    let boots = |cluster: &Cluster| {
        ["node-1", "node-2", "node-3"].map(|node| cluster.node(node)["status"]["nodeInfo"]["bootID"].clone())
    };
    let before = boots(cluster);
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    let child = spawn(cluster, "uninstall gpu driver --remove --confirm");
    gpu.until(that("it is begun everywhere, whatever the budget", |view| {
        view.pods_of("driver", "uninstall").len() == 3
    }));
    cluster.heal();
    cluster.result(pods("driver", "uninstall-interrupt"), StepResult::Hang);
    // Long enough for the wait to see this stage: it reports stages that end within a second only in summary.
    let interrupting = everywhere(DRIVER, "uninstall-interrupt", "in_progress");
    gpu.until(everywhere(DRIVER, "uninstall-interrupt", "in_progress"))
        .stays(&interrupting, Duration::from_secs(3));
    cluster.heal();
    let done = ended(child);
    assert_eq!(done.exit, Some(0), "{done:#?}");
    tells(&done.stderr, "uninstall-interrupt");
    let after = boots(cluster);
    assert!((0..3).all(|n| before[n] != after[n]), "{before:?} {after:?}");
    assert_eq!(packages(&gpu), json!({}), "it has left the spec");
    gpu.until(complete()).well();
}

/// The script fails: exit code 2 with the finding. After a repair, the same command waits until the end.
pub fn failing_script_ends_the_wait(cluster: &Cluster) {
    let gpu = installed(cluster, &driver());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Exit(1));
    let stuck = ends(cluster, "uninstall gpu driver --wait --confirm", 2);
    tells(&stuck.stdout, "error SKY112 uninstall-failing  gpu driver on node-2");
    tells(&stuck.stdout, "uninstall erroring");
    cluster.heal();
    let done = ends(cluster, "uninstall gpu driver --wait --confirm", 0);
    tells(&done.stdout, "nothing to change");
    gpu.stays(&absent(DRIVER), Duration::ZERO);
}

/// The operator does not uninstall a package whose install fails, so the wait ends with exit code 2.
pub fn failing_install_ends_the_wait(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-2", DRIVER, "apply", "erroring"));
    let stuck = ends(cluster, "uninstall gpu driver --wait --confirm", 2);
    tells(&stuck.stderr, "the uninstall starts only after this stage is complete");
    tells(&stuck.stdout, "SKY201");
    cluster.heal();
}

/// Cancelling aborts the uninstall where the script runs, and installs the package again where it is gone.
pub fn cancelled_in_progress(cluster: &Cluster) {
    let gpu = installed(cluster, &driver());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Hang);
    ends(cluster, "uninstall gpu driver --confirm", 0);
    gpu.until(entry("node-2", DRIVER, "uninstall", "in_progress"))
        .until(that("gone elsewhere", |view| view.entries(DRIVER).len() == 1))
        .until(pod("driver", "uninstall"));
    let shown = ends(cluster, "uninstall gpu driver --cancel --dry-run", 0).stdout;
    tells(&shown, "the uninstall is aborted on node-2; driver is installed there again");
    tells(&shown, "driver is not on node-[1,3] (2 nodes); it will be installed there");
    tells(&shown, "the uninstall may still finish there");
    ends(cluster, "uninstall gpu driver --cancel --confirm", 0);
    cluster.heal();
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// The interrupt has already started: it ends first, then the package is installed again.
pub fn cancelled_during_the_interrupt(cluster: &Cluster) {
    let gpu = installed(cluster, &rebooting());
    cluster.result(pods("driver", "uninstall-interrupt").on("node-2"), StepResult::Hang);
    ends(cluster, "uninstall gpu driver --confirm", 0);
    gpu.until(entry("node-2", DRIVER, "uninstall-interrupt", "in_progress"))
        .until(that("gone elsewhere", |view| view.entries(DRIVER).len() == 1));
    let shown = ends(cluster, "uninstall gpu driver --cancel --dry-run", 0).stdout;
    tells(&shown, "the uninstall can no longer be canceled on node-2");
    ends(cluster, "uninstall gpu driver --cancel --confirm", 0);
    gpu.stays(&entry("node-2", DRIVER, "uninstall-interrupt", "in_progress"), Duration::from_secs(5));
    cluster.heal();
    gpu.until(everywhere(DRIVER, "post-interrupt", "complete")).until(complete()).well();
}

pub fn removed_and_undone(cluster: &Cluster) {
    let gpu = installed(cluster, &driver().with(package("tuning", "1.2.0")));
    let before = packages(&gpu);
    let done = ends(cluster, "uninstall gpu driver --remove --confirm", 0);
    tells(&done.stdout, "2 changed");
    assert!(packages(&gpu)["driver"].is_null());
    gpu.until(complete()).well();
    ends(cluster, "undo --confirm", 0);
    assert_eq!(packages(&gpu), before);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// Three packages in a dependency chain; the uninstall of the middle one fails at first.
pub fn all_packages(cluster: &Cluster) {
    let gpu = installed(
        cluster,
        &skyhook("gpu")
            .with(package("base", "1.0.0").uninstallable())
            .with(package("driver", "2.0.1").uninstallable().after("base", "1.0.0"))
            .with(package("tuning", "1.2.0").uninstallable().after("driver", "2.0.1")),
    );
    cluster.result(pods("driver", "uninstall").on("node-3"), StepResult::Exit(1));
    let all = "uninstall gpu --all-packages --wait --remove --confirm";
    let stuck = ends(cluster, all, 2);
    tells(&stuck.stderr, "tuning, then driver, then base");
    tells(&stuck.stdout, "SKY112");
    tells(&stuck.stdout, "tuning 1.2.0 is gone from all nodes");
    tells(&stuck.stdout, "base 1.0.0 not started");
    let left = packages(&gpu);
    assert!(left["tuning"].is_null() && left["base"].is_object(), "{left:#}");
    gpu.stays(&everywhere("base|1.0.0", "config", "complete"), Duration::ZERO);
    cluster.heal();
    ends(cluster, all, 0);
    assert_eq!(packages(&gpu), json!({}));
    gpu.until(complete()).well();
}

/// The API server restarts during the wait: this is reported once, and the wait continues.
pub fn api_server_restarts(cluster: &Cluster) {
    let gpu = installed(cluster, &driver());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Hang);
    let child = spawn(cluster, "uninstall gpu driver --wait --confirm");
    gpu.until(pod("driver", "uninstall"))
        .until(that("gone elsewhere", |view| view.entries(DRIVER).len() == 1));
    cluster.restart_api_server(Duration::from_secs(3));
    cluster.heal();
    let done = ended(child);
    assert_eq!(done.exit, Some(0), "{done:#?}");
    assert_eq!(done.stderr.matches("trying again").count(), 1, "{done:#?}");
    gpu.stays(&absent(DRIVER), Duration::ZERO);
}

pub fn timeout(cluster: &Cluster) {
    let gpu = installed(cluster, &driver());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Hang);
    let late = ends(cluster, "uninstall gpu driver --wait --timeout 8s --confirm", 5);
    tells(&late.stdout, "2 of 3 nodes done: uninstall on node-2");
    cluster.heal();
    gpu.until(absent(DRIVER)).until(complete()).well();
}

/// Refused uninstalls: exit code 3, and nothing changes.
pub fn refusals(cluster: &Cluster) {
    let refused = |words: &str, why: &str| tells(&ends(cluster, words, 3).stderr, why);
    let gpu = installed(
        cluster,
        &driver().with(package("tuning", "1.2.0").after("driver", "2.0.1")).with(package("plain", "1.0.0")),
    );
    let before = packages(&gpu);
    refused("uninstall gpu plain --confirm", "--enable");
    refused("uninstall gpu driver --remove --confirm", "tuning depends on driver");
    refused("uninstall gpu --all-packages --confirm", "does not enable the uninstall of plain");
    gpu.annotate("pause", json!("true"));
    refused("uninstall gpu driver --confirm", "SKY308");
    gpu.annotate("pause", Value::Null).annotate("disable", json!("true"));
    refused("uninstall gpu driver --confirm", "SKY309");
    gpu.annotate("disable", Value::Null).until(complete());
    assert_eq!(packages(&gpu), before);

    let never = cluster
        .apply(&skyhook("other").with(package("late", "1.0.0").uninstalling()).set("priority", json!(300)));
    never.until(complete());
    refused("uninstall other late --confirm", "SKY103");
    ends(cluster, "uninstall other late --remove --confirm", 0);
    assert_eq!(packages(&never), json!({}), "the other way out of SKY103");

    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.delete();
    refused("uninstall gpu driver --confirm --force", "is being deleted");
}

/// `--dry-run=server` reports the webhook's answer and changes nothing.
pub fn server_dry_run(cluster: &Cluster) {
    let gpu = installed(cluster, &driver());
    let before = packages(&gpu);
    let asked = ends(cluster, "uninstall gpu driver --dry-run=server", 0);
    tells(&asked.stdout, "1 would be changed");
    let asked = ends(cluster, "uninstall gpu driver --remove --dry-run=server", 0);
    tells(&asked.stdout, "1 would be changed");
    assert_eq!(packages(&gpu), before);

    // Without the webhook, set a policy that does not exist: the webhook then denies every change.
    let group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let mut hooks = cluster.api.items(group).expect("configurations can be listed");
    let mut hooks = hooks.remove(0);
    let path = format!("{group}/{}", hooks["metadata"]["name"].as_str().expect("a name"));
    let named = |policy: Value| gpu.try_edit(json!({"deploymentPolicy": policy})).is_ok();
    let deleted = cluster.api.delete(&path, &json!({}));
    deleted.expect("a configuration can be deleted");
    cluster.await_that("the webhook is aside", || named(json!("nowhere")));
    let metadata = json!({"name": hooks["metadata"]["name"]});
    hooks["metadata"] = metadata;
    cluster.api.post(group, &hooks).expect("a configuration can be created");
    cluster.await_that("the webhook is back", || !named(json!("nowhere-else")));
    let refused = ends(cluster, "uninstall gpu driver --dry-run=server", 1);
    tells(&refused.stdout, "denied the request");
    tells(&refused.stdout, "nowhere");
    assert!(named(Value::Null), "without a policy it is let in again");

    ends(cluster, "uninstall gpu driver --wait --confirm", 0);
    let warned = ends(cluster, "uninstall gpu driver --cancel --dry-run=server", 0);
    tells(&warned.stderr, "warning:");
    let done = ends(cluster, "uninstall gpu driver --remove --confirm", 0);
    tells(&done.stdout, "1 changed");
    assert_eq!(packages(&gpu), json!({}));
}

/// The newer API, simulated by `model`: the wait reads Jobs, and ends with the finding about a failed one.
pub fn wait_reads_jobs(cluster: &Cluster) {
    let mut gpu = Played::new(cluster, "gpu", &driver().spec, &json!({})).first_reconcile();
    for node in ["node-1", "node-2", "node-3"] {
        gpu.installs(node, DRIVER);
    }
    gpu.status("complete", &[]);
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Exit(3));
    let child = spawn(cluster, "uninstall gpu driver --wait --confirm");
    cluster.await_that("it is asked for", || {
        gpu.object()["spec"]["packages"]["driver"]["uninstall"]["apply"] == true
    });
    for node in ["node-1", "node-3"] {
        gpu.runs(node, DRIVER, "uninstall", "in_progress");
        gpu.on(node, DRIVER, None, "complete");
    }
    gpu.on("node-2", DRIVER, Some(("uninstall", "in_progress")), "in_progress");
    let job = gpu.job("node-2", DRIVER, "uninstall");
    gpu.await_job(&job, "is given up", |status| status["failed"] == 2);
    gpu.record(&job, 86400);
    gpu.on("node-2", DRIVER, Some(("uninstall", "erroring")), "erroring");
    gpu.status("in_progress", &[("UninstallFailed", "UninstallPodFailing")]);
    let stuck = ended(child);
    assert_eq!(stuck.exit, Some(2), "{stuck:#?}");
    tells(&stuck.stdout, "SKY112");
    tells(&stuck.stdout, &job);

    let child = spawn(cluster, "uninstall gpu driver --wait --confirm");
    gpu.on("node-2", DRIVER, None, "complete");
    gpu.status("complete", &[]);
    let done = ended(child);
    assert_eq!(done.exit, Some(0), "{done:#?}");
}
