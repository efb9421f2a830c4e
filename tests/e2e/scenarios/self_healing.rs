//! Temporary failures that recover by themselves, diagnosed continuously: none is an error, warnings are correct,
//! and a `wait` in parallel ends with the rollout.
//!
//! `SAMPLES=2000 cargo test --test e2e -- self_healing` goes on until so many looks were taken in each scenario.

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

/// Slow enough that each step is seen by somebody who looks a few times a second.
const UNHURRIED: Duration = Duration::from_millis(150);
/// A short run of the suite.
const FEW: usize = 12;

/// The package in the version of a round.
fn gpu(round: usize) -> Skyhook {
    skyhook("gpu").with(package("driver", &version(round)).interrupts("service"))
}

fn version(round: usize) -> String {
    format!("2.0.{round}")
}

fn driver(round: usize) -> String {
    format!("driver|{}", version(round))
}

/// Diagnoses during the rounds until there are enough samples. Only these codes may be warnings.
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

/// The first round rolls out, each later one upgrades.
fn begin<'a>(cluster: &'a Cluster, round: usize) -> Rollout<'a> {
    if round == 1 {
        return cluster.apply(&gpu(round));
    }
    let gpu = cluster.rollout("gpu");
    gpu.edit(json!({"packages": {"driver": {"version": version(round)}}}));
    gpu
}

/// `wait`, started during the rollout.
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
        let ended = self.0.try_wait().expect("its state can be asked for");
        assert_eq!(ended, None, "it ends before the run");
    }

    #[track_caller]
    fn ends(self) {
        let out = self.0.wait_with_output().expect("it ends");
        assert_eq!(out.status.code(), Some(0), "{out:?}");
    }
}

/// One round of a rollout in which something goes wrong on node-2, until all is complete.
#[track_caller]
fn heals(cluster: &Cluster, round: usize, meanwhile: impl FnOnce(&Rollout<'_>)) {
    let gpu = begin(cluster, round);
    gpu.until(status("in_progress"));
    let mut waiting = Waiting::beside(cluster, "gpu");
    meanwhile(&gpu);
    // The delayed node is not complete, and so neither is the rollout.
    let through = entry("node-2", &driver(round), "post-interrupt", "complete");
    if !(through.holds)(&gpu.view()) {
        waiting.goes_on();
    }
    gpu.until(everywhere(&driver(round), "post-interrupt", "complete")).until(complete());
    waiting.ends();
}

/// The script fails once, and the kubelet starts it again.
pub fn first_attempt_fails(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    // SKY310: what was complete is upgraded, and this operator does not count anew.
    sampled(cluster, &["SKY201", "SKY216", "SKY310"], |round| {
        cluster.result(pods("driver", "config").on("node-2"), StepResult::ExitOnce(1));
        heals(cluster, round, |_| {});
        cluster.heal();
    });
}

/// Every second round it is the interrupt.
pub fn image_pull_succeeds_later(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &["SKY202"], |round| {
        let stage = ["config", "interrupt"][round % 2];
        cluster.result(pods("driver", stage).on("node-2"), StepResult::PullsLate);
        heals(cluster, round, |_| {});
        cluster.heal();
    });
}

/// The server is down in the middle, and a diagnosis during that reports it.
pub fn api_server_restarts(cluster: &Cluster) {
    cluster.kubelet.pace(UNHURRIED);
    sampled(cluster, &[], |round| {
        heals(cluster, round, |gpu| {
            // By then `wait` has read the cluster.
            gpu.until(entry("node-2", &driver(round), "config", "complete"));
            cluster.restart_api_server(Duration::from_millis(500));
        });
    });
}

/// All nodes restart under the interrupt, in time.
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

/// The operator is stopped while pods end, and starts again.
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

/// Jobs: the first attempt fails, and the second succeeds; every second round its image comes late instead.
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
