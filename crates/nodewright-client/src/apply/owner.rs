//! The identity of this process, and whether another process on this machine has ended.

use std::process::Command;

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
        machine: machine().unwrap_or_default(),
        process: std::process::id(),
        since: now,
    }
}

/// Whether the process of a holder is running; `None` for a process on another machine, and for a pause of an older
/// version, which identifies the machine by its name only.
pub fn runs(holder: &Holder) -> Option<bool> {
    // A holder with our process id is an earlier process, which has ended.
    let own = holder.process == std::process::id();
    (machine()? == holder.machine).then(|| !own && process_runs(holder.process))
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

/// The boot, and the PID namespace if there are several: the processes of two machines with one name, or of two
/// containers, have nothing to do with each other. `None` if the system has no boot ID.
fn machine() -> Option<String> {
    let boot = match std::env::consts::OS {
        "macos" => {
            let sysctl = Command::new("/usr/sbin/sysctl").args(["-n", "kern.bootsessionuuid"]).output();
            String::from_utf8(sysctl.ok()?.stdout).ok()?
        }
        _ => std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?,
    };
    let table = std::fs::read_link("/proc/self/ns/pid").map(|table| format!(" {}", table.display()));
    let boot = Some(boot.trim()).filter(|boot| !boot.is_empty())?;
    Some(format!("boot {boot}{}", table.unwrap_or_default()))
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
