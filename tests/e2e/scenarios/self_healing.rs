//! Temporary failures that recover without help, diagnosed continuously: no diagnosis reports an error or an
//! unexpected warning, and a parallel `wait` ends together with the rollout.
//!
//! `SAMPLES=2000 cargo test --test e2e -- self_healing` repeats each scenario until it has that many
//! diagnoses.

use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    model::Played,
    ours::{self, Watched, Watcher},
    rollout::{Rollout, pods},
    view::{complete, entry, everywhere, status},
};

/// Slow enough that several diagnoses per second see each step.
const UNHURRIED: Duration = Duration::from_millis(150);
/// Number of diagnoses per scenario in the suite.
const FEW: usize = 12;

/// The custom resource with the package version of a round.
fn gpu(round: usize) -> Skyhook {
    skyhook("gpu").with(package("driver", &version(round)).interrupts("service"))
}

fn version(round: usize) -> String {
    format!("2.0.{round}")
}

fn driver(round: usize) -> String {
    format!("driver|{}", version(round))
}

/// Repeats rounds until there are enough diagnoses. Asserts that there are no errors, and no other warnings
/// than these.
#[track_caller]
fn sampled(cluster: &Cluster, warnings: &[&str], mut round: impl FnMut(usize)) {
    let wanted = std::env::var("SAMPLES").map(|text| text.parse().expect("a number of looks"));
    let wanted = wanted.unwrap_or(FEW);
    let watcher = Watcher::start(cluster.kubeconfig("admin"));
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || watcher.looks() < wanted {
        rounds += 1;
        round(rounds);
    }
    let Watched { looks, unanswered, errors, warned } = watcher.stop();
    eprintln!(
        "{looks} looks in {rounds} rounds and {:.0} s: {} errors, warned of {warned:?}, {unanswered} unanswered",
        begun.elapsed().as_secs_f64(),
        errors.len()
    );
    assert!(errors.is_empty(), "in {looks} looks: {errors:#?}");
    let unexpected = warned.keys().find(|code| !warnings.contains(&code.as_str()));
    assert_eq!(unexpected, None, "in {looks} looks: {warned:?}");
}

/// Starts a round: the first one creates the custom resource, later ones upgrade the package.
fn begin<'a>(cluster: &'a Cluster, round: usize) -> Rollout<'a> {
    if round == 1 {
        return cluster.apply(&gpu(round));
    }
    let gpu = cluster.rollout("gpu");
    gpu.edit(json!({"packages": {"driver": {"version": version(round)}}}));
    gpu
}

/// A running `wait`.
struct Waiting(Child);

impl Waiting {
    fn beside(cluster: &Cluster, name: &str) -> Self {
        let words = ["wait", name, "--for=complete", "--timeout=5m"];
        let mut command = ours::command(&cluster.kubeconfig("admin"), &words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("cargo has built it"))
    }

    #[track_caller]
    fn goes_on(&mut self) {
        let ended = self.0.try_wait().expect("the process can be polled");
        assert_eq!(ended, None, "it ends before the run");
    }

    #[track_caller]
    fn ends(self) {
        let out = self.0.wait_with_output().expect("the process can be awaited");
        assert_eq!(out.status.code(), Some(0), "{out:?}");
    }
}

/// Runs one round with a problem on node-2, until the rollout is complete.
#[track_caller]
fn heals(cluster: &Cluster, round: usize, meanwhile: impl FnOnce(&Rollout<'_>)) {
    let gpu = begin(cluster, round);
    gpu.until(status("in_progress"));
    let mut waiting = Waiting::beside(cluster, "gpu");
    meanwhile(&gpu);
    // While node-2 is incomplete, `wait` must not end.
    let through = entry("node-2", &driver(round), "post-interrupt", "complete");
    if !(through.holds)(&gpu.view()) {
        waiting.goes_on();
    }
    gpu.until(everywhere(&driver(round), "post-interrupt", "complete")).until(complete());
    waiting.ends();
}

/// The script fails once, and the kubelet restarts it.
pub fn first_attempt_fails(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    // SKY310: the round upgrades complete nodes, and this operator does not reset its counters.
    sampled(cluster, &["SKY201", "SKY216", "SKY310"], |round| {
        cluster.result(pods("driver", "config").on("node-2"), StepResult::ExitOnce(1));
        heals(cluster, round, |_| {});
        cluster.heal();
    });
}

/// The first image pull fails: at stage interrupt in odd rounds, at stage config in even ones.
pub fn image_pull_succeeds_later(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &["SKY202"], |round| {
        let stage = ["config", "interrupt"][round % 2];
        cluster.result(pods("driver", stage).on("node-2"), StepResult::PullsLate);
        heals(cluster, round, |_| {});
        cluster.heal();
    });
}

/// The API server restarts during the rollout; diagnoses meanwhile may be incomplete, but report no error.
pub fn api_server_restarts(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &[], |round| {
        heals(cluster, round, |gpu| {
            // `wait` needs this time to read the cluster first.
            gpu.until(entry("node-2", &driver(round), "config", "complete"));
            cluster.restart_api_server(Duration::from_millis(500));
        });
    });
}

/// The interrupt reboots each node, which comes back in time.
pub fn nodes_reboot(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    let kernel = |round| package("kernel", &version(round)).interrupts("reboot");
    sampled(cluster, &[], |round| {
        let gpu = if round == 1 {
            cluster.apply(&skyhook("gpu").with(kernel(round)))
        } else {
            let gpu = cluster.rollout("gpu");
            gpu.edit(json!({"packages": {"kernel": {"version": version(round)}}}));
            gpu
        };
        gpu.until(status("in_progress"));
        let waiting = Waiting::beside(cluster, "gpu");
        gpu.until(everywhere(&format!("kernel|{}", version(round)), "post-interrupt", "complete"))
            .until(complete());
        waiting.ends();
    });
}

/// The operator restarts while pods end.
pub fn operator_restarts(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &[], |round| {
        heals(cluster, round, |_| {
            cluster.stop_operator();
            std::thread::sleep(Duration::from_millis(300));
            cluster.start_operator();
        });
    });
}

/// The first attempt of a Job fails, and the second succeeds; in even rounds the image comes late instead.
pub fn job_attempt_fails(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &["SKY201", "SKY202"], |round| {
        let name = format!("gpu-{round}");
        let spec = skyhook(&name).with(package("driver", "2.0.1")).spec;
        let mut gpu = Played::new(cluster, &name, &spec, &json!({})).first_reconcile();
        gpu.installs("node-1", "driver|2.0.1");
        let late = round % 2 == 0;
        let result = if late { StepResult::PullsLate } else { StepResult::Exit(1) };
        cluster.result(pods("driver", "apply").on("node-2"), result);
        gpu.on("node-2", "driver|2.0.1", Some(("apply", "in_progress")), "in_progress");
        let job = gpu.job("node-2", "driver|2.0.1", "apply");
        gpu.status("in_progress", &[]);
        let mut waiting = Waiting::beside(cluster, &name);
        if !late {
            gpu.await_job(&job, "has failed once", |status| status["failed"] == 1);
            gpu.on("node-2", "driver|2.0.1", Some(("apply", "erroring")), "in_progress");
            gpu.status("in_progress", &[]);
        }
        waiting.goes_on();
        cluster.heal();
        if late {
            cluster.result(pods("driver", "apply").on("node-2"), StepResult::PullsLate);
        }
        gpu.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
        gpu.record(&job, 3600);
        gpu.on("node-2", "driver|2.0.1", Some(("apply", "complete")), "in_progress");
        gpu.runs("node-2", "driver|2.0.1", "config", "complete");
        gpu.installs("node-3", "driver|2.0.1");
        waiting.goes_on();
        gpu.status("complete", &[]);
        waiting.ends();
        cluster.heal();
    });
}
