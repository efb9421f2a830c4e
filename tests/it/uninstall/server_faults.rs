//! Server errors that the wait survives: restarts, cut connections, expired versions, missing rights.

use super::{SKYHOOK, UNDER_WAY, installed, nodes, uninstall, uninstalled};
use crate::support::fake_api::{FakeApi, Reply};

/// Runs the wait, which must succeed; returns its warnings after the preview.
fn warnings_of_success(fake: &FakeApi) -> Vec<String> {
    let ran = uninstall(fake, "--wait");
    ran.expect_code(0);
    assert_eq!(
        ran.stdout,
        "uninstall driver of gpu, and wait: 1 changed\ndriver 1.0.0 is gone from all nodes\n"
    );
    let warnings = ran.stderr.lines().filter(|l| l.starts_with("warning:"));
    warnings.map(str::to_owned).collect()
}

fn watches(fake: &FakeApi, of: &str) -> usize {
    let lines = fake.lines();
    let watches = lines.iter().filter(|l| l.contains(of) && l.contains("watch=true"));
    watches.count()
}

#[test]
fn wait_survives_a_server_restart() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(|it| {
        nodes(SKYHOOK, [&[UNDER_WAY], &[]])(it);
        it.store.history.disconnect();
    });
    // The server is down: neither watches nor lists work, for longer than reads are retried.
    fake.on("WATCH *").nth(4).times(16).reply(Reply::Cut);
    fake.on("LIST nodes").nth(3).times(4).reply(Reply::Cut);
    fake.on("LIST nodes").nth(3).times(4).reply(500);
    fake.on("LIST nodes").nth(6).after(uninstalled(SKYHOOK));
    fake.on("LIST events").nth(5).after(uninstalled(SKYHOOK));
    let warnings = warnings_of_success(&fake);
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("; trying again"), "{warnings:#?}");
}

#[test]
fn cut_watch_is_resumed_silently() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(|it| it.store.history.disconnect());
    fake.on("LIST events").nth(5).after(uninstalled(SKYHOOK));
    let warnings = warnings_of_success(&fake);
    assert!(warnings.is_empty(), "{warnings:?}");
    // The watch was resumed without a list.
    assert_eq!(watches(&fake, "/api/v1/nodes?"), 2);
    let lists = fake.lines().into_iter();
    let lists = lists.filter(|l| l.contains("/api/v1/nodes?") && !l.contains("watch=true"));
    assert_eq!(lists.count(), 1);
}

#[test]
fn wait_survives_an_expired_resource_version() {
    for how in ["answer", "event"] {
        let fake = installed(SKYHOOK);
        let expired =
            r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410,"reason":"Expired"}}"#;
        let reply = match how {
            "answer" => Reply::from(410),
            _ => Reply::Body(format!("{expired}\n")),
        };
        fake.on("WATCH nodes").nth(1).reply(reply);
        fake.on("WATCH nodes").nth(1).after(uninstalled(SKYHOOK));
        let warnings = warnings_of_success(&fake);
        assert!(warnings.is_empty(), "{how}: {warnings:?}");
    }
}

#[test]
fn lost_watch_event_is_found_by_a_new_list() {
    let fake = installed(SKYHOOK);
    fake.on("LIST events").nth(3).after(|it| {
        uninstalled(SKYHOOK)(it);
        // No watch event announced the change.
        it.store.history.forget();
        it.store.history.disconnect();
    });
    let _ = warnings_of_success(&fake);
}

#[test]
fn truncated_watch_line_is_ignored() {
    let fake = installed(SKYHOOK);
    let half = r#"{"type":"MODIFIED","object":{"metadata":{"name":"node-1""#;
    fake.on("WATCH nodes").nth(1).reply(Reply::Body(half.to_owned()));
    fake.on("WATCH nodes").nth(1).after(uninstalled(SKYHOOK));
    let _ = warnings_of_success(&fake);
}

#[test]
fn missing_watch_permission_falls_back_to_lists() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH *").reply(403);
    fake.on("LIST nodes").nth(4).after(uninstalled(SKYHOOK));
    let _ = warnings_of_success(&fake);
}

#[test]
fn rejected_credentials_are_an_error() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH *").reply(401);
    for kind in ["skyhooks", "deploymentpolicies", "nodes", "pods"] {
        fake.on(&format!("LIST {kind}")).nth(2).times(100).reply(401);
    }
    let ran = uninstall(&fake, "--wait");
    ran.expect_code(1);
    assert!(ran.stdout.contains("does not accept the credentials"), "{}", ran.stdout);
}
