//! `package status` on captured clusters, and with unknown names.

use crate::support::clusters;
use crate::support::run::{RunOutput, run, without_time};
use insta::assert_snapshot;

/// The name of the custom resource in a capture.
fn skyhook(path: &str) -> String {
    let page = run(&format!("status -o json --from {path}")).output().json();
    page["items"][0]["name"].as_str().expect("the capture has a custom resource").to_owned()
}

fn of(cluster: &str, words: &str) -> RunOutput {
    run(&format!("package status {words} --from tests/clusters/{cluster}")).output()
}

#[test]
fn output_matches_snapshots() {
    for captured in clusters::on_screen() {
        let path = captured.path();
        let page = run(&format!("status -o json --from {path}")).output().json();
        if page["items"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let name = skyhook(&path);
        let words = format!("package status --skyhook {name} --from {path}");
        let mut transcript = run(&words).output().transcript();
        transcript += &run(&format!("{words} -o wide")).output().transcript();
        assert_snapshot!(format!("package_status_{}", captured.name), transcript);
    }
}

#[test]
fn json_has_every_field() {
    let ran = of("apply-erroring", "driver --skyhook gpu-tune --node node-2 -o json");
    assert_snapshot!(ran.transcript());
    let ran = of("complete", "--skyhook gpu-tune -o json");
    for row in ran.json()["items"].as_array().expect("a list") {
        for field in ["skyhook", "node", "package", "version", "image", "stage", "state"] {
            assert!(row[field].is_string(), "{field} of {row}");
        }
        assert_eq!(row["restarts"], 0);
    }
}

/// The version on the host: the old one, until the new one is complete.
#[test]
fn installed_versions_and_interrupts_are_in_documents() {
    let document = of("upgrade-in-progress", "-o json").document();
    let rows = document["items"].as_array().expect("a list").iter();
    let rows = rows.map(|row| {
        let fields = ["node", "package", "version", "stage", "state", "installed", "interrupt"];
        fields.map(|field| row[field].to_string()).join(" ") + "\n"
    });
    assert_snapshot!(rows.collect::<String>());
    assert!(document["takenAt"].is_string());
}

#[test]
fn malformed_state_is_a_row_for_every_package() {
    let ran = of("malformed-node-state", "driver --skyhook gpu-tune -o json --node node-1");
    assert_snapshot!(ran.transcript());
}

#[test]
fn empty_result_is_an_empty_list_and_no_error() {
    let ran = of("complete", "--skyhook gpu-tune -l no=such -o json");
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str(), ran.code),
        (
            "{\n    \"apiVersion\": \"kubectl-skyhook/v1\",\n    \"kind\": \"PackageStatus\",\n    \
             \"takenAt\": \"2026-11-20T16:08:57Z\",\n    \"items\": []\n}\n",
            "gpu-tune does not select these nodes and has no state on them.\n",
            Some(0)
        )
    );
}

#[test]
fn nodes_are_selected_by_name_glob_regex_and_label() {
    let nodes = |words: &str| {
        let ran = of("complete", &format!("driver --skyhook gpu-tune -o name {words}"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    assert_eq!(nodes("--node node-2"), "node/node-2\n");
    assert_eq!(nodes("--node node-1,node-3"), "node/node-1\nnode/node-3\n");
    assert_eq!(nodes("--node node-1 --node node-[23]"), "node/node-1\nnode/node-2\nnode/node-3\n");
    assert_eq!(nodes("--match node-[23]"), nodes("--node node-[23]"));
    assert_eq!(nodes("-l kubernetes.io/hostname!=node-1"), nodes("--node node-[23]"));
}

#[test]
fn unknown_name_is_an_error_with_suggestions() {
    assert_snapshot!(of("complete", "drivr --skyhook gpu-tune").transcript());
    assert_snapshot!(of("complete", "zebra --skyhook gpu-tune").transcript());
    assert_snapshot!(of("complete", "driver --skyhook gpu-tunes").transcript());
    assert_snapshot!(of("complete", "driver --skyhook gpu-tune --node node-9").transcript());
    assert_snapshot!(of("complete", "driver").transcript());
    assert_snapshot!(of("complete", "driver --skyhook gpu-tune -l =").transcript());
}

#[test]
fn package_name_prefix_does_not_match() {
    let ran = of("apply-erroring", "driv --skyhook gpu-tune");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn server_and_files_give_the_same_output() {
    for name in ["apply-erroring", "upgrade-in-progress"] {
        let captured = clusters::named(name);
        let served = captured.served().serve();
        let live = run("package status --skyhook gpu-tune -o json").kubeconfig(&served.kubeconfig()).output();
        let files = of(name, "--skyhook gpu-tune -o json");
        assert_eq!(without_time(&live.stdout), without_time(&files.stdout));
    }
}

#[test]
fn unreadable_sources_are_errors_or_reported() {
    let captured = clusters::named("complete");
    for source in ["nodes", "skyhooks"] {
        let fake = captured.served();
        fake.on(&format!("LIST {source}")).reply(403);
        let served = fake.serve();
        let ran = run("package status --skyhook gpu-tune").kubeconfig(&served.kubeconfig()).output();
        assert_snapshot!(ran.transcript());
    }
}

#[test]
fn sorted_names_are_printed_once() {
    let ran = of("complete", "--skyhook gpu-tune -o name --sort-by {.version}");
    assert_eq!(
        ran.parts(),
        ("node/node-1\nnode/node-2\nnode/node-3\n", "2 packages on 3 nodes: 6 complete\n", Some(0))
    );
}

#[test]
fn versions_are_a_document() {
    assert_snapshot!(of("upgrade-in-progress", "--versions -o json").transcript());
}
