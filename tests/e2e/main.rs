//! End-to-end tests with etcd, kube-apiserver, kube-controller-manager and the NodeWright operator.
//! README.md in this directory describes them.

// The harness starts programs, writes files and reads the clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::print_stderr)]

mod api;
mod bench;
mod capture;
mod cluster;
mod control_plane;
#[path = "../it/support/fault_checks/mod.rs"]
mod fault_checks;
#[path = "../it/support/fuzz.rs"]
mod fuzz;
mod kubelet;
mod manifest;
mod model;
mod operator;
mod ours;
#[path = "../it/support/proxy/mod.rs"]
mod proxy;
mod recorder;
mod report_stats;
mod rollout;
#[allow(dead_code, reason = "the hermetic tests ask for more")]
#[path = "../it/support/run.rs"]
mod run;
mod scenarios;
mod servers;

mod tools;
mod transcript;
#[path = "../it/support/unfolded.rs"]
mod unfolded;
mod view;

use std::{
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use libtest_mimic::Arguments;

use crate::tools::Tools;

fn main() -> ExitCode {
    if let Some(done) = bench::asked() {
        return done;
    }
    let arguments = Arguments::from_args();
    if !arguments.list {
        enter_network_namespace();
    }
    let tools = match Tools::provide() {
        Ok(tools) => tools,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let conclusion = libtest_mimic::run(&arguments, scenarios::all(&tools));
    cluster::pool::end();
    if report_stats::print_and_check() { conclusion.exit_code() } else { ExitCode::FAILURE }
}

const INSIDE: &str = "KUBECTL_SKYHOOK_E2E_NAMESPACE";

/// Restarts this program in a new network namespace, where loopback is the only interface: the operator
/// serves its webhooks on all interfaces, at a fixed port.
fn enter_network_namespace() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let myself = std::env::current_exe().expect("a running program has a path");
    for unshare in [&["--net"][..], &["--net", "--user", "--map-root-user"]] {
        let up = "ip link set lo up";
        let works = Command::new("unshare").args(unshare).args(["sh", "-c", up]).output();
        if works.is_ok_and(|out| out.status.success()) {
            let error = Command::new("unshare")
                .args(unshare)
                .args(["sh", "-c", &format!("{up} && exec \"$@\""), "sh"])
                .arg(myself)
                .args(std::env::args_os().skip(1))
                .env(INSIDE, "yes")
                .exec();
            panic!("unshare worked a moment ago: {error}");
        }
    }
    eprintln!("no network namespace to be had here: scenarios with webhooks are left out");
}

pub fn in_network_namespace() -> bool {
    std::env::var_os(INSIDE).is_some()
}
