//! Appends the attempts of a failing stage to a message.

use jiff::SignedDuration;

use super::reason::shown;
use crate::api::Entry;
use crate::cluster::{Cluster, PackageRun, Pod};
use crate::rules::package_pods_evicted::eviction_cause;

/// Appends the attempts: `package driver fails at stage apply: its job is retrying, 1 failed attempt so far`.
pub fn with_attempts(
    what: String,
    cluster: &Cluster,
    entry: &Entry,
    package_run: Option<&PackageRun<'_>>,
    retries: bool,
) -> String {
    let Some((package_run, job)) = package_run.and_then(|run| run.job.map(|job| (run, job))) else {
        return if retries { format!("{what}; the operator is still retrying") } else { what };
    };
    let timeout = || {
        let seconds = job.timeout().map(SignedDuration::from_secs);
        seconds.map_or_else(String::new, |s| format!(" of {s:#}"))
    };
    let over = package_run.timed_out().is_some() || job.deadline_exceeded();
    let what = match package_run.foreign_deadline().filter(|_| job.deadline_exceeded()) {
        Some(seconds) => {
            let limit = SignedDuration::from_secs(seconds);
            format!("{what}: its job exceeded its own deadline of {limit:#}, which the operator does not set")
        }
        None if over => format!("{what}: the stage exceeded its timeout{}", timeout()),
        None => what,
    };
    let what = match job.failed_by_kubelet(&package_run.pods) {
        Some(pod) => format!("{what}: {}", ended_by_kubelet(cluster, pod)),
        None => what,
    };
    let failed = package_run.failed_attempts(cluster.flavor(), entry);
    // The entry is erroring, so at least one attempt has failed, even if the Job does not count it yet.
    let attempts = match failed.max(1) {
        1 => "1 failed attempt".to_owned(),
        n => format!("{n} failed attempts"),
    };
    let and = if over { ", and" } else { ":" };
    match job.failed() {
        Some(_) if failed == 0 => format!("{what}{and} its job has failed permanently"),
        Some(_) if package_run.restart_limit_exceeded(cluster.flavor()).is_some() => {
            format!("{what}{and} {attempts}, and the operator ended the job at the restart limit")
        }
        Some(_) => format!("{what}{and} its job has failed permanently ({attempts})"),
        None if !retries => what,
        None if job.status.succeeded > 0 => {
            format!("{what}, but its job has since succeeded; the operator has not recorded the result yet")
        }
        None if job.restarts_in_place() => {
            let until = match package_run.restart_allowance(cluster.flavor()) {
                Some(limit) => format!("at most {limit} times"),
                None if job.timeout().is_some() => {
                    format!("until its timeout{} expires", timeout())
                }
                None => "without a limit".to_owned(),
            };
            format!("{what}{and} its container is restarted {until}; {attempts} so far")
        }
        None => format!("{what}{and} its job is retrying, {attempts} so far"),
    }
}

/// Why the kubelet ended the pods of all attempts.
fn ended_by_kubelet(cluster: &Cluster, pod: &Pod) -> String {
    let ending = cluster.ending(pod);
    let (reason, message) = ending.map_or(("", ""), |ending| (ending.reason, ending.message));
    if !pod.evicted() {
        let message = shown(message).map_or_else(String::new, |message| format!(": {message}"));
        return format!("the kubelet rejected all its pods ({reason}{message})");
    }
    let counted = match cluster.kubernetes().filter(|_| cluster.counts_evictions()) {
        Some(kubernetes) => format!("Kubernetes {} counts evictions as failed attempts", kubernetes.version),
        None => "the job counted this as failed attempts".to_owned(),
    };
    format!("the kubelet evicted all its pods ({}), and {counted}", eviction_cause(message))
}
