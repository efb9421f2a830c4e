//! The identity of this process, and whether another process on this machine has ended.

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::hold::Holder;

/// The holder of pauses that this process sets.
pub fn of(now: Timestamp) -> Holder {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(variable);
    let host = host();
    Holder {
        by: match user {
            Some(user) => format!("{user}@{host}"),
            None => host.clone(),
        },
        machine: machine(host),
        process: std::process::id(),
        since: now,
    }
}

/// Whether the process of a holder is running; `None` for a process on another machine.
pub fn runs(holder: &Holder) -> Option<bool> {
    // A holder with our process id is an earlier process, which has ended.
    let own = holder.process == std::process::id();
    (holder.machine == machine(host())).then(|| !own && process_runs(holder.process))
}

/// Records in `cluster` whether the holders on this machine are running.
pub fn look(cluster: &mut Cluster) {
    let mut seen = Vec::new();
    for skyhook in cluster.skyhooks.items() {
        let hold = skyhook.hold();
        if let Some((identity, holder)) = hold.and_then(|h| Some((h.identity.to_owned(), h.holder?)))
            && let Some(runs) = runs(&holder)
        {
            seen.push((identity, runs));
        }
    }
    cluster.holders.extend(seen);
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The host and the PID namespace: containers on one host may share its name.
fn machine(host: String) -> String {
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(table) => format!("{host} {}", table.display()),
        Err(_) => host,
    }
}

#[cfg(unix)]
fn process_runs(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};

    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let signalled = pid.map(test_kill_process);
    // EPERM: the process of another user exists.
    let there = matches!(signalled, Some(Ok(()) | Err(rustix::io::Errno::PERM)));
    // Process ids are reused, so also compare the name.
    let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
    there && name.map_or(true, |name| name.starts_with("kubectl"))
}

#[cfg(not(unix))]
fn process_runs(_process: u32) -> bool {
    true
}
