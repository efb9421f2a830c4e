//! Computes the next status of a pod from its current status and the result that the test chose.

use std::time::Duration;

use serde_json::{Value, json};

use super::StepResult;

const HALF_A_DAY: Duration = Duration::from_secs(12 * 60 * 60);

pub struct Step {
    pub status: Value,
    pub reboots: bool,
}

/// Delay before a crashed container starts again.
const BACK_OFF: Duration = Duration::from_millis(1500);

/// The next status of a pod that has had its current one for `since`. Like a kubelet, reports the success of a container
/// together with the start of the next one.
pub fn next(pod: &Value, result: StepResult, since: Duration) -> Option<Step> {
    let mut step = single(pod, result, since)?;
    let succeeded = |status: &Value| {
        let containers = status["initContainerStatuses"].as_array();
        containers.into_iter().flatten().filter(|c| c["state"]["terminated"]["exitCode"] == 0).count()
    };
    if succeeded(&step.status) == succeeded(&pod["status"]) {
        return Some(step);
    }
    let mut later = pod.clone();
    later["status"] = step.status.clone();
    if let Some(start) = single(&later, result, Duration::ZERO) {
        step.status = start.status;
    }
    Some(step)
}

fn single(pod: &Value, result: StepResult, since: Duration) -> Option<Step> {
    if matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return None;
    }
    if result == StepResult::Rejected {
        let status = json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"});
        return Some(Step { status, reboots: false });
    }
    let mut containers = statuses(pod, "initContainers", "initContainerStatuses");
    let failing = usize::from(containers.len() > 1);
    let never = pod["spec"]["restartPolicy"] == "Never";
    let mut reboots = false;
    let current = containers.iter().position(|c| c["state"]["terminated"]["exitCode"] != 0);
    if let Some(index) = current {
        let mine = if index == failing { result } else { StepResult::Succeed };
        let mine = if index == 0 && matches!(result, StepResult::PullFails | StepResult::PullsLate) {
            result
        } else {
            mine
        };
        let container = &mut containers[index];
        let state = container["state"].clone();
        if state["terminated"].is_object() {
            if never {
                return Some(Step { status: summed_up(pod, "Failed", containers), reboots });
            }
            // Like a kubelet, show the crash first and the waiting state in a later step.
            container["lastState"] = state;
            container["restartCount"] = json!(container["restartCount"].as_i64().unwrap_or(0) + 1);
            // The first restart is immediate; later ones back off.
            container["state"] = match container["restartCount"].as_i64() {
                Some(1) => json!({"running": {"startedAt": now()}}),
                _ => waiting("CrashLoopBackOff", "back-off 10s restarting failed container"),
            };
        } else if state["running"].is_object() {
            let restarted = container["restartCount"].as_i64().unwrap_or(0) > 0;
            container["state"] = match mine {
                StepResult::Exit(code) => ended(code, "Error"),
                StepResult::ExitOnce(code) if !restarted => ended(code, "Error"),
                StepResult::OutOfMemory => ended(137, "OOMKilled"),
                StepResult::Hang | StepResult::LongHang | StepResult::Undying => return None,
                StepResult::TimesOut => {
                    let mut status = pod["status"].clone();
                    status["phase"] = json!("Failed");
                    status["reason"] = json!("DeadlineExceeded");
                    status["message"] =
                        json!("Pod was active on the node longer than the specified deadline");
                    return Some(Step { status, reboots });
                }
                _ if is_reboot(pod) && !restarted => {
                    reboots = true;
                    rebooted(container, mine)
                }
                _ => {
                    container["ready"] = json!(true);
                    ended(0, "Completed")
                }
            };
        } else {
            let reason = state["waiting"]["reason"].as_str().unwrap_or_default();
            if reason == "CrashLoopBackOff" && since < BACK_OFF {
                return None;
            }
            let refusal = refusal(&pod["spec"]["initContainers"][index]);
            if refusal.is_some_and(|(refused, _)| refused == reason) {
                return None;
            }
            container["state"] = match (mine, reason) {
                _ if let Some((refused, why)) = refusal => waiting(refused, why),
                (StepResult::PullsLate, "ErrImagePull") if since < BACK_OFF => return None,
                (StepResult::PullsLate, reason) if reason != "ErrImagePull" => {
                    waiting("ErrImagePull", "failed to resolve reference: i/o timeout")
                }
                (StepResult::PullFails, "ImagePullBackOff") => return None,
                (StepResult::PullFails, "ErrImagePull") => {
                    waiting("ImagePullBackOff", "Back-off pulling image")
                }
                (StepResult::PullFails, _) => {
                    waiting("ErrImagePull", "failed to resolve reference: not found")
                }
                (StepResult::LongHang, _) => json!({"running": {"startedAt": ago(HALF_A_DAY)}}),
                _ => json!({"running": {"startedAt": now()}}),
            };
        }
        return Some(Step { status: summed_up(pod, "Pending", containers), reboots });
    }
    main_containers(pod, result, containers).map(|status| Step { status, reboots })
}

/// Waiting reason and message of a container that can never start: its image has no repository, or its
/// environment needs a Secret (there are none).
fn refusal(container: &Value) -> Option<(&'static str, &'static str)> {
    let image = container["image"].as_str().unwrap_or_default();
    let mut env = container["env"].as_array().into_iter().flatten();
    if !image.contains('/') {
        Some(("ImagePullBackOff", "Back-off pulling image"))
    } else if env.any(|variable| variable["valueFrom"]["secretKeyRef"].is_object()) {
        Some(("CreateContainerConfigError", "secret not found"))
    } else {
        None
    }
}

/// Runs the main containers after the init containers: those of a Job end, all others keep running.
fn main_containers(pod: &Value, result: StepResult, init: Vec<Value>) -> Option<Value> {
    let of_job = pod["metadata"]["ownerReferences"][0]["kind"] == "Job";
    let mut containers = statuses(pod, "containers", "containerStatuses");
    let running = containers.iter().all(|c| c["state"]["running"].is_object());
    if running && (!of_job || matches!(result, StepResult::Hang | StepResult::Undying)) {
        return None;
    }
    let (phase, state) = if running {
        ("Succeeded", ended(0, "Completed"))
    } else {
        ("Running", json!({"running": {"startedAt": now()}}))
    };
    for container in &mut containers {
        container["ready"] = json!(phase == "Running");
        container["state"] = state.clone();
    }
    let mut status = summed_up(pod, phase, init);
    status["containerStatuses"] = Value::Array(containers);
    Some(status)
}

fn rebooted(container: &mut Value, result: StepResult) -> Value {
    if result == StepResult::RoughReboot {
        return ended(143, "Error");
    }
    container["lastState"] = ended(143, "Error");
    container["restartCount"] = json!(1);
    json!({"running": {"startedAt": now()}})
}

fn summed_up(pod: &Value, phase: &str, init: Vec<Value>) -> Value {
    let initialized = matches!(phase, "Running" | "Succeeded");
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": now()})
    };
    let ready = phase == "Running";
    let started = pod["status"]["startTime"].as_str().map_or_else(now, str::to_owned);
    json!({
        "phase": phase,
        "startTime": started,
        "hostIP": "127.0.0.1",
        "conditions": [
            condition("PodScheduled", true), condition("Initialized", initialized),
            condition("ContainersReady", ready), condition("Ready", ready),
        ],
        "initContainerStatuses": init,
        "containerStatuses": statuses(pod, "containers", "containerStatuses"),
    })
}

/// The container statuses so far; a container without one is waiting.
fn statuses(pod: &Value, containers: &str, kept: &str) -> Vec<Value> {
    let known = pod["status"][kept].as_array().cloned().unwrap_or_default();
    let spec = pod["spec"][containers].as_array().cloned().unwrap_or_default();
    spec.iter()
        .map(|container| {
            let found = known.iter().find(|status| status["name"] == container["name"]).cloned();
            found.unwrap_or_else(|| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": "", "ready": false,
                    "restartCount": 0, "started": false, "lastState": {},
                    "state": waiting("PodInitializing", ""),
                })
            })
        })
        .collect()
}

fn waiting(reason: &str, message: &str) -> Value {
    match message {
        "" => json!({"waiting": {"reason": reason}}),
        message => json!({"waiting": {"reason": reason, "message": message}}),
    }
}

fn ended(code: i32, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now(), "finishedAt": now()}})
}

/// Whether the pod's interrupt is a reboot: the last argument is its JSON in base64, which starts with the
/// type.
fn is_reboot(pod: &Value) -> bool {
    let arguments = pod["spec"]["initContainers"][0]["args"].as_array();
    let last = arguments.and_then(|args| args.last()).and_then(Value::as_str).unwrap_or_default();
    last.starts_with("eyJ0eXBlIjoibm9kZV9yZXN0YXJ0I")
}

fn now() -> String {
    ago(Duration::ZERO)
}

fn ago(time: Duration) -> String {
    (jiff::Timestamp::now() - time).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
