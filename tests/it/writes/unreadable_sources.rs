//! If a source is unreadable, a command makes its usual change or no change.

use kubectl_skyhook::api::ApiFlavor;

use super::{CR, TestCluster};
use crate::support::fake_api::{Problem, Reply};
use crate::support::run::RunOutput;

/// The faults of a list, each once or always.
fn list_faults() -> Vec<(&'static str, Reply, usize)> {
    const ALWAYS: usize = usize::MAX;
    let body = |text: &str| Reply::Body(text.to_owned());
    let busy = Problem { retry_after: Some(0), ..Problem::new(503, "ServiceUnavailable", "later") };
    vec![
        ("cut once", Reply::Cut, 1),
        ("broken off once", Reply::Half, 1),
        ("cut always", Reply::Cut, ALWAYS),
        ("401", Reply::from(401), ALWAYS),
        ("403", Reply::from(403), ALWAYS),
        ("500 once", Reply::from(500), 1),
        ("500 always", Reply::from(500), ALWAYS),
        ("503 once", Reply::Problem(busy), 1),
        ("a page", body("<!DOCTYPE html><title>Sign in</title>"), ALWAYS),
        ("null", body("null"), ALWAYS),
    ]
}

/// A command, a capture on which it writes, the command to run before it, and the sources that it requires.
#[derive(Clone)]
struct Case {
    words: &'static str,
    cluster: &'static str,
    first: &'static str,
    required: &'static [&'static str],
}

const REQUIRED_FOR_CHANGES: &[&str] = &["skyhooks", "nodes"];

const fn case(words: &'static str, cluster: &'static str) -> Case {
    Case { words, cluster, first: "", required: REQUIRED_FOR_CHANGES }
}

/// Every command whose plan depends on lists. `pause` and `disable` are for emergencies and require no list;
/// `undo` and `apply-plan` read each object separately.
fn commands() -> Vec<Case> {
    vec![
        case("reset gpu-tune --no-pause", "apply-erroring"),
        case("node reset node-2 --skyhook gpu-tune --no-pause", "apply-erroring"),
        case("package rerun driver --skyhook gpu-tune --node node-2 --no-pause", "apply-erroring"),
        case("update-state gpu-tune driver 2.0.1 config complete --node node-2 --no-pause", "apply-erroring"),
        case("deployment-policy reset gpu-tune", "rollout-stopped"),
        Case { first: "pause gpu-tune -y", ..case("resume gpu-tune", "complete") },
        Case { first: "disable gpu-tune -y", ..case("enable gpu-tune", "complete") },
        Case { required: &["nodes"], ..case("node ignore node-2", "complete") },
        Case { first: "node ignore node-2 -y", ..case("node unignore node-2", "complete") },
        case("uninstall gpu-tune driver --enable", "complete"),
        case("finalizer strip gpu-tune --force", "deleted-while-erroring"),
        case("leftovers --clean --node node-1", "finalizer-stripped"),
        case("leftovers --clean", "finalizer-stripped"),
        case("undelete gpu-tune", "deleted-while-paused"),
    ]
}

fn prepared(case: &Case) -> TestCluster {
    let test_cluster = TestCluster::from_capture(case.cluster);
    if !case.first.is_empty() {
        test_cluster.run(case.first).expect_code(0);
    }
    test_cluster
}

fn go(test_cluster: &TestCluster, case: &Case) -> RunOutput {
    test_cluster.run(&format!("{} -y -o json", case.words))
}

#[test]
fn unreadable_source_gives_the_usual_change_or_none() {
    // Run in parallel: the commands spend most of the time waiting for retries of reads.
    std::thread::scope(|scope| {
        for case in commands() {
            let undisturbed = prepared(&case);
            let before = undisturbed.writes().len();
            go(&undisturbed, &case).expect_code(0);
            let mut as_ever = undisturbed.writes()[before..].to_vec();
            as_ever.sort();
            assert_ne!(as_ever, [""; 0], "{} has something to do", case.words);
            for source in case.required {
                let (case, as_ever) = (case.clone(), as_ever.clone());
                scope.spawn(move || check_without(&case, source, &as_ever));
            }
        }
    });
}

/// Injects every fault into the lists of one source, and checks the result.
fn check_without(case: &Case, source: &str, as_ever: &[String]) {
    for (how, reply, times) in list_faults() {
        let test_cluster = prepared(case);
        let before = test_cluster.writes().len();
        let pattern = format!("LIST {source}");
        test_cluster.fake.on(&pattern).times(times).reply(reply);
        let ran = go(&test_cluster, case);
        let mut writes = test_cluster.writes()[before..].to_vec();
        let about = format!("{source}: {how}\n{}", ran.transcript());
        if times == 1 {
            writes.sort();
            assert_eq!((ran.code, writes.as_slice()), (Some(0), as_ever), "{about}");
        } else {
            assert_eq!((ran.code, writes.len()), (Some(1), 0), "{about}");
            assert!(ran.stderr.contains("error: cannot read "), "{about}");
            assert!(ran.stderr.contains("; nothing was changed\n"), "{about}");
        }
    }
}

/// Absence is proven only by a valid response from the API server: a complete list without the object, or a
/// 404.
#[test]
fn reset_without_the_custom_resource_needs_proof_of_absence() {
    let test_cluster = TestCluster::from_capture("finalizer-stripped");
    test_cluster.run(&format!("reset {CR} -y")).expect_code(0);
    assert_ne!(test_cluster.writes(), [""; 0]);
    // A web page is no proof, and neither is an invalid discovery response.
    for body in ["<html>not here</html>", "{}", "null"] {
        let test_cluster = TestCluster::from_capture("finalizer-stripped");
        test_cluster
            .fake
            .on(&format!("GET /apis/{}", ApiFlavor::Skyhook.api_version()))
            .reply(Reply::Body(body.to_owned()));
        let ran = test_cluster.run(&format!("reset {CR} -y"));
        ran.expect_code(1);
        assert_eq!(test_cluster.writes(), [""; 0], "{}", ran.transcript());
    }
}

/// `pause` does not need to read the cluster; one warning names all unread sources.
#[test]
fn pause_works_without_reading_the_cluster() {
    let test_cluster = TestCluster::from_capture("complete");
    for source in ["skyhooks", "deployments", "pods"] {
        test_cluster.fake.on(&format!("LIST {source}")).reply(403);
    }
    let ran = test_cluster.run("pause gpu-tune -y");
    ran.expect_code(0);
    assert_eq!(test_cluster.writes().len(), 1, "{}", ran.transcript());
    let warnings = ran.stderr.lines().filter(|l| l.starts_with("warning: "));
    assert_eq!(warnings.count(), 1, "{}", ran.transcript());
    ran.expect_stderr("the plan was made without");
}

/// A user without read rights gets one error that names the required rights.
#[test]
fn user_without_rights_gets_one_error() {
    for words in
        ["status", "diagnose", "node status", "package status --skyhook gpu-tune", "reset gpu-tune -y"]
    {
        let test_cluster = TestCluster::from_capture("complete");
        test_cluster.fake.on("LIST *").reply(403);
        let ran = test_cluster.run(words);
        ran.expect_code(1);
        assert_eq!(ran.stdout, "", "{}", ran.transcript());
        let forbidden = ran.stderr.matches("forbidden").count();
        assert_eq!(forbidden, 1, "{}", ran.transcript());
        ran.expect_stderr("hint: kubectl skyhook rbac");
        assert_eq!(test_cluster.writes(), [""; 0]);
    }
}
