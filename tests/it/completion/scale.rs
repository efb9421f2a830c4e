//! Duration of completion with many nodes.

use std::time::{Duration, Instant};

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::{complete, stdout};
use crate::support::{
    fake_api::{FakeApi, Reply},
    run::released,
};

/// Maximum duration of a completion in an optimized build, including the server.
const BUDGET: Duration = Duration::from_millis(150);
/// Factor on [`BUDGET`]: this build is not optimized and shares the machine with other tests; a release build
/// is tested alone.
const SLOWER: u32 = 8;

#[test]
fn completion_of_15000_nodes_stays_in_its_time_budget() {
    // A row as the server sends it: all columns of `kubectl get nodes -o wide`.
    let row = |n: usize| {
        let name = format!("gpu-{n:05}");
        let status = if n == 7 { "Ready,SchedulingDisabled" } else { "Ready" };
        json!({"cells": [name, status, "<none>", "41d", "v1.33.1", "10.0.0.1", "<none>",
            "Ubuntu 24.04.2 LTS", "6.8.0-60-generic", "containerd://2.0.5"], "object": null})
    };
    let columns = [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "Internal-IP",
        "External-IP",
        "OS-Image",
        "Kernel-Version",
        "Container-Runtime",
    ];
    let table = json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "columnDefinitions": columns.map(|name| json!({"name": name, "type": "string"})),
        "rows": (1..=15_000).map(row).collect::<Vec<_>>(),
    });
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook);
    fake.on("LIST nodes").reply(Reply::Body(table.to_string()));
    let served = fake.serve();
    let ask = || {
        let begun = Instant::now();
        let ran = complete("node status gpu-0000").kubeconfig(&served.kubeconfig()).output();
        (begun.elapsed(), stdout(ran))
    };
    let expected: String = (1..=9)
        .map(|n| match n {
            7 => "gpu-00007\tReady, SchedulingDisabled\n".to_owned(),
            n => format!("gpu-0000{n}\n"),
        })
        .collect();
    let budget = match released() {
        Some(_) => BUDGET,
        None => BUDGET * SLOWER,
    };
    // The machine may be busy for a moment, but not five times in a row.
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let (took, output) = ask();
        if output == ":1\n" {
            // Completion gives up after a second and a half.
            continue;
        }
        assert_eq!(output, format!("{expected}:4\n"));
        fastest = fastest.min(took);
        if fastest < BUDGET {
            break;
        }
    }
    assert!(fastest < budget, "it took {fastest:?}");
    assert!(fake.lines().iter().all(|line| line == "GET /api/v1/nodes?includeObject=None"));
}
