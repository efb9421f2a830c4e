//! Simulates the kubelets of all nodes: moves every pod through its init containers to success, or to the
//! failure chosen by a test, serves container logs, removes terminating pods and reboots nodes. The operator
//! and the controllers are real.

pub mod logs;
mod pods;
mod steps;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

use self::pods::Pods;
use crate::api::{Access, Api};

/// Result of a pod's stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepResult {
    Succeed,
    Exit(i32),
    /// Exits with this code at the first attempt in a pod; the next one succeeds.
    ExitOnce(i32),
    OutOfMemory,
    PullFails,
    /// The first image pull fails; the next one succeeds.
    PullsLate,
    /// The script runs and never ends.
    Hang,
    /// Like `Hang`, but has been running for half a day.
    LongHang,
    /// The kubelet ignores the pod, as on a node that is down.
    Unseen,
    /// The kubelet rejects the pod for lack of resources, and the pod fails.
    Rejected,
    /// The pod exceeds its deadline, and the kubelet fails it.
    TimesOut,
    /// The machine restarts during the interrupt, and the kubelet reports the container as failed (exit code
    /// 143).
    RoughReboot,
    /// The script hangs, and the pod stays after its deletion, as on a node that is down.
    Undying,
}

/// Selects pods; an unset field matches any. The rule added last wins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    pub skyhook: Option<String>,
    pub package: Option<String>,
    pub stage: Option<String>,
    pub node: Option<String>,
    pub pod: Option<String>,
}

pub struct Kubelet {
    rules: Arc<Mutex<Vec<(Target, StepResult)>>>,
    begun: Arc<Begun>,
    pace: Arc<AtomicU64>,
    logs: logs::Logs,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Kubelet {
    pub fn start(access: &Access) -> Result<Self> {
        let mut kubelet = Self {
            rules: Arc::default(),
            begun: Arc::default(),
            pace: Arc::new(AtomicU64::new(20)),
            logs: logs::Logs::serve(access)?,
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let api = Api::new(access)?;
        let (rules, begun, pace, stop) =
            (kubelet.rules.clone(), kubelet.begun.clone(), kubelet.pace.clone(), kubelet.stop.clone());
        let pods = Arc::new(Pods::default());
        kubelet.threads.push(pods.clone().watch(access, stop.clone()));
        kubelet.threads.push(std::thread::spawn(move || {
            let mut stepped = HashMap::new();
            while !stop.load(Ordering::Relaxed) {
                let pace = Duration::from_millis(pace.load(Ordering::Relaxed));
                // The server may be shutting down; the next turn tries again.
                let _ = turn(&api, &pods, &rules, &begun, pace, &mut stepped);
                std::thread::sleep(Duration::from_millis(20));
            }
        }));
        Ok(kubelet)
    }

    pub fn rule(&self, target: Target, result: StepResult) {
        self.rules.lock().expect("no holder panics").push((target, result));
    }

    /// The port on which the API server requests logs.
    pub fn port(&self) -> u16 {
        self.logs.port
    }

    pub fn forget_rules(&self) {
        self.rules.lock().expect("no holder panics").clear();
    }

    /// Number of pods ever started for this stage of a package on a node, including deleted ones.
    pub fn pods_started(&self, package: &str, stage: &str, node: &str) -> usize {
        let begun = self.begun.lock().expect("no holder panics");
        let asked = |place: &&[String; 3]| *place == &[package, stage, node];
        begun.iter().filter(asked).count()
    }

    /// Package, stage and node of all pods that were started, in order of their start.
    pub fn all_begun(&self) -> Vec<[String; 3]> {
        self.begun.lock().expect("no holder panics").clone()
    }

    /// Sets the minimum duration of each step of a pod.
    pub fn pace(&self, step: Duration) {
        self.pace.store(step.as_millis().try_into().expect("a step is short"), Ordering::Relaxed);
    }

    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop();
    }
}

type Rules = Mutex<Vec<(Target, StepResult)>>;
/// Package, stage and node of each pod that was started.
type Begun = Mutex<Vec<[String; 3]>>;

fn turn(
    api: &Api,
    pods: &Pods,
    rules: &Rules,
    begun: &Begun,
    pace: Duration,
    stepped: &mut HashMap<String, Instant>,
) -> Result<()> {
    let known = pods.all();
    // Read the rules after the pods, so that a rule set before a pod was created applies to it.
    let rules = rules.lock().expect("no holder panics").clone();
    for pod in known {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let result = result(&rules, &pod);
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            pod["metadata"]["namespace"].as_str().unwrap_or_default(),
            pod["metadata"]["name"].as_str().unwrap_or_default()
        );
        if pod["spec"]["nodeName"].is_null() || result == StepResult::Unseen {
            continue;
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if result != StepResult::Undying {
                let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                pods.forget_missing(uid, api.delete(&path, &now));
            }
            continue;
        }
        if stepped.get(uid).is_some_and(|last| last.elapsed() < pace) {
            continue;
        }
        let since = stepped.get(uid).map_or(Duration::ZERO, Instant::elapsed);
        let Some(step) = steps::next(&pod, result, since) else {
            continue;
        };
        if step.reboots {
            reboot(api, pod["spec"]["nodeName"].as_str().unwrap_or_default())?;
        }
        // After a conflict, the next turn uses the current version of the pod.
        let guard = json!({"metadata": {"uid": uid}, "status": step.status});
        if let Some(stepped_pod) = pods.forget_missing(uid, api.merge(&format!("{path}/status"), &guard)) {
            pods.update(stepped_pod);
            let first = stepped.insert(uid.to_owned(), Instant::now()).is_none();
            if first {
                let note = note(&pod);
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let place = [&note["name"], &note["stage"], &pod["spec"]["nodeName"]].map(text);
                begun.lock().expect("no holder panics").push(place);
            }
        }
    }
    Ok(())
}

/// The operator's annotation that names the CR, package and stage of a pod.
fn note(pod: &Value) -> Value {
    let annotations = &pod["metadata"]["annotations"];
    ["skyhook.nvidia.com/package", "nodewright.nvidia.com/package"]
        .iter()
        .find_map(|key| annotations[key].as_str())
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .unwrap_or_default()
}

fn result(rules: &[(Target, StepResult)], pod: &Value) -> StepResult {
    let package = note(pod);
    let is = |wanted: &Option<String>, value: &Value| wanted.as_deref().is_none_or(|wanted| value == wanted);
    rules
        .iter()
        .rev()
        .find(|(target, _)| {
            is(&target.skyhook, &package["skyhook"])
                && is(&target.package, &package["name"])
                && is(&target.stage, &package["stage"])
                && is(&target.node, &pod["spec"]["nodeName"])
                && is(&target.pod, &pod["metadata"]["name"])
        })
        .map_or(StepResult::Succeed, |(_, result)| *result)
}

/// Changes the boot ID, as a restart does. The node stays Ready: boot time is not simulated.
fn reboot(api: &Api, node: &str) -> Result<()> {
    let path = format!("/api/v1/nodes/{node}/status");
    let boots = api.get(&path)?["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default().len();
    api.merge(&path, &json!({"status": {"nodeInfo": {"bootID": "b".repeat(boots + 1)}}}))?;
    Ok(())
}
