//! `status` and `uninstall status` over captured clusters.

use insta::assert_snapshot;

use crate::support::clusters;
use crate::support::run::run;

#[test]
fn a_cluster_on_one_page() {
    for captured in clusters::on_screen() {
        let from = captured.path();
        let mut transcript = run(&format!("status --from {from}")).go().transcript();
        transcript += &run(&format!("status -o wide --from {from}"))
            .go()
            .transcript();
        assert_snapshot!(format!("status_{}", captured.name), transcript);
    }
}

#[test]
fn uninstall_status_on_screen() {
    for captured in clusters::on_screen() {
        let from = captured.path();
        let mut transcript = run(&format!("uninstall status --from {from}"))
            .go()
            .transcript();
        transcript += &run(&format!("uninstall status -o wide --from {from}"))
            .go()
            .transcript();
        assert_snapshot!(format!("uninstall_status_{}", captured.name), transcript);
    }
}

#[test]
fn for_machines() {
    let from = "--from tests/clusters/rollout-stopped";
    assert_snapshot!(run(&format!("status -o json {from}")).go().transcript());
    assert_snapshot!(run(&format!("status -o name {from}")).go().transcript());
    let from = "--from tests/clusters/uninstall-erroring";
    assert_snapshot!(
        run(&format!("uninstall status -o json {from}"))
            .go()
            .transcript()
    );
    assert_snapshot!(
        run(&format!("uninstall status gpu-tune tuning {from}"))
            .go()
            .transcript()
    );
}

#[test]
fn names_that_are_not_there() {
    let from = "--from tests/clusters/two-priorities";
    assert_snapshot!(run(&format!("status second {from}")).go().transcript());
    assert_snapshot!(run(&format!("status secnd {from}")).go().transcript());
    assert_snapshot!(
        run(&format!("uninstall status first bas {from}"))
            .go()
            .transcript()
    );
}

#[test]
fn a_server_gives_what_files_give() {
    for name in ["apply-erroring", "uninstall-erroring", "two-priorities"] {
        let captured = clusters::named(name);
        let served = captured.served().serve();
        let asked = run("diagnose stuck -o json").kubeconfig(&served.kubeconfig());
        let asked = asked.go().json();
        let now = asked["takenAt"].as_str().expect("a time");
        for words in ["status -o json", "uninstall status -o json"] {
            let live = run(words).kubeconfig(&served.kubeconfig()).go().json();
            let path = captured.path();
            let files = run(&format!("{words} --from {path} --now {now}"))
                .go()
                .json();
            assert_eq!(live["items"], files["items"], "{words} of {name}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let captured = clusters::named("complete");
    for source in ["skyhooks", "nodes", "pods", "deployments"] {
        let fake = captured.served();
        fake.on(&format!("LIST {source}")).reply(403);
        let served = fake.serve();
        let ran = run("status").kubeconfig(&served.kubeconfig()).go();
        assert_snapshot!(ran.transcript());
    }
}

/// Files without custom resources do not tell whether one is gone.
#[test]
fn what_may_still_exist_is_not_called_gone() {
    for cluster in ["finalizer-stripped", "deleted-after-reset"] {
        let ran = run(&format!("status --from tests/clusters/{cluster}")).go();
        assert!(
            ran.stdout.contains("so it may still exist"),
            "{}",
            ran.transcript()
        );
        assert!(!ran.stdout.contains("gone, but"), "{}", ran.transcript());
    }
}

/// An older version may have been there, as the rule about this cluster says.
#[test]
fn what_was_never_there_is_named_with_its_version() {
    let from = "--from tests/clusters/version-changed-while-uninstalling";
    let ran = run(&format!("uninstall status {from}")).go();
    let rows = ran
        .stdout
        .lines()
        .filter(|l| l.contains("2.1.0 never there"));
    assert_eq!(rows.count(), 3, "{}", ran.transcript());
}
