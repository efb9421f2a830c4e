//! What `wait` reads, and what disturbs it: outages, refused credentials, APIs that are not served, signals.

use super::{complete, driver, in_progress, on_read, on_watch, wait};
use crate::support::fake_api::Reply;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{Child, run};
use crate::support::test_cluster::TestCluster;

#[test]
fn api_server_outage_is_tolerated_and_reported_at_begin_and_end() {
    let fake = in_progress(SKYHOOK, driver());
    // Each rule counts the requests that no earlier rule has answered.
    fake.on("WATCH skyhooks").nth(1).reply(410);
    let list = || fake.on("LIST skyhooks").nth(2);
    list().reply(Reply::Cut);
    list().reply(500);
    list().reply(401);
    list().reply(404);
    list().after(complete(SKYHOOK, driver()));
    let ran = wait(&fake, "gpu");
    assert_eq!((ran.stdout.as_str(), ran.code), ("skyhook/gpu complete\n", Some(0)));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [lost, restored] = lines.as_slice() else { panic!("{}", ran.stderr) };
    assert!(lost.contains("401 Unauthorized") && lost.contains("; trying again since "), "{lost}");
    assert!(restored.starts_with("the API server responds again, after "), "{restored}");
}

#[test]
fn rejected_credentials_are_an_error() {
    let fake = in_progress(SKYHOOK, driver());
    fake.on("WATCH *").reply(401);
    for kind in ["skyhooks", "deploymentpolicies", "nodes", "pods"] {
        fake.on(&format!("LIST {kind}")).nth(2).times(100).reply(401);
    }
    let ran = wait(&fake, "gpu");
    ran.expect_code(1);
    let says = "does not accept the credentials";
    ran.expect_stderr(says);
}

/// A wait without the right to read would never end.
#[test]
fn a_right_taken_away_is_an_error() {
    for (kind, resource) in [("nodes", "nodes"), ("skyhooks", "skyhooks.skyhook.nvidia.com")] {
        let fake = in_progress(SKYHOOK, driver());
        fake.on(&format!("WATCH {kind}")).reply(403);
        fake.on(&format!("LIST {kind}")).nth(2).times(100).reply(403);
        let ran = wait(&fake, "gpu --timeout 60s");
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)), "{}", ran.transcript());
        let lines: Vec<&str> = ran.stderr.lines().collect();
        let [lost, error] = lines.as_slice() else { panic!("{}", ran.stderr) };
        let why = format!(
            "forbidden: user jane cannot list {resource} at the cluster scope; check the permissions with kubectl auth can-i"
        );
        assert!(lost.starts_with(&format!("warning: {why}; trying again since ")), "{lost}");
        assert_eq!(*error, format!("error: {why}"));
    }
}

/// With 15,000 nodes each list of them would be megabytes.
#[test]
fn quiet_cluster_is_listed_once_and_watched() {
    let fake = in_progress(SKYHOOK, driver());
    on_read(&fake, 4, complete(SKYHOOK, driver()));
    let ran = wait(&fake, "gpu --timeout 60s");
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let lines = fake.lines();
    for list in ["/skyhooks", "/api/v1/nodes"] {
        let of = lines.iter().filter(|l| l.contains(list));
        let (watches, lists): (Vec<_>, Vec<_>) = of.partition(|l| l.contains("watch=true"));
        assert_eq!((watches.len(), lists.len()), (1, 1), "{lines:#?}");
    }
}

/// Operators before v0.10 know no deployment policies.
#[test]
fn unserved_api_is_not_awaited() {
    let fake = in_progress(SKYHOOK, driver());
    fake.on("LIST deploymentpolicies").reply(404);
    on_watch(&fake, complete(SKYHOOK, driver()));
    let ran = wait(&fake, "gpu");
    assert_eq!((ran.stdout.as_str(), ran.code), ("skyhook/gpu complete\n", Some(0)));
    assert!(!ran.stderr.contains("trying again"), "{}", ran.stderr);
    let lists = fake.lines();
    let lists = lists.iter().filter(|l| l.contains("/deploymentpolicies"));
    assert_eq!(lists.count(), 1);
}

/// The API is removed with its last object when the operator's chart is uninstalled.
#[test]
fn removed_api_counts_as_deleted() {
    let fake = in_progress(SKYHOOK, driver());
    fake.on("WATCH skyhooks").reply(404);
    fake.on("LIST skyhooks").nth(2).times(100).reply(404);
    assert_eq!(wait(&fake, "gpu --for=deleted").parts().0, "skyhook/gpu deleted\n");
}

/// A server that accepts connections and returns nothing does not outlast the time limit.
#[test]
fn time_limit_includes_the_first_read() {
    let fake = in_progress(SKYHOOK, driver());
    fake.on("LIST nodes").reply(Reply::Hang);
    let cluster = TestCluster::serving(fake);
    for (words, name) in [("wait --timeout 1s", "wait"), ("status -w --timeout 1s", "status")] {
        let ran = cluster.run(words);
        let expected = "error: the API server did not return the cluster's state within 1s\n\
             hint: kubectl skyhook diagnose check\n";
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("", expected, Some(5)), "{name}");
    }
}

#[test]
fn interrupt_reports_progress() {
    let fake = in_progress(SKYHOOK, driver());
    let child = Child::default();
    fake.on("WATCH nodes").nth(1).after(child.interrupt());
    let served = fake.serve();
    let ran = run("wait gpu --timeout 20s").kubeconfig(&served.kubeconfig()).child(&child).output();
    assert_eq!(ran.parts(), ("", "Interrupted: gpu: in_progress, 0 of 1 node done.\n", Some(130)));
}
